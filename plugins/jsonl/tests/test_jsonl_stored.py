"""Files that are looked at, and deleted, without being opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_jsonl.stored import FileLog, StoredFiles, delete, look
from dsh_jsonl.writer import lock

from dsh import CorruptSession, SessionError, SessionLocked
from dsh.session import parse_log
from dsh.session.codec import default_codec

CODEC = default_codec()


@pytest.fixture
def path(store: Any, converse: Callable[..., None]) -> Path:
    """The file of a session with two turns."""
    session = store.create("a")
    converse(session)
    converse(session, 2, "more")
    store.leave(session)
    file: Path = store.path("a")
    return file


def test_a_file_is_read_as_it_lies(path: Path) -> None:
    stored = look(path, CODEC)
    parsed = parse_log(path.read_bytes(), CODEC, "x")

    assert stored.header == parsed.header
    assert (stored.path, stored.rest) == (str(path), 0)
    assert list(stored.events) == list(parsed.events)
    assert len(stored.events) == len(parsed.events)
    assert [stored.events[seq] for seq in range(-3, 3)] == [parsed.events[seq] for seq in range(-3, 3)]
    assert stored.events[2:7:2] == list(parsed.events)[2:7:2]
    assert isinstance(stored.events, FileLog)
    assert list(stored.events.lines(3)) == path.read_bytes().splitlines()[4:]
    assert list(stored.events.lines(999)) == []
    with pytest.raises(IndexError, match="no event 999"):
        stored.events[999]


def test_what_was_never_completely_written_is_counted(path: Path) -> None:
    whole = len(look(path, CODEC).events)
    with path.open("ab") as stream:
        stream.write(b'{"type"')
    stored = look(path, CODEC)
    assert (len(stored.events), stored.rest) == (whole, 7)


def test_lines_of_any_length_are_found(path: Path) -> None:
    long = b'{"type":"x/y","seq":%d,"time":1,"data":"%s"}' % (len(look(path, CODEC).events), b"z" * 3_000_000)
    with path.open("ab") as stream:
        stream.write(long + b"\n")
    assert look(path, CODEC).events.line(-1 + len(look(path, CODEC).events)) == long  # type: ignore[attr-defined]  # a FileLog


def test_a_damaged_line_is_told_when_it_is_asked_for(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], b"?", *lines[4:]]) + b"\n")
    events = look(path, CODEC).events
    assert events[1].seq == 1
    with pytest.raises(CorruptSession, match="line 4: not JSON"):
        events[2]
    with pytest.raises(CorruptSession, match="line 4: not JSON"):
        list(events)


def test_a_file_that_becomes_shorter_or_goes_away(path: Path) -> None:
    events = look(path, CODEC).events
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(CorruptSession, match="has become shorter"):
        list(events)
    path.unlink()
    with pytest.raises(SessionError, match="cannot read the session file"):
        list(events)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no complete header line"),
        (b'{"type":"session"', "no complete header line"),
        (b"{}\n", "line 1: the first line is not the header"),
    ],
)
def test_a_file_without_a_header(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(text)
    with pytest.raises(CorruptSession, match=message):
        look(path, CODEC)
    with pytest.raises(SessionError, match="cannot read the session file"):
        look(tmp_path / "absent.jsonl", CODEC)


async def test_a_session_is_read_while_it_is_written(store: Any, converse: Callable[..., None]) -> None:
    files = StoredFiles(store.root, store.sessions)
    assert await files.session_read("a") is None
    session = store.create("a")
    converse(session)
    stored = await files.session_read("a")
    assert stored is not None
    assert list(stored.events) == list(session.events)
    converse(session, 2)
    assert len(stored.events) < len(session.events)
    assert list(stored.events) == list(session.events)[: len(stored.events)]


async def test_only_a_session_that_nobody_writes_is_deleted(store: Any, converse: Callable[..., None]) -> None:
    files = StoredFiles(store.root, store.sessions)
    assert await files.session_delete("a") is None
    session = store.create("a")
    converse(session)
    with pytest.raises(SessionLocked, match="end the program that writes it"):
        await files.session_delete("a")
    store.leave(session)
    path = store.path("a")
    assert await files.session_delete("a") is True
    assert not path.exists()
    assert await files.session_delete("a") is None
    assert await files.session_read("a") is None


def test_a_locked_file_stays(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    lock(fd, path)
    with pytest.raises(SessionLocked):
        delete(path)
    os.close(fd)
    delete(path)
    delete(path)  # it is gone already
    assert not path.exists()
