"""What every store does with sessions: written, resumed, forked, listed, repaired, and copied to another store."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from attrs import define

from dsh import AgentOptions, Config, ConfigError, CorruptSession, SessionError, SessionLocked, hookimpl, open_harness
from dsh.agents import AgentRegistry
from dsh.config import SessionsConfig
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.jsonvalue import dumps, loads
from dsh.llm.chunks import TextDelta
from dsh.messages import USER, CallConfig, Text, ToolCallBlock
from dsh.session import Session, SessionInfo, SessionQuery, Sessions, SessionsFound, SessionStore, derive
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    EndReason,
    Header,
    OtherData,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh.session.store import UNSTORED
from dsh.testing import memory_harness, reply

jsonl = pytest.importorskip("dsh_jsonl")
sqlite = pytest.importorskip("dsh_sqlite")

CWD = os.path.abspath(os.sep)
HERE = Path(__file__).parent
RECORDED = HERE / "../../shared/recorded"


# -- the two kinds


class Files:
    """Sessions in files, and how to look at them and to damage them."""

    name = "jsonl"

    def plugins(self, home: Path, sessions: Sessions) -> tuple[SessionStore, *tuple[object, ...]]:
        from dsh_jsonl.files import SessionFiles
        from dsh_jsonl.stored import StoredFiles

        return SessionFiles(home / "sessions", sessions), StoredFiles(home / "sessions", sessions)

    def _path(self, home: Path, id: str) -> Path | None:
        return next((home / "sessions").glob(f"*/{id}.jsonl"), None)

    def lines(self, home: Path, id: str) -> list[bytes]:
        """The header and the events as they are stored; none if nothing is."""
        path = self._path(home, id)
        return [] if path is None else path.read_bytes().split(b"\n")[:-1]

    def rewrite(self, home: Path, id: str, lines: Sequence[bytes]) -> None:
        """Store these lines for the session, whatever they are."""
        path = self._path(home, id)
        if path is None:
            path = home / "sessions" / "_no-cwd" / f"{id}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines))

    def read(self, home: Path, id: str) -> Any:
        return jsonl.read_session(self._path(home, id) or home / "absent")


class Table:
    """The same with a database."""

    name = "sqlite"

    def plugins(self, home: Path, sessions: Sessions) -> tuple[SessionStore, *tuple[object, ...]]:
        from dsh_sqlite.store import SessionTable

        return (SessionTable(home / "sessions.db", sessions),)

    def lines(self, home: Path, id: str) -> list[bytes]:
        from dsh_sqlite.database import Database, event_rows, header_line, holds, kept_lines
        from dsh_sqlite.rows import compose

        with Database(home / "sessions.db").reading() as connection:
            if connection is None or not holds(connection, id):
                return []
            return [header_line(connection, id), *compose(event_rows(connection, id), kept_lines(connection, id))]

    def rewrite(self, home: Path, id: str, lines: Sequence[bytes]) -> None:
        from dsh_sqlite.database import Database

        database = Database(home / "sessions.db")
        database.writing()
        database.close()
        header, *events = lines
        with closing(sqlite3.connect(home / "sessions.db")) as connection, connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("DELETE FROM sessions WHERE id = ?", (id,))
            record = loads(header)
            names = ("id", "version", "createdAt", "cwd", "parentSession", "seedLength")
            values = [record.get(name) for name in names]
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", values)
            for seq, line in enumerate(events):
                connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", (id, *_row(line, seq)))

    def read(self, home: Path, id: str) -> Any:
        return sqlite.read_session(home / "sessions.db", id)


def _row(line: bytes, seq: int) -> tuple[Any, ...]:
    try:
        record = loads(line)
    except ValueError:
        return seq, "turn/start", 0, line.decode(), None, None
    sources, operation = (
        dumps(record[key]).decode() if key in record else None for key in ("sourceEventSeqs", "surfaceOp")
    )
    return record["seq"], record["type"], record["time"], dumps(record["data"]).decode(), sources, operation


Kind = Files | Table
KINDS: tuple[Kind, ...] = (Files(), Table())


@define
class Store:
    """Sessions whose hooks reach a store, as in a harness."""

    kind: Kind
    home: Path
    sessions: Sessions
    hook: Hooks
    plugin: SessionStore
    manager: PluginManager

    def create(self, id: str, **options: Any) -> Session:
        return self.sessions.create(id, **options)[0]

    def enter(self, session: Session) -> Session:
        self.sessions.enter(session)
        self.sessions.announce(session)
        return session

    def leave(self, session: Session) -> None:
        """What the disposal of the session's agent does."""
        self.hook.agent_disposed(agent=cast(Any, SimpleNamespace(session=session)))
        session.notify = None
        self.sessions._live.pop(session.id)

    async def resume(self, id: str) -> Session:
        """Load a session and enter it, as `Harness.resume_agent` does."""
        stored = await self.hook.session_open(session_id=id)
        assert stored is not None
        return self.enter(self.again(stored))

    def again(self, stored: Any) -> Session:
        header = stored.header
        return self.sessions.prepare(
            header.id,
            seed=stored.events,
            cwd=header.cwd,
            parent_session=header.parent_session,
            created_at=header.created_at,
            seed_length=header.seed_length,
        )

    async def close(self) -> None:
        """What the end of a harness does."""
        await self.plugin.dsh_unconfigure(cast(Any, SimpleNamespace(agents=AgentRegistry())))

    async def listed(self, **query: Any) -> list[SessionInfo]:
        found = SessionsFound()
        await self.hook.session_list(query=SessionQuery(**query), found=found)
        return [*found]

    def lines(self, id: str) -> list[bytes]:
        return self.kind.lines(self.home, id)

    def rewrite(self, id: str, lines: Sequence[bytes]) -> None:
        self.kind.rewrite(self.home, id, lines)


