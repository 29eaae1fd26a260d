"""Sessions in files: written, resumed, forked, listed."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from dsh_jsonl import read_session

from dsh import SessionError, SessionLocked
from dsh.jsonvalue import loads
from dsh.messages import USER, Text
from dsh.session import Session, SessionInfo, SessionQuery, SessionsFound, derive
from dsh.session.events import ContextMessage, OtherData, TurnStart, UserMessage

RECORDED = Path(__file__).parents[3] / "../shared/recorded"
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


def test_each_event_is_there_before_others_hear_of_it(store: Any) -> None:
    seen: list[int] = []
    session = store.create("a")
    inner = session.notify

    def notify(session: Session, event: Any) -> None:
        inner(session, event)
        seen.append(store.path("a").read_bytes().count(b"\n"))

    session.notify = notify
    for _ in range(3):
        session.append(UserMessage((Text("hi"),), USER))

    assert seen == [2, 3, 4]


async def test_flush_syncs_and_writes_nothing_new(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    await store.sessions.flush(session)
    assert not store.root.exists()

    converse(session)
    await store.sessions.flush(session)
    await store.sessions.flush(session)

    assert store.path("a").read_bytes() == lines_of(session)


async def test_a_session_goes_on_where_it_was_left(stores: Any, converse: Callable[..., None]) -> None:
    first = stores()
    session = first.create("a", cwd=CWD)
    converse(session)
    await first.close()
    before = first.path("a").read_bytes()

    second = stores()
    resumed = await second.resume("a")
    assert resumed.header == session.header
    assert list(resumed.events) == list(session.events)
    assert resumed.derive_messages() == session.derive_messages()
    assert second.path("a").read_bytes() == before
    converse(resumed, 2)
    await second.close()

    assert second.path("a").read_bytes() == lines_of(resumed)
    assert second.path("a").read_bytes().startswith(before)
    third = await stores().resume("a")
    assert third.last_turn == 2


async def test_what_nobody_has_is_not_found(store: Any) -> None:
    assert await store.hook.session_open(session_id="a") is None


async def test_there_is_one_writer(stores: Any, converse: Callable[..., None]) -> None:
    first, second = stores(), stores()
    session = first.create("a")
    converse(session)

    with pytest.raises(SessionLocked, match=r"another program.*a\.jsonl"):
        await second.resume("a")
    with pytest.raises(SessionLocked, match="open here already"):
        await first.hook.session_open(session_id="a")
    assert read_session(first.path("a")).header == session.header

    await first.close()
    assert (await second.resume("a")).last_turn == 1
    await second.close()


async def test_another_process_is_refused(store: Any, converse: Callable[..., None]) -> None:
    converse(store.create("a"))
    program = (
        "import sys, pathlib, trio\n"
        "from dsh.session import Sessions\n"
        "from dsh_jsonl.files import SessionFiles\n"
        "files = SessionFiles(pathlib.Path(sys.argv[1]), Sessions(None))\n"
        "trio.run(files.session_open, 'a')\n"
    )
    argv = [sys.executable, "-c", program, str(store.root)]

    refused = await trio.run_process(argv, capture_stderr=True, check=False)
    await store.close()
    allowed = await trio.run_process(argv, capture_stderr=True, check=False)

    assert b"SessionLocked" in refused.stderr
    assert (allowed.returncode, allowed.stderr) == (0, b"")


async def test_a_disposed_agents_file_is_free(store: Any, converse: Callable[..., None]) -> None:
    session, detach = store.sessions.create("a")
    converse(session)
    store.hook.agent_disposed(agent=SimpleNamespace(session=session))
    session.append(ContextMessage((Text("late"),), USER))
    assert store.path("a").read_bytes() == lines_of(session)
    detach()

    resumed = await store.resume("a")
    assert len(resumed.events) == len(session.events)
    await store.close()


async def test_a_resume_that_failed_can_be_tried_again(store: Any, converse: Callable[..., None]) -> None:
    session, detach = store.sessions.create("a")
    converse(session)
    detach()

    assert await store.hook.session_open(session_id="a") is not None  # and then something failed
    resumed = await store.resume("a")
    resumed.notify = None
    store.sessions._live.clear()  # its agent could not be made
    again = await store.resume("a")
    converse(again, 2)

    assert store.path("a").read_bytes() == lines_of(again)
    await store.close()


def test_a_session_that_was_never_written_leaves_its_id_free(store: Any, converse: Callable[..., None]) -> None:
    _, detach = store.sessions.create("a")
    detach()

    converse(store.create("a"))

    assert store.path("a").exists()


async def test_a_stored_id_is_taken(stores: Any, converse: Callable[..., None]) -> None:
    first = stores()
    converse(first.create("a"))
    await first.close()
    second = stores()

    for cwd in (None, CWD):
        with pytest.raises(SessionError, match="resume it, or choose another id"):
            second.create("a", cwd=cwd)
    assert second.sessions.get("a") is None


async def test_a_loaded_session_is_not_mixed_up_with_another(store: Any, converse: Callable[..., None]) -> None:
    session, detach = store.sessions.create("a")
    converse(session, text="one")
    detach()
    before = store.path("a").read_bytes()
    other = Session("other")
    converse(other, text="two")

    for seed, cwd in ((other.events, None), (session.events, CWD), ((), None)):
        await store.hook.session_open(session_id="a")
        with pytest.raises(SessionError, match="not the one that is stored"):
            store.create("a", seed=seed, cwd=cwd)

    assert store.path("a").read_bytes() == before


async def test_a_fork_is_written_with_its_beginning(stores: Any, converse: Callable[..., None]) -> None:
    store = stores()
    parent = store.create("a", cwd=CWD)
    converse(parent)
    child = store.sessions.fork(parent, child_id="b")
    store.sessions.enter(child)
    store.sessions.announce(child)
    converse(child, 2)

    assert store.path("b").read_bytes() == lines_of(child)
    assert store.path("b").read_bytes().split(b"\n")[1:-1][: len(parent.events)] == list(parent.events.lines())
    await store.close()
    resumed = await stores().resume("b")
    assert (resumed.header.parent_session, resumed.header.seed_length) == ("a", len(parent.events))


async def test_a_fork_of_a_resumed_session_keeps_its_lines(stores: Any, converse: Callable[..., None]) -> None:
    store = stores()
    converse(store.create("a"))
    await store.close()
    text = store.path("a").read_bytes().replace(b'"turn":1,"step":1}', b'"turn":1,"step":1,"later":1e2}')
    store.path("a").write_bytes(text)

    second = stores()
    child = second.sessions.fork(await second.resume("a"), child_id="b")
    second.sessions.enter(child)
    second.sessions.announce(child)
    await second.sessions.flush(child)

    assert second.path("b").read_bytes().split(b"\n")[1:] == text.split(b"\n")[1:]
    await second.close()


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


async def test_events_that_nobody_knows_are_kept(stores: Any, converse: Callable[..., None]) -> None:
    store = stores()
    session = store.create("a")
    session.append(OtherData("from/future", {"x": [1, None, "é"]}))
    converse(session)
    await store.close()

    resumed = await stores().resume("a")

    assert resumed.events[0].data == OtherData("from/future", {"x": [1, None, "é"]})
    assert resumed.derive_messages() == session.derive_messages()


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not here")
async def test_recorded_sessions_are_resumed(stores: Any) -> None:
    store = stores()
    folder = store.root / "_no-cwd"
    folder.mkdir(parents=True)
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        id = loads(path.read_bytes().split(b"\n")[0])["id"]
        target = folder / f"{id}.jsonl"
        shutil.copyfile(path, target)
        target.chmod(0o600)
        text = path.read_bytes()

        stored = await store.hook.session_open(session_id=id)

        assert stored is not None
        assert derive(stored.events) == derive(read_session(path).events)
        assert list(stored.events.lines()) == text.split(b"\n")[1:-1]
        assert target.read_bytes() == text
    assert len(await listed(store)) == len([p for p in folder.iterdir() if p.read_bytes().count(b"\n") > 1])
    await store.close()


def test_reading_repairs_nothing(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    converse(session)
    session.append(TurnStart(2, session.events[0].data.trigger))
    with open(store.path("a"), "ab") as file:
        file.write(b'{"type":"turn/')
    before = store.path("a").read_bytes()

    stored = read_session(store.path("a"))

    assert list(stored.events) == list(session.events)
    assert store.path("a").read_bytes() == before
    with pytest.raises(SessionError, match="cannot read"):
        read_session(store.root / "absent")
