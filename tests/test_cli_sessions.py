"""What ``dsh sessions`` and ``--fork`` do with stored sessions."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, frozen

from dsh.cli import main
from dsh.cli.sessions import TAKES
from dsh.cli.sessions.check import check
from dsh.errors import CorruptSession
from dsh.session import rebuild_request
from dsh.session.codec import default_codec
from dsh.session.events import AssistantChunk, StepStart
from dsh.session.store import StoredSession

pytest.importorskip("dsh_jsonl")

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES))
"""
TWO_STEPS = 'call("bash", {"command": "echo needle"}), text("It is there.")'
RECORDED = Path(__file__).parents[1] / ".." / "shared" / "recorded"


@frozen
class Done:
    code: int
    out: str
    err: str


@define
class Shell:
    """Runs ``dsh`` in this process, with a home and a folder of its own."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    count: int = 0

    def __call__(self, *argv: str) -> Done:
        self.capture.readouterr()
        code = main(argv)
        shown = self.capture.readouterr()
        assert "Traceback" not in shown.err
        return Done(code, shown.out, shown.err)

    def task(self, prompt: str, *argv: str, replies: str = 'text("done")') -> Done:
        """Do a task with a model that plays `replies`."""
        self.count += 1
        path = self.folder / f"model{self.count}.py"
        path.write_text(MODEL.replace("REPLIES", replies))
        done = self("-p", prompt, "-m", "scripted/m", "-e", str(path), "--permission-mode", "bypass", *argv)
        path.unlink()
        return done

    def path(self, id: str) -> Path:
        (path,) = (self.folder / "home" / "sessions").glob(f"*/{id}.jsonl")
        return path

    def lines(self, id: str) -> list[bytes]:
        return self.path(id).read_bytes().splitlines()

    def records(self, id: str) -> list[Any]:
        return [json.loads(line) for line in self.lines(id)]


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


@pytest.fixture
def abc(dsh: Shell) -> Shell:
    """With a session of two turns, the first of which has a call."""
    assert dsh.task("look for it", "--session-id", "abc", replies=TWO_STEPS).code == 0
    assert dsh.task("and again", "-r", "abc").code == 0
    return dsh


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As if another program wrote the session."""
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def prompts(records: list[Any]) -> list[str]:
    return [record["data"]["content"][0]["text"] for record in records if record["type"] == "user/message"]


def seqs(records: list[Any], kind: str) -> list[int]:
    return [record["seq"] for record in records if record["type"] == kind]


# -- going on in a new session


@pytest.mark.parametrize("which", [["-c"], ["-r", "abc"]])
def test_a_fork_goes_on_where_the_old_session_stands(abc: Shell, which: list[str]) -> None:
    before = abc.lines("abc")
    done = abc.task("another way", *which, "--fork", "--session-id", "new", replies='text("forked")')

    assert (done.code, done.out) == (0, "forked\n")
    assert abc.lines("abc") == before
    header, *events = abc.records("new")
    assert (header["parentSession"], header["seedLength"]) == ("abc", len(before) - 1)
    assert abc.lines("new")[1 : len(before)] == before[1:]
    assert prompts(events) == ["look for it", "and again", "another way"]
    assert abc("sessions", "check", "new").code == 0
    assert [line.split()[0] for line in abc("sessions").out.splitlines()[1:]] == ["new", "abc"]


def test_a_fork_keeps_the_old_sessions_model(abc: Shell) -> None:
    model = abc.folder / "again.py"
    model.write_text(MODEL.replace("REPLIES", 'text("same model")'))
    done = abc("-p", "x", "-r", "abc", "--fork", "--json", "-e", str(model))
    assert json.loads(done.out)["model"] == "scripted/m"


def test_a_fork_of_a_session_that_is_being_written(abc: Shell) -> None:
    path = abc.path("abc")
    ends = seqs(abc.records("abc")[1:], "turn/end")
    path.write_bytes(b"\n".join(abc.lines("abc")[: ends[-1]]) + b'\n{"type":"st')  # its second turn is open
    before = path.read_bytes()
    with locked(path):
        assert "open in another program" in abc.task("x", "-r", "abc").err
        assert abc.task("x", "-r", "abc", "--fork", "--session-id", "new").code == 0

    assert path.read_bytes() == before
    assert abc.records("new")[0]["seedLength"] == ends[0] + 1
    assert prompts(abc.records("new")) == ["look for it", "x"]
    assert abc("sessions", "check", "new").code == 0


