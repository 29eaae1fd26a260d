"""Sessions in files: written, resumed, forked, listed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

import pytest

from dsh import SessionError
from dsh.session import Session, SessionInfo, SessionQuery, SessionsFound

CWD = os.path.abspath(os.sep)


def lines_of(session: Session) -> bytes:
    """What the session's file must hold."""
    codec = session.codec
    return b"".join(line + b"\n" for line in (codec.encode_header(session.header), *session.events.lines()))


def test_a_file_appears_with_the_first_event(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a", cwd=CWD)
    assert not store.root.exists()

    converse(session)

    path = store.path("a")
    assert path.read_bytes() == lines_of(session)
    assert path.parent.name.startswith("cwd-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, store.root)} == {0o700}


async def test_flush_syncs_and_writes_nothing_new(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    await store.sessions.flush(session)
    assert not store.root.exists()

    converse(session)
    await store.sessions.flush(session)
    await store.sessions.flush(session)

    assert store.path("a").read_bytes() == lines_of(session)


async def test_a_deleted_file_is_told_of(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    converse(session)
    store.path("a").unlink()

    with pytest.raises(SessionError, match="was deleted"):
        await store.sessions.flush(session)


async def listed(store: Any, **query: Any) -> list[SessionInfo]:
    found = SessionsFound()
    await store.hook.session_list(query=SessionQuery(**query), found=found)
    return list(found)


async def test_sessions_are_listed_with_their_first_words(store: Any, converse: Callable[..., None]) -> None:
    assert await listed(store) == []
    for n, (id, cwd, text) in enumerate([("a", CWD, "one\n  two"), ("b", None, "é" * 200), ("c", CWD, 'say "\\u" 🙂')]):
        converse(store.create(id, cwd=cwd), text=text)
        os.utime(store.path(id), (1000 + n, 1000 + n))
    store.create("never written")

    infos = await listed(store)

    assert [(info.id, info.cwd, info.updated_at) for info in infos] == [
        ("c", CWD, 1002000),
        ("b", None, 1001000),
        ("a", CWD, 1000000),
    ]
    assert [info.title for info in infos] == ['say "\\u" 🙂', "é" * 119 + "…", "one two"]
    assert infos[0].path == str(store.path("c"))
    assert [info.id for info in await listed(store, cwd=CWD)] == ["c", "a"]
    assert [info.id for info in await listed(store, limit=1)] == ["c"]
    assert await listed(store, parent="a") == []


async def test_only_sessions_are_listed(store: Any, converse: Callable[..., None]) -> None:
    """L19."""
    converse(store.create("a"))
    folder = store.path("a").parent
    long = f'{{"type":"session","version":0,"id":"{"x" * 9000}","createdAt":1}}\n{{"type":"turn/start"}}\n'
    (folder / "long.jsonl").write_text(long)
    (folder / "empty.jsonl").touch()
    (folder / "header only.jsonl").write_text('{"type":"session","version":0,"id":"h","createdAt":1}\n')
    (folder / "torn.jsonl").write_text('{"type":"session","version":0,')
    (folder / "other.jsonl").write_text('{"a":1}\n')
    (folder / "later.jsonl").write_text('{"type":"session","version":9,"id":"h","createdAt":1}\n{}\n')
    (folder / "notes.txt").write_text("x")
    (folder / "folder.jsonl").mkdir()
    (store.root / "file").touch()

    assert {info.id for info in await listed(store)} == {"a", "x" * 9000}


async def test_a_root_that_is_no_folder_is_an_error(stores: Any) -> None:
    """L19."""
    store = stores()
    store.root.parent.mkdir(exist_ok=True)
    store.root.touch()

    with pytest.raises(SessionError, match="cannot list"):
        await listed(store)
    session = store.sessions.prepare("a")
    store.sessions.enter(session)
    with pytest.raises(SessionError, match="cannot read the sessions"):
        store.sessions.announce(session)


async def test_a_renamed_file_is_refused(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("b")
    converse(session)
    store.leave(session)
    store.path("b").rename(store.path("b").with_name("a.jsonl"))

    with pytest.raises(SessionError, match="holds the session 'b'"):
        await store.hook.session_open(session_id="a")


async def test_a_file_goes_on_in_whatever_folder_it_lies(stores: Any, converse: Callable[..., None]) -> None:
    first = stores()
    converse(first.create("a", cwd=CWD))
    await first.close()
    moved = first.root / "elsewhere" / "a.jsonl"
    moved.parent.mkdir()
    first.path("a").rename(moved)

    second = stores()
    resumed = await second.resume("a")
    converse(resumed, 2)
    await second.close()

    assert moved.read_bytes() == lines_of(resumed)
    assert [path.name for path in first.root.rglob("*.jsonl")] == ["a.jsonl"]
