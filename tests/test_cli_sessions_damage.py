"""Damaged logs: what one command says of them the others, and going on with the session, say as well."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, frozen

from dsh.cli import main

pytest.importorskip("dsh_jsonl")

MODEL = """\
from dsh import hookimpl, tool
from dsh.llm.scripted import ScriptedModel, call, text

@tool
def work() -> str:
    "Works."
    return "worked"

@hookimpl
def tools_register(tools):
    tools.add(work)

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(call("work"), text("needle one")))
"""
MADE: list[bytes] = []
"""The log of the session that is damaged, once it is made."""
READERS = (
    ("show", "abc"),
    ("check", "abc"),
    ("export", "abc", "--format", "json"),
    ("export", "abc", "--format", "html"),
    ("search", "needle", "--all"),
)


@frozen
class Done:
    code: int
    out: str
    err: str


@define
class Shell:
    """Runs ``dsh`` in this process; the session ``abc`` has two turns, the first with a call."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    store: str = "jsonl"

    def __call__(self, *argv: str) -> Done:
        self.capture.readouterr()
        code = main([*argv, "--config", f"sessions.store={self.store}"])
        shown = self.capture.readouterr()
        assert "Traceback" not in shown.err
        assert "unexpected" not in shown.err
        # How fast plugins are does not matter here.
        err = [line for line in shown.err.splitlines(keepends=True) if " blocks: its " not in line]
        return Done(code, shown.out, "".join(err))

    def go_on(self, *argv: str) -> Done:
        model = self.folder / "model.py"
        model.write_text(MODEL)
        return self("-p", "go on", "-m", "scripted/m", "-e", str(model), "--permission-mode", "bypass", *argv)

    @property
    def log(self) -> Path:
        (path,) = (self.folder / "home" / "sessions").glob("*/abc.jsonl")
        return path

    @property
    def lines(self) -> list[bytes]:
        return self.log.read_bytes().split(b"\n")[:-1]


@pytest.fixture
def abc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path, capsys)
    path = tmp_path / "home" / "sessions" / "_no-cwd" / "abc.jsonl"
    if not MADE:
        assert shell.go_on("--session-id", "abc").code == 0
        assert shell.go_on("-r", "abc").code == 0
        MADE.append(shell.log.read_bytes())
        shell.log.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MADE[0])
    return shell


Harm = Callable[[list[bytes]], bytes]


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def at(lines: list[bytes], kind: str, nth: int = 0) -> int:
    return [n for n, line in enumerate(lines) if line.startswith(b'{"type":"%b"' % kind.encode())][nth]


def put(place: int, *more: bytes) -> Harm:
    return lambda lines: joined([*lines[:place], *more, *lines[place:]])


def end(*more: bytes) -> Harm:
    return lambda lines: joined([*lines, *more])


def record(kind: str, nth: int, **changes: Any) -> Harm:
    """One event with other values; those of ``data`` by its own."""

    def harm(lines: list[bytes]) -> bytes:
        n = at(lines, kind, nth)
        value = json.loads(lines[n])
        value = {**value, **changes, "data": {**value["data"], **changes.get("data", {})}}
        return joined([*lines[:n], json.dumps(value).encode(), *lines[n + 1 :]])

    return harm


def opened(harm: Harm) -> Harm:
    """Of the log as it is with the last turn still open."""
    return lambda lines: harm(lines[:-1])


def header(**changes: Any) -> Harm:
    return lambda lines: joined([json.dumps({**json.loads(lines[0]), **changes}).encode(), *lines[1:]])


def next_seq(kind: str, data: Any = None) -> Harm:
    def harm(lines: list[bytes]) -> bytes:
        event = {"type": kind, "seq": len(lines) - 1, "time": 1, "data": data}
        return joined([*lines, json.dumps(event).encode()])

    return harm


