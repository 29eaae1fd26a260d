"""Faults that other harnesses had with damaged logs and full disks, through the whole command.

The rows J and D of the shared material (``bugs/bugs.md``).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")

WORKS: list[dict[str, Any]] = [
    {"calls": [["bash", {"command": "echo one"}]]},
    {"text": "first"},
    {"text": "second"},
    {"text": "third", "repeat": True},
]


@pytest.fixture(autouse=True)
def freely(stage: Any) -> None:
    """Nobody is there to be asked."""
    stage.freely = True


@pytest.fixture
def worked(stage: Any) -> Iterator[Any]:
    """A stage with a session of two turns, and a server that goes on."""
    with stage.serving(stage.script(*WORKS)):
        stage.run("go")
        stage.run("on", "-c")
        yield stage


def dsh(stage: Any, *arguments: str) -> tuple[int, str, str]:
    running = stage.start(*arguments)
    out, err = running.communicate(timeout=60)
    assert "Traceback" not in err
    return running.returncode, out, err


def damage(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    damaged = b"\n".join(change(path.read_bytes().split(b"\n")))
    path.write_bytes(damaged)
    return damaged


def zeros(lines: list[bytes]) -> list[bytes]:
    return [*lines[:9], b"\0" * 4096 + lines[9], *lines[10:]]


@pytest.mark.parametrize(
    "change",
    [lambda lines: [*lines[:9], lines[9][:-9], *lines[10:]], zeros, lambda lines: [*lines[:9], lines[8], *lines[9:]]],
    ids=["J01 a broken line", "J02 a run of zeros", "J05 a line twice"],
)
def test_j01_j02_damage_in_the_middle_is_told_and_nothing_is_changed(
    worked: Any, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    damaged = damage(worked.log, change)
    code, out, err = dsh(worked, "-p", "go on", "-m", "openai/scripted", "-r", worked.log.stem)
    assert code != 0
    assert out == ""
    assert "line 10" in err
    assert worked.log.read_bytes() == damaged


def test_j03_characters_that_some_take_for_line_ends(stage: Any) -> None:
    with stage.serving("J03"):
        first = stage.run("go")
        ran = stage.run("go on", "-c")
    assert first.out == "seen \u2028 \u0085 ok\n"
    (result,) = first.results
    assert result.startswith("a\u2028b\u0085c")
    assert result.endswith("e\n")
    assert (ran.code, ran.out) == (0, "after resume\n"), ran.err
    (sent,) = (message for message in ran.requests[2]["body"]["messages"] if message["role"] == "tool")
    assert sent["content"] == first.results[0]


def test_j04_a_torn_tail_then_more(worked: Any) -> None:
    os.truncate(worked.log, worked.log.stat().st_size - 20)
    second = worked.run("after the tear", "-c")
    third = worked.run("and again", "-c")
    assert (second.code, third.code, third.out) == (0, 0, "third\n"), third.err
    prompts = [data["content"][0]["text"] for data in third.data("user/message")]
    assert prompts == ["go", "on", "after the tear", "and again"]
    assert [event["seq"] for event in third.events] == list(range(len(third.events)))


def test_j05_two_programs_on_one_session(stage: Any) -> None:
    stall = {"text": "slow answer", "stall": [1, 2]}
    with stage.serving(stage.script(stall, {"text": "fine", "repeat": True})):
        one = stage.prompt("one", "--session-id", "mine")
        stage.until(stage.events, "the session")
        refused = stage.prompt("two", "-r", "mine")
        _, err = refused.communicate(timeout=60)
        ran = stage.end(one)
        again = stage.run("three", "-c")
    assert refused.returncode not in (0, None)
    assert "open in another program" in err
    assert "Traceback" not in err
    assert (ran.code, again.code) == (0, 0)
    assert [data["content"][0]["text"] for data in again.data("user/message")] == ["one", "three"]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "from_future", "seq": None, "time": 1, "data": {"x": 1}},
        {"type": "from/future", "seq": None, "time": 1, "data": {"x": 1}, "extra": [1]},
    ],
)
def test_j07_a_record_of_a_newer_version(worked: Any, line: dict[str, Any]) -> None:
    """It is listed, shown, resumed and kept as it is."""
    line["seq"] = len(worked.events())
    text = json.dumps(line).encode()
    with worked.log.open("ab") as log:
        log.write(text + b"\n")
    for arguments in (("sessions", "list"), ("sessions", "show", worked.log.stem)):
        code, _, err = dsh(worked, *arguments)
        assert (code, err) == (0, ""), arguments
    ran = worked.run("go on", "-c")
    assert (ran.code, ran.out) == (0, "third\n"), ran.err
    assert text in worked.log.read_bytes().split(b"\n")


def test_j07_a_record_that_is_no_event(worked: Any) -> None:
    """It is passed over by everybody, and stays where it is."""
    record = b'{"type":"from_future","x":1}'
    with worked.log.open("ab") as log:
        log.write(record + b"\n")
    before = worked.log.read_bytes()
    for arguments in (("sessions", "list"), ("sessions", "show", worked.log.stem)):
        code, _, err = dsh(worked, *arguments)
        assert (code, err) == (0, ""), arguments
    code, out, err = dsh(worked, "-p", "go on", "-m", "openai/scripted", "-c")
    assert (code, out) == (0, "third\n"), err
    assert worked.log.read_bytes().startswith(before)
    code, out, err = dsh(worked, "-p", "and again", "-m", "openai/scripted", "-c")
    assert (code, out) == (0, "third\n"), err
    records = [json.loads(line) for line in worked.log.read_bytes().split(b"\n")[1:-1]]
    assert [each["seq"] for each in records if "seq" in each] == list(range(len(records) - 1))


def test_j08_half_a_surrogate_in_a_line(worked: Any) -> None:
    def half(lines: list[bytes]) -> list[bytes]:
        (at,) = (n for n, line in enumerate(lines) if b'"user/message"' in line and b'"go"' in line)
        lines[at] = lines[at].replace(b'"go"', rb'"g\udcb2o"')
        return lines

    damage(worked.log, half)
    ran = worked.run("go on", "-c")
    assert (ran.code, ran.out) == (0, "third\n"), ran.err
    first = ran.requests[-1]["body"]["messages"][1]["content"]
    assert first.encode() == "g\ufffdo".encode()


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


def test_d01_a_log_that_cannot_be_written_ends_the_run(stage: Any) -> None:
    """The person is told at once, the run fails, and what was stored is a session still."""
    stage.env["PYTHONDONTWRITEBYTECODE"] = "1"  # the limit holds for compiled modules, too, which others would load
    with stage.serving("D01"):
        ran = stage.run("go", preexec_fn=small_files)
        again = stage.run("go on", "-c")
    assert ran.code == 1
    assert "cannot write" in ran.err
    assert str(stage.log) in ran.err
    assert again.code == 0, again.err
    assert again.ends[0] == "interrupted"
    assert len(ran.requests) < 6


def test_d01_no_hint_to_resume_what_was_not_stored(stage: Any) -> None:
    home = stage.home
    home.mkdir()
    (home / "sessions").write_text("in the way")
    with stage.serving("D02"):
        ran = stage.prompt("go")
        out, err = ran.communicate(timeout=60)
    assert ran.returncode == 1, (out, err)
    assert "Traceback" not in err
    assert "sessions" in err
    assert not any(line.startswith("session ") for line in err.splitlines()), err


def test_d02_an_output_that_takes_nothing(stage: Any) -> None:
    with stage.serving("D02"), open("/dev/full", "w") as full:
        ran = stage.run("go", stdout=full)
        again = stage.run("again", "-c")
    assert ran.code not in (0, None)
    assert "No space left" in ran.err
    assert ran.ends == ["completed"]
    assert again.code == 0


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system without any space."""
    folder = tmp_path / "full"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        (folder / "all").write_bytes(b"x" * 4096)
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("command", ["echo hi", "seq 1 100000"])
def test_d03_commands_run_although_there_is_no_space_for_their_output(stage: Any, full: Path, command: str) -> None:
    stage.env["TMPDIR"] = str(full)
    replies = {"calls": [["bash", {"command": command}]]}, {"text": "done"}
    with stage.serving(stage.script(*replies)):
        ran = stage.run("go")
    assert (ran.code, ran.out) == (0, "done\n"), ran.err
    (result,) = ran.results
    assert "hi\n" in result or "99999\n100000\n" in result


def test_d04_a_commands_full_disk_is_the_commands(stage: Any) -> None:
    with stage.serving("D04"):
        ran = stage.run("go")
    assert (ran.code, ran.out) == (0, "done\n")
    (result,) = ran.results
    assert "No space left on device" in result
    assert "[exit code: 1]" in result
    assert ran.data("tool/result")[0]["isError"] is False
