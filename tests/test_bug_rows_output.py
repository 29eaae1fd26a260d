"""What commands print: the rows O of the shared material, and E01, through the whole command."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SCRIPTS = SHARED / "bugs/scripts"

pytestmark = pytest.mark.skipif(not SCRIPTS.exists(), reason="the scripted server and the scripts are not here")

UNASKED = ("--permission-mode", "bypass")


@pytest.fixture
def played(stage: Any, tmp_path: Path) -> Callable[..., Any]:
    """Run ``dsh -p`` with replies of a server, or a row's; with little memory, if it is told how much."""

    def run(script: Any, *arguments: str, memory: int | None = None) -> Any:
        if not isinstance(script, str):
            path = tmp_path / "script.json"
            path.write_text(json.dumps(script))
            script = path

        def limit() -> None:
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        with stage.serving(script):
            stage.freely = False
            ran = stage.run("go", *arguments, preexec_fn=limit)
        assert (ran.code, ran.out) == (0, "done\n"), ran.err
        return ran

    return run


def command(text: str, **more: Any) -> dict[str, Any]:
    return {"calls": [["@shell", {"command": text, **more}]]}


def sent(ran: Any, request: int) -> str:
    """The last message of a request, as the server got it."""
    content = ran.requests[request]["body"]["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_o01_output_without_end(played: Any, stage: Any) -> None:
    """Within 1.5 GB of address space; what is kept of it is bounded, and that is said."""
    ran = played("O01", *UNASKED, memory=1_500_000_000)
    text = sent(ran, 1)
    assert len(text) < 60_000
    assert text.startswith("y\ny\n")
    found = re.search(r"\[stdout has (\d+) bytes in (\d+) lines; (.*) (\S+/outputs/\S+\.log)(.*)\]", text)
    assert found is not None
    total, lines, _, path, after = found.groups()
    size = Path(path).stat().st_size
    if int(total) > size:
        assert size == 100_000_000
        assert f"its first {size} bytes are in" in found[0]
        assert after == ", the others are lost"
    assert int(total) == 2 * int(lines)
    assert stage.log.stat().st_size < 300_000


def test_o03_what_is_left_out_is_said(played: Any) -> None:
    ran = played("O03", *UNASKED)
    text = sent(ran, 1)
    whole = "".join(f"{number}\n" for number in range(1, 30_001)) + "你" * 3000
    head, many, name, tail = re.split(r"(?m)^\[(.*) of (stdout) are left out here\]\n", text)
    tail, _, said = tail.rpartition("\n[stdout has ")
    assert name == "stdout"
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert "\ufffd" not in text
    left = whole[len(head) : len(whole) - len(tail)]
    assert many == f"{len(left.encode())} bytes in {left.count(chr(10)) + (not left.endswith(chr(10)))} lines"
    assert said.startswith(f"{len(whole.encode())} bytes in 30001 lines; all of it is in ")
    (path,) = re.findall(r"all of it is in (\S+):", said)
    assert Path(path).read_text(encoding="utf-8") == whole
    assert len(text) < 26_000


def test_o04_control_sequences(played: Any) -> None:
    text = sent(played("O04", *UNASKED), 1)
    assert text == "2000%"


def test_e01_bytes_that_are_no_text_are_shown_clean(played: Any) -> None:
    text = sent(played("E01", *UNASKED), 1)
    assert text.startswith("\ufffd\ufffd\ufffdok\n")
    assert "ELF" in text
    assert not any(ord(char) < 0x20 and char not in "\n\t" for char in text)


@pytest.mark.parametrize("text", ["seq 1 20000", "seq 1 20000 | tr '\\n' ' '", "seq 1 9000 >&2; seq 1 9000; exit 1"])
def test_nothing_is_cut_twice(played: Any, text: str) -> None:
    """What is said to be in a file is there, and each marker tells of one cut."""
    shown = sent(played([command(text), {"text": "done"}], *UNASKED), 1)
    assert "the result has" not in shown
    marked = re.findall(r"bytes in \d+ lines? of (std\w+) are left out here", shown)
    named = re.findall(r"\[(std\w+) has (\d+) bytes in \d+ lines?; all of it is in (\S+):", shown)
    assert sorted(marked) == sorted(name for name, _, _ in named)
    assert named
    for _, size, path in named:
        assert Path(path).stat().st_size == int(size)


def test_the_model_looks_it_up_unasked_after_a_resume_and_it_goes_with_the_session(played: Any, stage: Any) -> None:
    """In the default mode, in which nobody may be asked here, and in the sandbox that there is."""
    played([command("for i in $(seq 20000); do echo line $i; done"), {"text": "done"}])
    (path,) = (stage.home / "session-data").rglob("*.log")
    other = stage.home / "session-data/other/outputs"
    other.mkdir(parents=True)
    (other / "x.log").write_text("somebody else's\n")
    replies = [
        command(f"grep -c 'line 1' {path}; sed -n 15000p {path}"),
        {"calls": [["@read", {"file_path": str(path), "offset": 17000, "limit": 2}]]},
        {"text": "done"},
    ]
    (stage.tmp / "requests.jsonl").unlink()
    ran = played(replies, "-c")
    assert sent(ran, 1) == "11111\nline 15000\n"
    assert "line 17000" in sent(ran, 2)
    (stage.tmp / "requests.jsonl").unlink()
    for refused in (command(f"cat {other}/x.log"), {"calls": [["@read", {"file_path": str(other / "x.log")}]]}):
        script = stage.tmp / "refused.json"
        script.write_text(json.dumps([refused, {"text": "done"}]))
        with stage.serving(script):
            ran = stage.run("go", "-c")
        assert ran.code == 3
        assert "somebody else's" not in json.dumps(stage.events())
    (stage.tmp / "requests.jsonl").unlink()
    ran = played(replies, "-c", "--fork")  # what its history names, a fork may read, too
    assert sent(ran, 1) == "11111\nline 15000\n"
    assert "line 17000" in sent(ran, 2)
    session = json.loads(stage.log.read_bytes().partition(b"\n")[0])["id"]
    gone = stage.start("sessions", "delete", session, "--yes")
    assert gone.communicate()[0] == f"deleted {session}\n"
    assert not path.exists()
    assert (other / "x.log").exists()


def test_without_a_stored_session_nothing_is_left(played: Any, stage: Any, tmp_path: Path) -> None:
    stage.env["TMPDIR"] = str(tmp_path / "temp")
    (tmp_path / "temp").mkdir()
    background = {"calls": [["@shell", {"command": "yes", "run_in_background": True}]]}
    played([command("seq 1 20000"), background, command("sleep 0.3"), {"text": "done"}], "--no-session", *UNASKED)
    assert not list((stage.home).rglob("*.log"))
    assert not [path for path in (tmp_path / "temp").iterdir() if path.name.startswith("dsh-bash-")]