KEPT: dict[str, Harm] = {
    "a record of another kind": put(9, b'{"type":"from_future","x":1}'),
    "at the end": end(b'{"type":"from_future","x":1}'),
    "with half a character": put(9, rb'{"type":"from_future","x":"\udcb2"}'),
    "with a long integer": put(9, b'{"type":"from_future","x":' + b"9" * 400 + b"}"),
    "the header again": put(5, b'{"type":"session","version":0,"id":"abc","createdAt":1}'),
    "lines of Windows": lambda lines: joined([line + b"\r" for line in lines]),
    "a byte order mark": lambda lines: b"\xef\xbb\xbf" + joined(lines),
    "a long time": record("user/message", 1, time=10**25),
    "an unknown reason": record("turn/end", 0, data={"reason": {"kind": "alien"}}),
    "an unknown block": record("user/message", 1, data={"content": [{"type": "image", "x": "<script>"}]}),
}
"""What going on with a session keeps, and nobody finds fault with."""

UNREAD: dict[str, Harm] = {
    "a call": record("tool/call", 0, data={"arguments": {}}),
    "a piece of an answer": record("assistant/chunk", 0, data={"chunk": {"type": "new-delta"}}),
    "a decision in an open turn": opened(next_seq("hook/decision", {"x": 1})),
    "a list in an open turn": opened(next_seq("todo/write", {"todos": "x"})),
    "an odd operation in an open turn": opened(next_seq("plug/x", [1])),
}
"""Events whose data do not fit, where no session is made from such events."""

CUT: dict[str, Harm] = {
    "half a line": lambda lines: joined(lines)[:-20],
    "half a line and a newline": lambda lines: joined(lines)[:-20] + b"\n",
    "zeros and a newline": lambda lines: joined(lines) + b"\0" * 4096 + b"\n",
    "an empty line": end(b""),
    "no object": end(b"[1]"),
    "no text": end(b"\xff\xfe"),
}
"""What follows the last end of a turn and is no event."""

REFUSED: dict[str, Harm] = {
    "a hole": lambda lines: joined([*lines[:5], *lines[6:]]),
    "an event twice": lambda lines: put(5, lines[5])(lines),
    "zeros": put(5, b"\0" * 4096),
    "an empty line": put(5, b""),
    "no text in a text": lambda lines: joined(lines).replace(b'"go on"', b'"go \xff on"', 1),
    "no number": record("user/message", 1, seq="3"),
    "content that is none": record("user/message", 1, data={"content": None}),
    "a replacement of nothing": record("user/message", 1, surfaceOp={"op": "replace", "start": 900, "end": 900}),
    "another reason": record("turn/end", 0, data={"reason": "x"}),
    "a relative folder": header(cwd="here"),
}
"""Damage before the end of a turn."""

HEADERS: dict[str, tuple[Harm, str]] = {
    "newer": (header(version=1), "log format 1 is newer than this dsh"),
    "no version": (header(version="0"), "no log format"),
    "no header": (lambda lines: joined(lines[1:]), "not the header of a session"),
    "half a header": (lambda lines: lines[0][:30], "no complete header line"),
    "zeros": (lambda lines: b"\0" * 5000, "no complete header line"),
    "another encoding": (lambda lines: joined(lines).decode().encode("utf-16"), "it is no UTF-8"),
}


def read_all(abc: Shell) -> dict[str, Done]:
    """What the commands say that only read; the file stays as it is."""
    before = abc.log.read_bytes()
    done = {" ".join(argv): abc("sessions", *argv) for argv in READERS}
    assert abc.log.read_bytes() == before
    assert [path.name for path in abc.log.parent.iterdir()] == ["abc.jsonl"]
    return done


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_no_problem(abc: Shell, name: str) -> None:
    abc.log.write_bytes(KEPT[name](abc.lines))
    before = abc.log.read_bytes()
    for said, done in read_all(abc).items():
        assert (done.code, done.err) == (0, ""), said
    assert abc("sessions", "repair", "abc").out == "abc: nothing to repair\n"
    assert abc("sessions", "fork", "abc").code == 0
    assert abc.go_on("-r", "abc").code == 0
    assert abc.log.read_bytes().startswith(before)
    assert abc("sessions", "check", "abc").code == 0