def test_without_a_finished_turn_there_is_nothing_to_fork(abc: Shell) -> None:
    abc.path("abc").write_bytes(b"\n".join(abc.lines("abc")[:4]) + b"\n")
    for done in (abc.task("x", "-r", "abc", "--fork"), abc("sessions", "fork", "abc")):
        assert done.code == 1
        assert "no turn of the session abc has ended" in done.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--fork"], "--fork needs the session to begin with"),
        (["--fork", "--no-session"], "--fork needs the session to begin with"),
        (["--fork", "-c", "--no-session"], "exclude each other"),
        (["-c", "--session-id", "x"], "exclude each other"),
        (["--fork", "-r", "nosuch"], "there is no session nosuch"),
        (["--fork", "-c"], "there is no session of"),
    ],
)
def test_forks_that_make_no_sense(dsh: Shell, argv: list[str], message: str) -> None:
    done = dsh.task("x", *argv)
    assert done.code == 2
    assert message in done.err


def test_a_fork_of_an_id_that_is_taken(abc: Shell) -> None:
    done = abc.task("x", "-r", "abc", "--fork", "--session-id", "abc")
    assert done.code == 2
    assert "there is a session 'abc' already" in done.err


def test_sessions_fork(abc: Shell) -> None:
    before = abc.lines("abc")
    ends = seqs(abc.records("abc")[1:], "turn/end")
    for at, length in (
        ([], ends[1] + 1),
        (["--at", "2"], ends[1] + 1),
        (["--at", "1"], ends[0] + 1),
        (["--at", f"seq:{ends[0]}"], ends[0] + 1),
    ):
        done = abc("sessions", "fork", "ab", *at)
        id = done.out.strip()
        assert done.code == 0
        assert id in done.err
        assert abc.records(id)[0]["seedLength"] == length
        assert abc.lines(id)[1:] == before[1 : length + 1]
        assert abc("sessions", "check", id).code == 0
    made = json.loads(abc("sessions", "fork", "abc", "--at", "1", "--json").out)
    assert (made["parent_session"], made["turns"]) == ("abc", 1)
    assert abc.task("go on", "-r", made["id"]).code == 0
    assert abc.lines("abc") == before


@pytest.mark.parametrize(
    ("at", "code", "message"),
    [
        ("3", 1, "has no turn 3 that has ended; there are 1 to 2"),
        ("seq:0", 1, "event 0 of the session abc is not the end of a turn; the next turn ends at event"),
        ("seq:99999", 1, "the last turn ends at"),
        ("1.5", 2, "--at 1.5: name a turn"),
        ("-1", 2, "--at"),
    ],
)
def test_a_place_that_is_no_turns_end(abc: Shell, at: str, code: int, message: str) -> None:
    done = abc("sessions", "fork", "abc", "--at", at)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


# -- checking and repairing


def test_a_whole_session_has_no_problems(abc: Shell) -> None:
    done = abc("sessions", "check", "abc")
    assert done.code == 0
    assert done.out.endswith(", 3 requests, no problems\n")
    assert json.loads(abc("sessions", "check", "--all", "--json").out) == {"id": "abc", "problems": []}


def without(lines: list[bytes], kind: bytes) -> list[bytes]:
    """The lines without the first of a kind; the others are numbered anew."""
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"%s"' % kind))
    rest = [json.loads(line) for line in (*lines[1:at], *lines[at + 1 :])]
    return [lines[0], *(json.dumps({**record, "seq": seq}).encode() for seq, record in enumerate(rest))]


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda lines: [*lines[:3], b"\0" * 20, *lines[4:]], "line 4: not JSON"),
        (lambda lines: [*lines[:3], *lines[4:]], "line 4: this is the event 3, where 2 should stand"),
        (lambda lines: [lines[0].replace(b'"version":0', b'"version":9'), *lines[1:]], "log format 9"),
        (
            lambda lines: [lines[0].replace(b"{", b'{"parentSession":"x","seedLength":999,', 1), *lines[1:]],
            "line 1: it says that it begins with 999 events of another session, and has",
        ),
        (lambda lines: without(lines, b"request/header"), "cannot be made again: it has no header"),
        (lambda lines: without(lines, b"tool/result"), "has no result when its step ends"),
        (lambda lines: without(lines, b"turn/start"), "outside of a turn"),
        (lambda lines: [line.replace(b'"append"', b'"apend"') for line in lines], "surfaceOp is neither"),
        (
            lambda lines: [
                line.replace(b'"surfaceOp":"append"', b'"surfaceOp":{"op":"replace","start":77,"end":77}')
                for line in lines
            ],
            "event 77 is not on the surface",
        ),
    ],
)
def test_damage_is_told_with_its_line(abc: Shell, harm: Any, problem: str) -> None:
    path = abc.path("abc")
    path.write_bytes(b"\n".join(harm(abc.lines("abc"))) + b"\n")
    done = abc("sessions", "check", "abc")
    assert done.code == 1
    assert problem in done.out
    assert "repair" not in done.out
    listing = json.loads(abc("sessions", "check", "abc", "--json").out)
    assert any(problem.partition(": ")[2] in found["problem"] for found in listing["problems"])


