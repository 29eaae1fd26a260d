"""What a killed program, a damaged file and a full disk leave behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dsh_jsonl.files import _load, read

from dsh import CorruptSession, SessionError
from dsh.messages import USER, Text
from dsh.session import Session, interrupted_turn_closers
from dsh.session.events import Trigger, TurnEnd, TurnStart, UserMessage


@pytest.fixture
def text(store: Any, converse: Callable[..., None]) -> bytes:
    """A file with a whole turn and an open one."""
    session = store.create("a")
    converse(session)
    session.append(TurnStart(2, Trigger("message", USER)))
    session.append(UserMessage((Text("more"),), USER))
    store.leave(session)
    content: bytes = store.path("a").read_bytes()
    return content


def load(path: Path, session: Session) -> Any:
    file, stored = _load(path, "a", session.codec)
    file.close()
    return stored


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where syncing costs nothing, if there is one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_file_cut_anywhere_loads_balanced(memory: Path, text: bytes) -> None:
    session = Session("a")
    path = memory / "cut.jsonl"
    header = text.index(b"\n") + 1
    lines = text.split(b"\n")[1:-1]
    for size in range(len(text) + 1):
        path.write_bytes(text[:size])
        if size < header:
            with pytest.raises(CorruptSession, match="no complete header line"):
                load(path, session)
            assert path.read_bytes() == text[:size]
            continue

        stored = load(path, session)

        whole = text[:size].count(b"\n") - 1
        assert list(stored.events.lines())[:whole] == lines[:whole]
        assert interrupted_turn_closers(stored.events) == []
        assert Session("a", stored.events).open_turn is None
        after = path.read_bytes()
        assert after.endswith(b"\n")
        assert list(read(path).events) == list(stored.events)
        load(path, session)
        assert path.read_bytes() == after


async def test_a_cut_session_goes_on(stores: Any, text: bytes, converse: Callable[..., None]) -> None:
    store = stores()
    path = store.path("a")
    path.write_bytes(text[:-20])

    session = await store.resume("a")
    converse(session, 3)
    await store.close()

    again = await stores().resume("a")
    assert list(again.events) == list(session.events)
    assert again.last_turn == 3
    assert [event.data.reason.kind for event in again.events if isinstance(event.data, TurnEnd)] == [
        "completed",
        "interrupted",
        "completed",
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:4], b"broken", *lines[5:]],
        lambda lines: [*lines[:4], *lines[5:]],
        lambda lines: [*lines[:4], b"\0" * 4096 + lines[4], *lines[5:]],
        lambda lines: [*lines[:4], b"", *lines[4:]],
        lambda lines: [*lines[:4], lines[3], *lines[4:]],
    ],
    ids=["broken", "missing", "zeros", "blank", "twice"],
)
async def test_damage_before_the_end_of_a_turn_is_refused(
    stores: Any, text: bytes, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    store = stores()
    damaged = b"\n".join(damage(text.split(b"\n")))
    store.path("a").write_bytes(damaged)

    with pytest.raises(CorruptSession, match=r"a\.jsonl, line 5: "):
        await store.resume("a")

    assert store.path("a").read_bytes() == damaged


async def test_damage_after_it_is_cut_off(stores: Any, text: bytes) -> None:
    store = stores()
    lines = text.split(b"\n")
    lines[-3] = b"broken"  # the open turn's start
    store.path("a").write_bytes(b"\n".join(lines))

    session = await store.resume("a")

    assert (session.last_turn, session.open_turn) == (1, None)
    await store.close()
    assert store.path("a").read_bytes() == b"\n".join([*lines[:-3], b""])


async def test_data_that_do_not_fit_are_named(stores: Any, text: bytes) -> None:
    store = stores()
    store.path("a").write_bytes(text.replace(b'"data":{"turn":1,"step":1}', b'"data":{"turn":1,"step":"x"}', 1))

    with pytest.raises(CorruptSession, match=r"a\.jsonl, line 4: step/start: .*data\.step"):
        await store.resume("a")


async def test_a_later_format_is_refused(stores: Any, text: bytes) -> None:
    store = stores()
    store.path("a").write_bytes(text.replace(b'"version":0', b'"version":1', 1))

    with pytest.raises(CorruptSession, match="line 1: log format 1 is not known"):
        await store.resume("a")


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file can grow beyond `size`: writes are cut short there and then refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


async def test_a_full_disk_stops_the_turn_and_loses_nothing(stores: Any, converse: Callable[..., None]) -> None:
    store = stores()
    session = store.create("a")
    converse(session)
    path = store.path("a")
    before = path.read_bytes()

    with room(len(before) + 10):
        for n in (1, 2):
            with pytest.raises(SessionError, match=rf"cannot write .*a\.jsonl: .*; {n} events wait"):
                session.append(say(f"lost {n}?"))
            assert path.read_bytes() == before
        with pytest.raises(SessionError, match="cannot write"):
            await store.sessions.flush(session)
    session.append(say("there is room"))

    await store.close()
    assert path.read_bytes().split(b"\n")[1:-1] == list(session.events.lines())
    assert len((await stores().resume("a")).events) == len(session.events)


async def test_a_flush_writes_what_was_left(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    converse(session)
    with room(store.path("a").stat().st_size), pytest.raises(SessionError, match="cannot write"):
        session.append(say("later"))

    await store.sessions.flush(session)

    assert store.path("a").read_bytes().split(b"\n")[1:-1] == list(session.events.lines())
    await store.close()


async def test_a_file_that_could_not_begin_is_not_there(store: Any, converse: Callable[..., None]) -> None:
    session = store.create("a")
    with room(10), pytest.raises(SessionError, match="cannot write"):
        session.append(say("hi"))
    assert [path for path in store.root.rglob("*") if path.is_file()] == []

    converse(session)

    assert store.path("a").read_bytes().count(b"\n") == len(session.events) + 1
    await store.close()


async def test_closing_a_store_on_a_full_disk_tells_of_it(store: Any) -> None:
    session, other = store.create("a"), store.create("b")
    with room(10):
        for one in (session, other):
            with pytest.raises(SessionError):
                one.append(say("hi"))
        with pytest.raises(ExceptionGroup) as caught:
            await store.close()

    assert len(caught.value.exceptions) == 2


async def test_no_permission_is_an_error(store: Any, converse: Callable[..., None]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    store.root.mkdir(mode=0o500)

    with pytest.raises(SessionError, match="cannot write"):
        converse(store.create("a"))


PROGRAM = """
import os, pathlib, sys
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.messages import USER, Text
from dsh.session import Sessions
from dsh.session.events import AssistantChunk, StepStart, Trigger, TurnStart, UserMessage
from dsh.llm.chunks import TextDelta
from dsh_jsonl.files import SessionFiles