def open_store(kind: Kind, home: Path) -> Store:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    hook = cast(Hooks, manager.relay)
    sessions = Sessions(hook)
    plugins = kind.plugins(home, sessions)
    for n, plugin in enumerate(plugins):
        manager.register(plugin, f"{kind.name}.{n}")
    return Store(kind, home, sessions, hook, plugins[0], manager)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return cast(Kind, request.param)


Stores = Callable[[], Store]


@pytest.fixture
def stores(kind: Kind, tmp_path: Path) -> Stores:
    """Makes stores over one folder, each like another program."""
    return lambda: open_store(kind, tmp_path)


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores()


def converse(session: Session, turn: int = 1, text: str = "hi") -> None:
    """A turn with a tool call, as the loop would log it."""
    session.append(TurnStart(turn, Trigger("message", USER)))
    session.append(UserMessage((Text(text),), USER))
    session.append(StepStart(turn, 1))
    if session.request_header() is None:
        session.append(RequestHeader(Header(CallConfig("p/m"), "be brief"), "initial"))
    chunk = session.append(AssistantChunk(turn, 1, TextDelta(0, "é\u2028")))
    call = ToolCallBlock(f"c{turn}", "read", "{}")
    session.append(AssistantMessage(turn, 1, (Text("é\u2028"), call)), sources=[chunk.seq])
    started = session.append(ToolCall(turn, 1, call.id, call.name, call.arguments))
    session.append(ToolResult(turn, 1, call.id, (Text("out"),), False, meta={"n": 2**70}), sources=[started.seq])
    session.append(StepEnd(turn, 1))
    session.append(TurnEnd(turn, EndReason("completed")))


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


def lines_of(session: Session) -> list[bytes]:
    """What must be stored of the session."""
    return [session.codec.encode_header(session.header), *session.events.lines()]


# -- writing and going on


async def test_l01_nothing_is_stored_before_the_first_event(store: Store) -> None:
    session = store.create("a", cwd=CWD)
    await store.sessions.flush(session)

    assert await store.listed() == []
    assert list(store.home.iterdir()) == []
    await store.close()


async def test_each_event_is_stored_before_others_hear_of_it(store: Store) -> None:
    seen: list[int] = []
    session = store.create("a")
    inner = session.notify
    assert inner is not None

    def notify(session: Session, event: Any) -> None:
        inner(session, event)
        seen.append(len(store.lines("a")))

    session.notify = notify
    for _ in range(3):
        session.append(say("hi"))

    assert seen == [2, 3, 4]
    await store.close()


async def test_l02_a_session_goes_on_where_it_was_left(stores: Stores) -> None:
    first = stores()
    session = first.create("a", cwd=CWD)
    converse(session)
    await first.sessions.flush(session)
    await first.close()
    before = first.lines("a")
    assert before == lines_of(session)

    second = stores()
    resumed = await second.resume("a")
    assert resumed.header == session.header
    assert list(resumed.events) == list(session.events)
    assert resumed.derive_messages() == session.derive_messages()
    assert second.lines("a") == before
    converse(resumed, 2)
    await second.close()

    assert second.lines("a") == lines_of(resumed)
    assert second.lines("a")[: len(before)] == before
    third = stores()
    assert (await third.resume("a")).last_turn == 2
    await third.close()


async def test_l22_what_was_never_flushed_is_there(stores: Stores) -> None:
    first = stores()
    session = first.create("a")
    converse(session)
    first.leave(session)

    second = stores()
    assert len((await second.resume("a")).events) == len(session.events)
    await second.close()
    await first.close()


async def test_what_nobody_has_is_not_found(store: Store) -> None:
    assert await store.hook.session_open(session_id="a") is None
    assert list(store.home.iterdir()) == []