def test_a_replacement_that_tears_calls_from_results_is_found(abc: Shell) -> None:
    records = abc.records("abc")
    call = next(record["seq"] for record in records[1:] if record["type"] == "assistant/message")
    prompt = seqs(records[1:], "user/message")[1] + 1
    records[prompt]["surfaceOp"] = {"op": "replace", "start": call, "end": call}
    abc.path("abc").write_text("\n".join(map(json.dumps, records)) + "\n")
    assert "calls without results, or results without calls" in abc("sessions", "check", "abc").out


def test_what_a_crash_left_is_repaired_and_kept(abc: Shell) -> None:
    path = abc.path("abc")
    call = seqs(abc.records("abc")[1:], "tool/call")[0]
    torn = b"\n".join(abc.lines("abc")[: call + 2]) + b'\n{"type":"hook/de'
    path.write_bytes(torn)
    checked = abc("sessions", "check", "abc")
    assert checked.code == 1
    assert "the log ends in turn 1" in checked.out
    assert "16 bytes of an event that was never completely written" in checked.out
    assert "sessions repair abc` mends that" in checked.out

    done = abc("sessions", "repair", "abc")
    assert done.code == 0
    assert f"cut off: 16 bytes from line {call + 3} on" in done.out
    for added in ("TOOL_OUTCOME_UNKNOWN", "the end of step 1", "the end of turn 1: interrupted"):
        assert added in done.out
    copy = path.with_name("abc.jsonl.before-repair")
    assert copy.read_bytes() == torn
    assert copy.stat().st_mode & 0o077 == 0
    assert abc("sessions", "check", "abc").code == 0
    assert abc("sessions", "repair", "abc").out == "abc: nothing to repair\n"
    assert len(abc("sessions").out.splitlines()) == 2


def test_an_open_turn_alone_is_closed_without_a_copy(abc: Shell) -> None:
    path = abc.path("abc")
    path.write_bytes(b"\n".join(abc.lines("abc")[:5]) + b"\n")
    assert "cut off" not in abc("sessions", "repair", "abc").out
    assert list(path.parent.iterdir()) == [path]


def test_copies_get_names_of_their_own(abc: Shell) -> None:
    path = abc.path("abc")
    for expected in ("abc.jsonl.before-repair", "abc.jsonl.before-repair-2"):
        with path.open("ab") as stream:
            stream.write(b"{")
        assert expected in abc("sessions", "repair", "abc").out
    assert abc("sessions", "delete", "abc", "--yes").code == 0
    assert list(path.parent.iterdir()) == []


def test_a_session_that_is_written_is_not_repaired(abc: Shell) -> None:
    path = abc.path("abc")
    with path.open("ab") as stream:
        stream.write(b"{")
    with locked(path):
        done = abc("sessions", "repair", "abc")
    assert done.code == 1
    assert "open in another program" in done.err
    assert list(path.parent.iterdir()) == [path]