@pytest.mark.parametrize("name", UNREAD)
def test_an_event_that_does_not_fit_is_kept_and_only_told_by_a_check(abc: Shell, name: str) -> None:
    abc.log.write_bytes(UNREAD[name](abc.lines))
    before = abc.log.read_bytes()
    for said, done in read_all(abc).items():
        assert done.code == (1 if said == "check abc" else 0), said
        assert done.err == ""
    assert abc("sessions", "fork", "abc").code == 0
    assert abc.go_on("-r", "abc").code == 0
    assert abc.log.read_bytes().startswith(before)


def test_a_call_that_cannot_be_read_may_have_run(abc: Shell) -> None:
    """So of the calls that a crash left open none is said not to have been started."""
    lines = abc.lines
    n = at(lines, "tool/call")
    abc.log.write_bytes(joined([*lines[:n], lines[n].replace(b'"callId"', b'"call_id"')]))
    assert "TOOL_OUTCOME_UNKNOWN" in abc("sessions", "repair", "abc").out


@pytest.mark.parametrize("name", CUT)
def test_what_is_no_event_at_the_end_is_told_left_out_and_kept_aside(abc: Shell, name: str) -> None:
    abc.log.write_bytes(CUT[name](abc.lines))
    before = abc.log.read_bytes()
    done = read_all(abc)
    assert done["show abc"].code == done["export abc --format html"].code  # 1 if a whole line is left out
    for said in ("export abc --format json", "export abc --format html"):
        assert "needle one" in done[said].out
    json.loads(done["export abc --format json"].out)
    assert done["check abc"].code == 1
    assert "sessions repair abc` mends that" in done["check abc"].out
    assert abc("sessions", "fork", "abc").code == 0

    repaired = abc("sessions", "repair", "abc")
    assert repaired.code == 0
    assert "cut off" in repaired.out
    assert abc.log.with_name("abc.jsonl.before-repair").read_bytes() == before
    assert abc("sessions", "check", "abc").code == 0
    assert abc.go_on("-r", "abc").code == 0


@pytest.mark.parametrize("name", REFUSED)
def test_damage_before_the_end_of_a_turn_is_refused_by_all_that_write(abc: Shell, name: str) -> None:
    abc.log.write_bytes(REFUSED[name](abc.lines))
    done = read_all(abc)
    assert done["check abc"].code == 1
    assert done["search needle --all"].code == 0
    json.loads(done["export abc --format json"].out)
    for said in ("show abc", "export abc --format html"):
        assert done[said].out.count("needle one") == 2  # all of it that can be read
        assert done[said].code == bool(done[said].err)
    before = abc.log.read_bytes()
    assert abc("sessions", "fork", "abc").code == 1
    assert abc.go_on("-r", "abc").code == 1
    assert abc.log.read_bytes() == before
    assert [path.name for path in abc.log.parent.iterdir()] == ["abc.jsonl"]


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_cannot_be_read_is_told_by_everybody(abc: Shell, name: str) -> None:
    harm, message = HEADERS[name]
    abc.log.write_bytes(harm(abc.lines))
    before = abc.log.read_bytes()
    said = [abc("sessions", *argv) for argv in (*READERS[:4], ("fork", "abc"), ("repair", "abc"))]
    for done in (*said, abc.go_on("-r", "abc")):
        assert done.code == 1
        assert message in done.out + done.err
    assert abc.log.read_bytes() == before
    abc.go_on("--session-id", "other")
    whole = abc("sessions", "check", "--all")
    assert whole.code == 1
    assert str(abc.log) in whole.out
    assert message in whole.out
    assert "other: " in whole.out
    *others, told = map(json.loads, abc("sessions", "check", "--all", "--json").out.splitlines())
    assert [one["id"] for one in others] == ["other"]
    assert told["path"] == str(abc.log)
    assert message in told["problems"][0]["problem"]
    assert abc("sessions", "delete", "abc", "--yes").code == 0
    assert not list((abc.folder / "home" / "sessions").glob("*/abc.jsonl*"))