async def test_events_that_nobody_knows_are_kept(stores: Stores) -> None:
    store = stores()
    session = store.create("a")
    session.append(OtherData('from "the"\nfuture', {"x": [1, None, "é"]}))
    converse(session)
    await store.close()

    second = stores()
    resumed = await second.resume("a")

    assert list(resumed.events) == list(session.events)
    assert second.lines("a") == lines_of(session)
    await second.close()


@pytest.mark.parametrize("id", ["a/b", "..", "é🙂", "a b\n", "'; DROP TABLE events; --"])
async def test_any_text_is_an_id(stores: Stores, id: str) -> None:
    store = stores()
    session = store.create(id, cwd=CWD)
    converse(session)
    await store.close()

    second = stores()
    assert list((await second.resume(id)).events) == list(session.events)
    assert [info.id for info in await second.listed()] == [id]
    await second.close()


# -- one writer


async def test_there_is_one_writer(stores: Stores) -> None:
    first, second = stores(), stores()
    session = first.create("a")
    converse(session)

    with pytest.raises(SessionLocked, match="another program"):
        await second.resume("a")
    with pytest.raises(SessionLocked, match="open here already"):
        await first.hook.session_open(session_id="a")
    assert first.kind.read(first.home, "a").header == session.header
    assert [info.id for info in await second.listed()] == ["a"]

    await first.close()
    assert (await second.resume("a")).last_turn == 1
    await second.close()


WRITER = """
import pathlib, sys, trio
from types import SimpleNamespace
from dsh import open_harness, Config
from dsh.config import SessionsConfig
import dsh_jsonl, dsh_sqlite
from dsh.messages import USER, Text
from dsh.session.events import AssistantChunk, StepStart, Trigger, TurnStart, UserMessage
from dsh.llm.chunks import TextDelta

async def main(home, store, resume):
    plugins = {"jsonl": dsh_jsonl, "sqlite": dsh_sqlite}
    config = Config(sessions=SessionsConfig(store))
    async with open_harness(config, plugins=plugins, discover=False, home=home) as harness:
        if resume:
            await harness.hook.session_open(session_id="a")
            return
        session, _ = harness.sessions.create("a")
        session.append(TurnStart(1, Trigger("message", USER)))
        session.append(UserMessage((Text("hi"),), USER))
        session.append(StepStart(1, 1))
        while True:
            session.append(AssistantChunk(1, 1, TextDelta(0, "x" * 50)))
            print(len(session.events), flush=True)

trio.run(main, pathlib.Path(sys.argv[1]), sys.argv[2], len(sys.argv) > 3)
"""


def program(store: Store, *more: str) -> list[str]:
    return [sys.executable, "-c", WRITER, str(store.home), store.kind.name, *more]


async def test_another_process_is_refused(store: Store) -> None:
    converse(store.create("a"))

    refused = await trio.run_process(program(store, "resume"), capture_stderr=True, check=False)
    await store.close()
    allowed = await trio.run_process(program(store, "resume"), capture_stderr=True, check=False)

    assert b"SessionLocked" in refused.stderr
    assert (allowed.returncode, allowed.stderr) == (0, b"")