def test_damage_in_the_middle_is_reported_and_left(abc: Shell) -> None:
    path, lines = abc.path("abc"), abc.lines("abc")
    path.write_bytes(b"\n".join([*lines[:3], b"?", *lines[4:]]) + b"\n")
    before = path.read_bytes()
    done = abc("sessions", "repair", "abc")
    assert done.code == 1
    assert "line 4" in done.err
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not RECORDED.is_dir(), reason="needs the recorded sessions beside the project")
def test_a_log_without_problems_has_requests_that_can_be_made_again() -> None:
    from dsh_jsonl.stored import look

    codec = default_codec()
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        stored = look(path, codec)
        assert check(stored, codec)[0] == []
        events = list(stored.events)
        asked = {(event.data.turn, event.data.step) for event in events if isinstance(event.data, AssistantChunk)}
        for event in events:
            if isinstance(event.data, StepStart) and (event.data.turn, event.data.step) in asked:
                rebuild_request(events, event.data.turn, event.data.step)
        if asked:
            bare = [event for event in events if event.type != "request/header"]
            assert check(StoredSession(stored.header, bare), codec)[0] != []
            with pytest.raises((CorruptSession, ValueError)):
                rebuild_request(bare, *min(asked))


# -- deleting


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> Iterator[None]:
    """A terminal as stdin, on which somebody types `answer`."""
    person, program = pty.openpty()
    os.write(person, answer.encode())
    with open(program, encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stream)
        yield
    os.close(person)