manager = PluginManager()
manager.add_hookspecs(Hooks)
sessions = Sessions(manager.relay)
manager.register(SessionFiles(pathlib.Path(sys.argv[1]), sessions), "jsonl.store")
session, _ = sessions.create("a")
session.append(TurnStart(1, Trigger("message", USER)))
session.append(UserMessage((Text("hi"),), USER))
session.append(StepStart(1, 1))
while True:
    session.append(AssistantChunk(1, 1, TextDelta(0, "x" * 50)))
    print(len(session.events), flush=True)
"""


def killed(root: Path) -> int:
    """Run the program, kill it in the middle, and say how many events it had shown."""
    argv = [sys.executable, "-c", PROGRAM, str(root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        shown = [int(child.stdout.readline()) for _ in range(50)]
        child.send_signal(signal.SIGKILL)
        shown += [int(line) for line in child.stdout.read().split(b"\n")[:-1]]
    return max(shown)


async def test_a_killed_program_loses_nothing_that_anybody_saw(stores: Any, converse: Callable[..., None]) -> None:
    store = stores()
    seen = killed(store.root)

    session = await store.resume("a")

    assert len(session.events) >= seen + 2  # step/end and turn/end
    assert session.open_turn is None
    converse(session, 2)
    await store.close()
    assert (await stores().resume("a")).last_turn == 2