def killed(store: Store) -> int:
    """Run a program that writes, kill it, and say how many events it had shown."""
    with subprocess.Popen(program(store), stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        shown = [int(child.stdout.readline()) for _ in range(50)]
        child.send_signal(signal.SIGKILL)
        shown += [int(line) for line in child.stdout.read().split(b"\n")[:-1]]
    return max(shown)


async def test_a_killed_program_loses_nothing_that_anybody_saw(stores: Stores) -> None:
    store = stores()
    seen = killed(store)

    session = await store.resume("a")

    assert len(session.events) >= seen + 2  # step/end and turn/end
    assert session.open_turn is None
    converse(session, 2)
    await store.close()
    third = stores()
    assert (await third.resume("a")).last_turn == 2
    await third.close()


DYING = """
import os, pathlib, signal, sys, trio
import test_store_contract as contract
from dsh import hookimpl

class Death:
    @hookimpl(trylast=True)
    def session_event(self, session, event):
        if event.seq == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

async def main(home, kind, at):
    store = contract.open_store(kind, home)
    death = Death()
    death.at = at
    store.manager.register(death, "death")
    session = store.create("a")
    for turn in (1, 2):
        contract.converse(session, turn)
        await store.sessions.flush(session)

root, name, *deaths = sys.argv[1:]
[kind] = [kind for kind in contract.KINDS if kind.name == name]
for at in deaths:
    if os.fork() == 0:
        trio.run(main, pathlib.Path(root, at), kind, int(at))
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


async def test_killed_at_any_event_a_session_goes_on(kind: Kind, tmp_path: Path) -> None:
    whole = Session("a")
    for turn in (1, 2):
        converse(whole, turn)
    deaths = [str(n) for n in range(len(whole.events))]
    for at in deaths:
        os.mkdir(tmp_path / at)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))}
    argv = [sys.executable, "-c", DYING, str(tmp_path), kind.name, *deaths]
    done = await trio.run_process(argv, env=env, capture_stdout=True)
    assert done.stdout.split() == [b"-9"] * len(deaths)

    for at in deaths:
        store = open_store(kind, tmp_path / at)
        before = store.lines("a")
        session = await store.resume("a")
        types = [event.type for event in session.events]
        assert types[: int(at) + 1] == [event.type for event in whole.events[: int(at) + 1]]
        assert list(session.events.lines())[: len(before) - 1] == before[1:]
        assert session.open_turn is None
        converse(session, 3)
        await store.close()
        assert store.lines("a") == lines_of(session)


async def test_a_disposed_agents_session_is_free(stores: Stores) -> None:
    store = stores()
    session, detach = store.sessions.create("a")
    converse(session)
    store.hook.agent_disposed(agent=cast(Any, SimpleNamespace(session=session)))
    session.append(ContextMessage((Text("late"),), USER))
    assert store.lines("a") == lines_of(session)
    detach()

    second = stores()
    resumed = await second.resume("a")
    assert len(resumed.events) == len(session.events)
    await second.close()
    await store.close()


async def test_a_late_event_of_a_session_that_goes_on_elsewhere_is_refused(stores: Stores) -> None:
    store, second = stores(), stores()
    session = store.create("a")
    converse(session)
    store.hook.agent_disposed(agent=cast(Any, SimpleNamespace(session=session)))
    resumed = await second.resume("a")
    with pytest.raises(SessionLocked):
        session.append(ContextMessage((Text("late"),), USER))
    converse(resumed, 2)
    await second.close()

    with pytest.raises(SessionError, match="changed by another program"):
        session.append(ContextMessage((Text("later"),), USER))
    assert store.lines("a") == lines_of(resumed)


async def test_a_resume_that_failed_can_be_tried_again(store: Store) -> None:
    session, detach = store.sessions.create("a")
    converse(session)
    detach()

    assert await store.hook.session_open(session_id="a") is not None  # and then something failed
    resumed = await store.resume("a")
    resumed.notify = None
    store.sessions._live.clear()  # its agent could not be made
    again = await store.resume("a")
    converse(again, 2)

    assert store.lines("a") == lines_of(again)
    await store.close()


# -- ids that are taken


async def test_l13_a_session_that_was_never_written_leaves_its_id_free(store: Store) -> None:
    _, detach = store.sessions.create("a")
    detach()

    converse(store.create("a"))

    assert store.lines("a")
    await store.close()


async def test_l13_two_programs_cannot_begin_one_session(stores: Stores) -> None:
    first, second = stores(), stores()
    one, other = first.create("a"), second.create("a")
    converse(one)

    with pytest.raises(SessionError, match=r"already|another program"):
        other.append(say("mine"))

    assert first.lines("a") == lines_of(one)
    with pytest.raises(SessionError):
        await second.close()
    await first.close()


async def test_l04_a_stored_id_is_taken(stores: Stores) -> None:
    first = stores()
    converse(first.create("a"))
    await first.close()
    second = stores()

    for cwd in (None, CWD):
        with pytest.raises(SessionError, match="resume it, or choose another id"):
            second.create("a", cwd=cwd)
    assert second.sessions.get("a") is None
    await second.close()


async def test_l15_a_loaded_session_is_not_mixed_up_with_another(store: Store) -> None:
    session, detach = store.sessions.create("a")
    converse(session, text="one")
    detach()
    before = store.lines("a")
    other = Session("other")
    converse(other, text="two")

    for seed, cwd in ((other.events, None), (session.events, CWD), ((), None)):
        await store.hook.session_open(session_id="a")
        with pytest.raises(SessionError, match="not the one that is stored"):
            store.create("a", seed=seed, cwd=cwd)

    assert store.lines("a") == before
    await store.close()


# -- forks and copies


async def test_a_fork_is_written_with_its_beginning(stores: Stores) -> None:
    store = stores()
    parent = store.create("a", cwd=CWD)
    converse(parent)
    child = store.enter(store.sessions.fork(parent, child_id="b"))
    converse(child, 2)

    assert store.lines("b") == lines_of(child)
    assert store.lines("b")[1:][: len(parent.events)] == list(parent.events.lines())
    await store.close()
    second = stores()
    resumed = await second.resume("b")
    assert (resumed.header.parent_session, resumed.header.seed_length) == ("a", len(parent.events))
    await second.close()


ODD = (
    b'{"seq":0,"type":"later/thing","time":1,"data":{"order":"of keys"}}',
    b'{"type":"later/thing","seq":1,"time":1, "data":{"space":1}}',
    b'{"type":"later/thing","seq":2,"time":1,"data":{},"more":true}',
    b'{"type":"later/thing","seq":3,"time":1,"data":1,"data":2}',
    b'{"type":"later/thing","seq":4,"time":1,"data":[1e2,1.50,123456789012345678901234567890]}',
    b'{"type":"later/thing","seq":5,"time":1,"data":"\\ud83d","sourceEventSeqs":[1, 2]}',
    b'{"type":"later\\u002fthing","seq":6,"time":1,"data":null}',
)


@pytest.mark.parametrize("way", [KINDS, KINDS[::-1]], ids=lambda way: f"{way[0].name}-to-{way[1].name}")
async def test_a_session_can_be_copied_to_the_other_store_to_the_letter(tmp_path: Path, way: tuple[Kind, Kind]) -> None:
    one = open_store(Files(), tmp_path / "origin")
    session = one.create("a", cwd=CWD)
    one.rewrite("odd", [b'{"type":"session","version":0,"id":"odd","createdAt":5,"cwd":"/x"}', *ODD])
    converse(session)
    converse(session, 2)
    await one.close()
    copies: dict[str, list[bytes]] = {id: one.lines(id) for id in ("a", "odd")}

    source = one
    for n, kind in enumerate((*way, way[0])):
        target = open_store(kind, tmp_path / f"{n}")
        target.home.mkdir()
        for id, lines in copies.items():
            stored = await source.hook.session_open(session_id=id)
            copy = target.enter(target.again(stored))
            await target.sessions.flush(copy)
            assert target.lines(id) == lines
        await source.close()
        await target.close()
        source = open_store(kind, target.home)
    await source.close()


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not here")
async def test_recorded_sessions_are_resumed(store: Store, tmp_path: Path) -> None:
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        lines = path.read_bytes().split(b"\n")[:-1]
        if len(lines) == 1:
            continue  # nothing happened in it
        id = loads(lines[0])["id"]
        if store.kind.name == "jsonl":
            store.rewrite(id, lines)
        else:
            stored = jsonl.read_session(path)
            session = store.enter(store.again(stored))
            await store.sessions.flush(session)
            store.leave(session)

        stored = cast(Any, await store.hook.session_open(session_id=id))

        assert derive(stored.events) == derive(jsonl.read_session(path).events)
        assert list(stored.events.lines()) == lines[1:]
        assert store.lines(id)[1:] == lines[1:]
    await store.close()


# -- damage


@pytest.fixture
async def text(stores: Stores) -> list[bytes]:
    """The lines of a session with a whole turn and an open one."""
    store = stores()
    session = store.create("a")
    converse(session)
    session.append(TurnStart(2, Trigger("message", USER)))
    session.append(say("more"))
    store.leave(session)
    await store.close()
    return lines_of(session)


async def test_l07_an_open_turn_is_closed_once(stores: Stores, text: list[bytes]) -> None:
    store = stores()
    session = await store.resume("a")
    await store.close()
    assert session.open_turn is None
    assert store.lines("a") == lines_of(session)
    assert store.lines("a")[: len(text)] == text
    assert len(session.events) == len(text)  # the header's line counts for the turn/end

    second = stores()
    again = await second.resume("a")
    assert list(again.events) == list(session.events)
    converse(again, 3)
    await second.close()
    ends = [event.data.reason.kind for event in again.events if isinstance(event.data, TurnEnd)]
    assert ends == ["completed", "interrupted", "completed"]


async def test_reading_repairs_nothing(store: Store, text: list[bytes]) -> None:
    stored = store.kind.read(store.home, "a")

    assert list(stored.events.lines()) == text[1:]
    assert store.lines("a") == text
    with pytest.raises(SessionError):
        store.kind.read(store.home, "absent")
    with pytest.raises(SessionError):
        store.kind.read(store.home / "absent", "a")


async def test_a_session_is_looked_at_while_it_is_written(stores: Stores) -> None:
    first, second = stores(), stores()
    assert await second.hook.session_read(session_id="a") is None
    session = first.create("a", cwd=CWD)
    converse(session)
    session.append(TurnStart(2, Trigger("message", USER)))

    stored = await second.hook.session_read(session_id="a")

    assert stored is not None
    assert stored.header == session.header
    assert list(stored.events) == list(session.events)
    assert list(cast(Any, stored.events).lines()) == first.lines("a")[1:]
    session.append(say("more"))
    assert len(stored.events) == len(session.events) - 1
    await first.close()


async def test_a_session_is_deleted_unless_somebody_writes_it(stores: Stores) -> None:
    first, second = stores(), stores()
    converse(first.create("a"))
    converse(first.create("b"))
    with pytest.raises(SessionLocked, match="then delete it"):
        await second.hook.session_delete(session_id="a")
    assert first.lines("a")
    await first.close()

    assert await second.hook.session_delete(session_id="a") is True
    assert await second.hook.session_delete(session_id="a") is None
    assert first.lines("a") == []
    assert [info.id for info in await second.listed()] == ["b"]
    converse(second.create("a"))
    await second.close()


@pytest.mark.parametrize(
    "damage",
    [lambda lines: [*lines[:4], b"broken", *lines[5:]], lambda lines: [*lines[:4], *lines[5:]]],
    ids=["broken", "missing"],
)
async def test_l08_damage_before_the_end_of_a_turn_is_refused(
    stores: Stores, text: list[bytes], damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    store = stores()
    store.rewrite("a", damage(text))
    damaged = store.lines("a")

    with pytest.raises(CorruptSession, match=r"line 5: "):
        await store.resume("a")

    assert store.lines("a") == damaged
    with pytest.raises(CorruptSession, match=r"line 5: "):  # and it is not locked
        await stores().resume("a")


async def test_l08_damage_after_it_is_cut_off(stores: Stores, text: list[bytes]) -> None:
    store = stores()
    store.rewrite("a", [*text[:-2], b"broken", text[-1]])

    session = await store.resume("a")

    assert (session.last_turn, session.open_turn) == (1, None)
    await store.close()
    assert store.lines("a") == text[:-2]


async def test_the_reading_of_a_long_session_can_be_cancelled(stores: Stores, text: list[bytes]) -> None:
    """It is as it was then, and free for others."""
    store = stores()
    more = [dumps({"type": "plug/x", "seq": seq, "time": 1, "data": None}) for seq in range(len(text) - 1, 10_000)]
    store.rewrite("a", [*text, *more])
    before = store.lines("a")

    def load() -> None:
        trio.from_thread.run_sync(scope.cancel)
        store.plugin.load("a")

    with trio.CancelScope() as scope:
        await trio.to_thread.run_sync(load)
    assert scope.cancelled_caught
    assert store.lines("a") == before

    assert (await store.resume("a")).open_turn is None


@pytest.mark.parametrize(("version", "said"), [(b"1", "is newer than this dsh"), (b"-1", "is older than this dsh")])
async def test_another_format_is_refused(stores: Stores, text: list[bytes], version: bytes, said: str) -> None:
    store = stores()
    header = text[0].replace(b'"version":0', b'"version":' + version)
    store.rewrite("a", [header, *text[1:]])

    with pytest.raises(CorruptSession, match=f"log format {version.decode()} {said}"):
        await store.resume("a")
    assert store.lines("a") == [header, *text[1:]]
    assert await store.listed() == []


# -- disks


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file can grow beyond `size`: writes are cut short there and then refused, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def largest(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))


async def test_l09_a_full_disk_stops_the_turn_and_loses_nothing(stores: Stores) -> None:
    """L10, too."""
    store = stores()
    session = store.create("a")
    for turn in range(1, 4):
        converse(session, turn)
    before = store.lines("a")
    big = "x" * 40_000

    with room(max(largest(store.home), 32_768) + 10):
        for n in (1, 2):
            with pytest.raises(SessionError, match=rf"cannot write .*; {n} events? waits? in memory"):
                session.append(say(f"lost {n}?{big}"))
        with pytest.raises(SessionError, match="cannot write"):
            await store.sessions.flush(session)
    assert store.lines("a") == before
    session.append(say("there is room"))

    await store.close()
    assert store.lines("a") == lines_of(session)
    second = stores()
    assert len((await second.resume("a")).events) == len(session.events)
    await second.close()


async def test_l09_a_flush_writes_what_was_left(store: Store) -> None:
    session = store.create("a")
    converse(session)
    with room(largest(store.home)), pytest.raises(SessionError, match="cannot write"):
        session.append(say("later" * 5000))

    await store.sessions.flush(session)

    assert store.lines("a") == lines_of(session)
    await store.close()


async def test_a_session_that_could_not_begin_is_not_there(store: Store) -> None:
    session = store.create("a")
    with room(10), pytest.raises(SessionError, match="cannot write"):
        session.append(say("hi"))
    assert store.lines("a") == []

    converse(session)

    assert store.lines("a") == lines_of(session)
    await store.close()


async def test_l21_closing_a_store_on_a_full_disk_tells_of_it(store: Store) -> None:
    session, other = store.create("a"), store.create("b")
    with room(10):
        for one in (session, other):
            with pytest.raises(SessionError):
                one.append(say("hi"))
        with pytest.raises(ExceptionGroup) as caught:
            await store.close()

    assert len(caught.value.exceptions) == 2


@pytest.mark.parametrize("name", ["jsonl", "sqlite"])
async def test_a_store_that_is_taken_out_tells_of_the_sessions_it_leaves(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    tables = {"jsonl": {"root": str(tmp_path / "sessions")}, "sqlite": {"path": str(tmp_path / "sessions.db")}}
    config = Config(sessions=SessionsConfig(name), tables={name: tables[name]})
    plugins = {"jsonl": jsonl, "sqlite": sqlite}
    async with memory_harness(*map(reply, "123"), plugins=plugins, config=config, warnings=said) as harness:
        agent = harness.create_agent(session_id="a", options=AgentOptions(model="scripted/model")).agent
        await agent.run("hi")
        stored = lines_of(agent.session)
        await harness.unload(name)
        await agent.run("go on")

        (kind,) = [kind for kind in KINDS if kind.name == name]
        assert kind.lines(tmp_path, "a") == stored
        plugins[name].dsh_configure(harness)
        await agent.run("and on")
        assert kind.lines(tmp_path, "a") == lines_of(agent.session)

    assert ["the session 'a' is live and its store was taken out" in one for one in said] == [True]


# -- a store that comes to sessions that are live already


def another(store: Store) -> SessionStore:
    """Take the store out, which is closed, and put a new one in its place."""
    store.manager.unregister(store.plugin)
    plugin = store.kind.plugins(store.home, store.sessions)[0]
    store.manager.register(plugin, "another")
    return plugin


async def test_l14_a_store_that_is_put_in_again_goes_on_with_a_live_session(store: Store, stores: Stores) -> None:
    """In the middle of a turn, which is not closed: whoever is in it closes it."""
    session = store.create("a", cwd=CWD)
    converse(session)
    session.append(TurnStart(2, Trigger("message", USER)))
    await store.close()
    before = store.lines("a")
    store.plugin = another(store)
    session.append(say("between"))
    assert store.lines("a") == before

    await store.sessions.flush(session)
    assert store.lines("a") == lines_of(session)
    assert store.lines("a")[: len(before)] == before
    with pytest.raises(SessionLocked):
        await stores().resume("a")

    session.append(TurnEnd(2, EndReason("completed")))
    assert store.lines("a") == lines_of(session)
    store.leave(session)
    await store.close()
    assert [*(await stores().resume("a")).events] == [*session.events]


async def test_l14_what_was_never_stored_is_stored_whole(store: Store) -> None:
    store.manager.unregister(store.plugin)
    session = store.create("a", cwd=CWD)
    unstored = store.sessions.prepare("b")
    unstored.stash[UNSTORED] = True
    store.enter(unstored)
    for one in (session, unstored):
        converse(one)
    store.manager.register(store.plugin, "late")
    assert store.lines("a") == []

    for one in (session, unstored):
        await store.sessions.flush(one)
        converse(one, 2)
    assert store.lines("a") == lines_of(session)
    assert store.lines("b") == []
    await store.close()


async def test_l14_an_event_that_is_logged_while_the_store_reads_is_not_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create("a")
    converse(session)
    await store.close()
    store.plugin = another(store)
    load = store.plugin.load

    def slowly(*args: Any, **options: Any) -> Any:
        found = load(*args, **options)
        trio.from_thread.run_sync(converse, session, 2)
        return found

    monkeypatch.setattr(store.plugin, "load", slowly)
    await store.sessions.flush(session)
    assert store.lines("a") == lines_of(session)
    await store.close()


async def test_l14_a_line_that_a_crash_left_is_cut_off(store: Store) -> None:
    session = store.create("a")
    converse(session)
    lines = lines_of(session)
    await store.close()
    store.rewrite("a", lines[:5])
    store.plugin = another(store)

    await store.sessions.flush(session)
    assert store.lines("a") == lines_of(session)
    await store.close()


@pytest.mark.parametrize("other", ["cwd", "events", "longer"])
async def test_l15_another_session_of_that_id_is_left_alone(store: Store, other: str) -> None:
    """It is an error at every flush, as nothing of the live session is stored."""
    stored = store.create("a", cwd=None if other == "cwd" else CWD)
    converse(stored, text="others" if other == "events" else "hi")
    store.leave(stored)
    await store.close()
    before = store.lines("a")
    store.manager.unregister(store.plugin)
    session = store.create("a", cwd=CWD)
    for event in [*stored.events][: -1 if other == "longer" else None]:
        session.append(say("mine") if other == "events" and event.seq == 1 else event.data)
    store.plugin = store.kind.plugins(store.home, store.sessions)[0]
    store.manager.register(store.plugin, "late")

    for _ in range(2):
        with pytest.raises(SessionError, match="not the one that is stored") as error:
            await store.sessions.flush(session)
        assert error.value.code == "SESSION_ALREADY_EXISTS"
    with pytest.raises(SessionError, match="not the one that is stored"):
        store.leave(session)
    assert store.lines("a") == before
    await store.close()


async def test_l14_two_flushes_at_once_take_a_session_over_once(store: Store) -> None:
    """As two injections into an idle agent have it."""
    store.manager.unregister(store.plugin)
    session = store.create("a", cwd=CWD)
    converse(session)
    store.manager.register(store.plugin, "late")

    for turn in (2, 3):  # the second time there is a stored session to go on with
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(store.sessions.flush, session)
        assert store.lines("a") == lines_of(session)
        converse(session, turn)
        assert store.lines("a") == lines_of(session)
        await store.close()
        store.plugin = another(store)
    store.leave(session)
    await store.close()


@pytest.mark.parametrize("before", [True, False])
async def test_l14_a_session_that_is_never_flushed_again_is_stored_at_its_end(
    store: Store, stores: Stores, before: bool
) -> None:
    if not before:
        store.manager.unregister(store.plugin)
    session = store.create("a", cwd=CWD)
    converse(session)
    await store.close()
    if before:
        store.rewrite("a", store.lines("a")[:-3])  # whole lines are missing, and the last is torn
        store.plugin = another(store)
    else:
        store.manager.register(store.plugin, "late")

    store.leave(session)
    assert store.lines("a") == lines_of(session)
    await store.close()
    assert [*(await stores().resume("a")).events] == [*session.events]


async def test_l14_the_same_store_put_in_again_leaves_no_hole(store: Store) -> None:
    session = store.create("a", cwd=CWD)
    converse(session)
    await store.close()
    for turn in (2, 4):
        store.manager.unregister(store.plugin)
        converse(session, turn)
        store.manager.register(store.plugin, "again")
        if turn == 2:
            converse(session, 3)
        else:
            await store.sessions.flush(session)
        assert store.lines("a") == lines_of(session)
    await store.close()


async def test_a_plugin_that_keeps_events_from_others_makes_no_hole(store: Store, stores: Stores) -> None:
    """A hole would make the log worthless: it could not be resumed."""

    class Between:
        @hookimpl(wrapper=True)
        def session_event(self) -> Iterator[None]:
            raise RuntimeError("between")
            yield

    session = store.create("a", cwd=CWD)
    with store.manager.using(Between(), "between"):
        notify, session.notify = session.notify, None
        session.append(TurnStart(1, Trigger("message", USER)))
        session.notify = notify
        with pytest.raises(RuntimeError, match="between"):
            session.append(say("hi"))
        with pytest.raises(RuntimeError, match="between"):
            session.append(TurnEnd(1, EndReason("completed")))
    assert store.lines("a") == lines_of(session)
    store.leave(session)
    await store.close()
    assert len((await stores().resume("a")).events) == 3


# -- lists


async def test_sessions_are_listed_with_their_first_words(store: Store) -> None:
    assert await store.listed() == []
    ticks: dict[str, int] = {}
    for id, cwd, text in [("a", CWD, "one\n  two"), ("b", None, "é" * 200), ("c", CWD, 'say "\\u" 🙂')]:
        session = store.create(id, cwd=cwd)
        converse(session, text=text)
        ticks[id] = session.events[-1].time
        await trio.sleep(0.01)  # a later millisecond
    child = store.sessions.prepare("d", parent_session="a")
    converse(store.enter(child), text="child")
    store.create("never written")

    infos = await store.listed()

    assert [(info.id, info.cwd) for info in infos] == [("d", None), ("c", CWD), ("b", None), ("a", CWD)]
    assert [info.title for info in infos] == ["child", 'say "\\u" 🙂', "é" * 119 + "…", "one two"]
    for info in infos[1:]:
        assert abs(info.updated_at - ticks[info.id]) < 60_000
    assert [info.id for info in await store.listed(cwd=CWD)] == ["c", "a"]
    assert [info.id for info in await store.listed(limit=1)] == ["d"]
    assert [info.id for info in await store.listed(limit=1, children=False)] == ["c"]
    assert [info.id for info in await store.listed(parent="a")] == ["d"]
    await store.close()


# -- the choice


@pytest.mark.parametrize("name", ["jsonl", "sqlite"])
async def test_the_chosen_store_is_active_and_the_other_is_not(tmp_path: Path, name: str) -> None:
    config = Config(sessions=SessionsConfig(name))
    plugins = {"jsonl": jsonl, "sqlite": sqlite}
    async with open_harness(config, plugins=plugins, discover=False, home=tmp_path) as harness:
        converse(harness.sessions.create("a")[0])

    assert {kind.name for kind in KINDS if kind.lines(tmp_path, "a")} == {name}


async def test_the_settings_of_the_store_that_is_not_chosen_are_checked(tmp_path: Path) -> None:
    for table in ({"jsonl": {"rot": "x"}}, {"sqlite": {"pat": "x"}}):
        for name in ("jsonl", "sqlite"):
            with pytest.raises(ConfigError, match="did you mean"):
                async with open_harness(
                    Config(sessions=SessionsConfig(name), tables=table),
                    plugins={"jsonl": jsonl, "sqlite": sqlite},
                    discover=False,
                    home=tmp_path,
                ):
                    pass


async def test_an_unknown_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sessions\.store: no plugin 'sqlit' stores sessions, did you mean sqlite\?"):
        async with open_harness(
            Config(sessions=SessionsConfig("sqlit")),
            plugins={"jsonl": jsonl, "sqlite": sqlite},
            discover=False,
            home=tmp_path,
        ):
            pass