def test_a_renamed_file_is_told_and_ends_no_check_of_the_others(abc: Shell) -> None:
    abc.go_on("--session-id", "other")
    abc.log.rename(abc.log.with_name("moved.jsonl"))
    done = abc("sessions", "check", "--all")
    assert done.code == 1
    assert "was it renamed?" in done.out
    assert "other: " in done.out
    assert "it was renamed" in abc("sessions", "show", "moved").err


def test_many_damaged_lines_are_told_in_few(abc: Shell) -> None:
    abc.log.write_bytes(joined([*abc.lines, *[b"?"] * 100]))
    done = abc("sessions", "show", "abc")
    assert done.code == 1
    assert len(done.err.splitlines()) == 6
    assert "95 more lines" in done.err


def test_a_header_that_changes_nothing_there_is_does_not_stop_a_session(abc: Shell) -> None:
    """The next request logs a whole one."""
    lines = abc.lines
    n = at(lines, "request/header")
    event = {**json.loads(lines[n]), "type": "request/header-delta", "data": {"config": {"model": "a/b"}}}
    abc.log.write_bytes(joined([*lines[:n], json.dumps(event).encode(), *lines[n + 1 :]]))
    assert abc("sessions", "check", "abc").code == 1
    assert abc.go_on("-r", "abc").code == 0


# -- the database


@pytest.fixture
def table(abc: Shell) -> Shell:
    """The same session, in the other store."""
    pytest.importorskip("dsh_sqlite")
    abc.store = "sqlite"
    assert abc.go_on("--session-id", "abc").code == 0
    assert abc.go_on("-r", "abc").code == 0
    return abc


def execute(table: Shell, statement: str) -> None:
    with sqlite3.connect(table.folder / "home" / "sessions.db") as database:
        database.execute(statement)
    database.close()


def test_what_is_cut_off_in_a_database_is_kept_in_a_file(table: Shell) -> None:
    execute(table, "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    execute(table, "UPDATE events SET data = '{' WHERE seq = (SELECT max(seq) FROM events) - 1")
    before = table("sessions", "show", "abc", "--json").out
    assert table("sessions", "check", "abc").code == 1
    done = table("sessions", "repair", "abc")
    assert done.code == 0
    (copy,) = (table.folder / "home" / "sessions.db-copies").iterdir()
    assert str(copy) in done.err
    assert copy.read_text() == before
    assert copy.stat().st_mode & 0o077 == 0
    assert table("sessions", "check", "abc").code == 0
    assert table.go_on("-r", "abc").code == 0

    assert table("sessions", "delete", "abc", "--yes").code == 0
    assert not copy.parent.exists()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM events WHERE seq = 5", "line 7: this is not the event 5"),
        ("UPDATE events SET surface_op = 'zap' WHERE type = 'user/message'", "this is not the event 1"),
        ("UPDATE sessions SET version = 1", "log format 1 is newer"),
        ("PRAGMA user_version = 5", "the database is newer"),
        ("PRAGMA user_version = 3", "the database is older"),
    ],
)
def test_damage_in_a_database_is_refused_by_all_that_write(table: Shell, statement: str, message: str) -> None:
    execute(table, statement)
    for done in (table("sessions", "repair", "abc"), table("sessions", "fork", "abc"), table.go_on("-r", "abc")):
        assert done.code == 1
        assert message in done.err
    for argv in READERS[:2]:
        assert table("sessions", *argv).code in (0, 1)
    assert table("sessions", "check", "abc").code == 1
    assert not os.path.exists(table.folder / "home" / "sessions.db-copies")