def test_deletion_is_asked_for(abc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    path = abc.path("abc")
    abc("sessions", "fork", "abc")
    for answer in ("\n", "n\n", "yikes\n"):
        with terminal(monkeypatch, answer):
            done = abc("sessions", "delete", "abc")
        assert (done.code, done.out) == (1, "")
        assert "look for it" in done.err
        assert "1 session forked from it stays" in done.err
        assert path.exists()
    with terminal(monkeypatch, "y\n"):
        done = abc("sessions", "delete", "abc")
    assert (done.code, done.out) == (0, "deleted abc\n")
    assert not path.exists()
    assert len(abc("sessions").out.splitlines()) == 2


def test_without_a_terminal_deletion_needs_a_flag(abc: Shell) -> None:
    done = abc("sessions", "delete", "abc")
    assert done.code == 2
    assert "--yes" in done.err
    assert abc("sessions", "delete", "abc", "-y").code == 0
    gone = abc("sessions", "delete", "abc", "-y")
    assert gone.code == 2
    assert "there is no session abc" in gone.err


def test_a_session_that_is_written_is_not_deleted(abc: Shell) -> None:
    with locked(abc.path("abc")):
        done = abc("sessions", "delete", "abc", "--yes")
    assert (done.code, done.out) == (1, "")
    assert "being written" in done.err
    assert abc("sessions", "check", "abc").code == 0


# -- another store


def test_sessions_in_a_database(dsh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dsh_sqlite")
    store = ["--config", "sessions.store=sqlite"]
    assert dsh.task("look for it", "--session-id", "abc", *store, replies=TWO_STEPS).code == 0
    assert dsh.task("otherwise", "-r", "abc", "--fork", "--session-id", "new", *store).code == 0
    assert dsh("sessions", "check", "--all", *store).out.count("no problems") == 2
    assert dsh("sessions", "search", "needle", *store).out.count("bash answered: needle") == 2
    assert dsh("sessions", "repair", "abc", *store).out == "abc: nothing to repair\n"
    forked = dsh("sessions", "fork", "new", "--at", "1", *store).out.strip()
    assert "1 session" in dsh("sessions", "delete", "new", "--yes", *store).err
    document = json.loads(dsh("sessions", "export", forked, "--format", "json", *store).out)
    assert prompts(document["events"]) == ["look for it"]
    assert document["header"]["parentSession"] == "new"
    assert dsh("sessions", "path", "abc", *store).code == 1
    assert not (dsh.folder / "home" / "sessions").exists()


# -- searching


def test_search_finds_what_was_said_and_done(abc: Shell) -> None:
    abc.task("something else", "--session-id", "other")
    abc.task("the NEEDLE in the hay", "--session-id", "third")
    done = abc("sessions", "search", "needle")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == ["third", "abc"]
    assert "  user: the NEEDLE in the hay" in lines
    assert '  bash: {"command": "echo needle"}' in lines or '  bash: {"command":"echo needle"}' in lines
    assert "  bash answered: needle" in lines
    assert abc("sessions", "search", "needle", "-n", "1").out.splitlines()[0].startswith("third ")
    record = json.loads(abc("sessions", "search", "hay", "--json").out)
    assert (record["id"], record["count"], record["matches"][0]["who"]) == ("third", 1, "user")


def test_search_for_patterns_and_odd_texts(abc: Shell) -> None:
    assert abc("sessions", "search", r"need[lm]e$", "--regex").code == 0
    assert abc("sessions", "search", "NEEDLE", "--regex").code == 1
    assert abc("sessions", "search", "need.e").code == 1
    broken = abc("sessions", "search", "(", "--regex")
    assert broken.code == 2
    assert "--regex (: missing )" in broken.err
    abc.task("a --dashed word", "--session-id", "dashed")
    assert abc("sessions", "search", "--", "--dashed").out.startswith("dashed ")


def test_search_stays_in_its_directory(abc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (abc.folder / "elsewhere").mkdir()
    monkeypatch.chdir(abc.folder / "elsewhere")
    done = abc("sessions", "search", "needle")
    assert (done.code, done.out) == (1, "")
    assert "--all searches" in done.err
    assert abc("sessions", "search", "needle", "--all").out.startswith("abc ")


def test_long_lines_are_cut_around_the_match(dsh: Shell) -> None:
    dsh.task(f"{'a' * 400} needle {'b' * 400}", "--session-id", "long")
    (line,) = dsh("sessions", "search", "needle").out.splitlines()[1:]
    assert " needle bbb" in line
    assert line.startswith("  user: …aaa")
    assert len(line) < 120


def test_a_damaged_session_does_not_end_the_search(abc: Shell) -> None:
    abc.task("the needle", "--session-id", "other")
    path, lines = abc.path("other"), abc.lines("other")
    path.write_bytes(b"\n".join([lines[0], b"?", *lines[2:]]) + b"\n")
    done = abc("sessions", "search", "needle")
    assert done.code == 0
    assert "abc" in done.out
    assert "line 2" in done.err


def test_search_reads_a_long_session_in_little_memory(abc: Shell) -> None:
    path, lines = abc.path("abc"), abc.lines("abc")
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"assistant/chunk"'))
    padding = lines[at].replace(b'"data":{', b'"pad":"' + b"x" * 2000 + b'","data":{')
    path.write_bytes(b"\n".join([*lines, *[padding] * 10_000]) + b"\n")
    assert path.stat().st_size > 20_000_000
    abc("sessions", "search", "needle")  # imports
    tracemalloc.start()
    try:
        assert abc("sessions", "search", "needle").code == 0
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


def test_the_tree_is_shown_however_deep_and_even_if_it_is_none(abc: Shell) -> None:
    header, *events = abc.records("abc")
    below = abc.path("abc").parent

    def store(id: str, parent: str) -> None:
        lines = [{**header, "id": id, "parentSession": parent}, *events[:2], {**events[-1], "seq": 2}]
        (below / f"{id}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def shown(id: str) -> list[str]:
        done = abc("sessions", "show", id)
        assert done.code == 0
        return [line.split()[0] for line in done.out.partition("--- sessions below this one\n")[2].splitlines()]

    deep = [f"deep-{number:04}" for number in range(1100)]
    for id, parent in zip(deep, ["abc", *deep[:-1]], strict=True):
        store(id, parent)
    assert shown("abc") == deep
    store("one", "other")
    store("other", "one")
    store("self", "self")
    assert (shown("one"), shown("other"), shown("self")) == (["other"], ["one"], [])
    assert "self" not in abc("sessions", "delete", "self", "--yes").err


def test_what_is_stored_cannot_steer_a_terminal(abc: Shell) -> None:
    path = abc.path("abc")
    path.write_bytes(path.read_bytes().replace(b'"bash"', b'"\\u001b[2J"').replace(b"needle", b"needle\\u001b[2J"))
    for argv in (["show", "abc"], ["search", "needle"], ["check", "abc"], ["export", "abc"], ["list"]):
        done = abc("sessions", *argv)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err


# -- exporting


def test_an_export_as_json_is_the_whole_log(abc: Shell) -> None:
    document = json.loads(abc("sessions", "export", "abc", "--format", "json").out)
    assert [document["header"], *document["events"]] == abc.records("abc")


def test_an_export_goes_where_it_is_sent(abc: Shell) -> None:
    for name, begins in (("a.html", "<!DOCTYPE html>"), ("a.md", "# Session"), ("a.json", "{"), ("a.txt", "# Session")):
        done = abc("sessions", "export", "abc", "-o", name)
        assert (done.code, done.out) == (0, "")
        assert (abc.folder / name).read_text(encoding="utf-8").startswith(begins)
    assert abc("sessions", "export", "abc", "-o", "a.json", "--format", "html").code == 0
    assert (abc.folder / "a.json").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert abc("sessions", "export", "abc", "-o", "-").out.startswith("# Session")
    assert (abc.folder / "a.html").stat().st_mode & 0o077 == 0


def test_an_export_cannot_go_everywhere(abc: Shell) -> None:
    before = abc.lines("abc")
    done = abc("sessions", "export", "abc", "--output", str(abc.path("abc")))
    assert done.code == 2
    assert "the session's own file" in done.err
    assert abc.lines("abc") == before
    absent = abc("sessions", "export", "abc", "-o", "no/such/folder.html")
    assert absent.code == 1
    assert "cannot write" in absent.err


# -- the line


@pytest.mark.parametrize("action", ["list", "show", "path", "search", "fork", "check", "repair", "export", "delete"])
def test_flags_belong_to_actions(dsh: Shell, action: str) -> None:
    target = [] if action == "list" else ["abc"]
    values = {"--at": ["1"], "--format": ["json"], "--limit": ["1"], "--output": ["x"]}
    for flag, actions in TAKES.items():
        if action not in actions:
            done = dsh("sessions", action, *target, flag, *values.get(flag, []))
            assert done.code == 2
            assert f"sessions {action} takes no {flag}" in done.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["search"], "sessions search needs a TEXT to look for"),
        (["delete"], "sessions delete needs the ID of a session"),
        (["check"], "sessions check needs the ID of a session"),
        (["check", "abc", "--all"], "an ID or --all, not both"),
        (["export", "abc", "--format", "pdf"], "--format pdf: there is no such thing; there are json, markdown, html"),
        (["export", "nosuch"], "there is no session nosuch"),
        (["fork", "nosuch"], "there is no session nosuch"),
        (["repair", "nosuch"], "there is no session nosuch"),
        (["check", "nosuch"], "there is no session nosuch"),
    ],
)
def test_a_wrong_line_is_refused_in_a_sentence(dsh: Shell, argv: list[str], message: str) -> None:
    done = dsh("sessions", *argv)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
def test_a_session_of_a_folder_whose_name_is_no_utf8_is_found_again(
    dsh: Shell, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    pytest.importorskip(f"dsh_{store}")
    chosen = ["--config", f"sessions.store={store}"]
    folder = os.fsencode(dsh.folder) + b"/caf\xe9"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system has no such names")
    monkeypatch.chdir(os.fsdecode(folder))

    assert dsh.task("one", "--session-id", "abc", *chosen).code == 0
    done = dsh.task("two", "-c", *chosen, replies='call("bash", {"command": "pwd >> pwd.txt"}), text("again")')

    assert (done.code, done.out) == (0, "again\n")
    assert "goes on in its own directory" not in done.err
    assert (Path(os.fsdecode(folder)) / "pwd.txt").read_bytes() == folder + b"\n"
    assert "abc" in dsh("sessions", *chosen).out


LOUD = """\
from dsh import hookimpl

@hookimpl
def session_list():
    print("listing")

@hookimpl(tryfirst=True)
def session_read():
    print("reading")

@hookimpl(tryfirst=True)
def session_open():
    print("opening")

@hookimpl(tryfirst=True)
def session_delete():
    print("deleting")

@hookimpl
def session_created():
    print("creating")

@hookimpl
def session_flush():
    print("flushing")
"""


def test_what_a_plugin_prints_is_not_on_stdout(abc: Shell) -> None:
    (abc.folder / "loud.py").write_text(LOUD)
    loud = ("-e", str(abc.folder / "loud.py"))
    said = ""
    for argv in (
        *(("list", "--all"), ("show", "abc"), ("check", "abc"), ("export", "abc"), ("search", "needle")),
        *(("path", "abc"), ("fork", "abc"), ("repair", "abc"), ("delete", "abc", "--yes")),
    ):
        done = abc("sessions", *argv, *loud)
        assert done.code == 0, argv
        assert "ing\n" not in done.out
        said += done.err
    for word in ("listing", "reading", "opening", "deleting", "creating", "flushing"):
        assert f"{word}\n" in said


def test_of_many_sessions_that_begin_so_five_are_named(dsh: Shell) -> None:
    for number in range(6):
        assert dsh.task("x", "--session-id", f"many-{number}").code == 0
    said = dsh("sessions", "show", "many").err
    assert "6 sessions begin with many: many-" in said
    assert said.rstrip().endswith(" and 1 more")
