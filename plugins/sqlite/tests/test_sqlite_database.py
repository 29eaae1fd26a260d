"""The database itself: whose it is, what is in it, who may read it."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dsh_sqlite
import dsh_sqlite.database
import pytest
from dsh_sqlite.database import Database
from dsh_sqlite.store import SessionTable

from dsh import Config, ConfigError, CorruptSession, SessionError, SessionLocked, open_harness
from dsh.agents import AgentRegistry
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.messages import USER, Text
from dsh.session import Session, SessionQuery, Sessions
from dsh.session.events import EndReason, Trigger, TurnEnd, TurnStart, UserMessage

SPECIFIED = {
    "sessions": ["id", "version", "created_at", "cwd", "parent_session", "seed_length"],
    "events": ["session_id", "seq", "type", "time", "data", "source_event_seqs", "surface_op"],
}


def open_table(path: Path, mode: Any = "wal") -> SessionTable:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    table = SessionTable(path, Sessions(cast(Hooks, manager.relay)), mode)
    manager.register(table, "sqlite.store")
    return table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions.db"


def talk(session: Session, turn: int = 1) -> None:
    session.append(TurnStart(turn, Trigger("message", USER)))
    session.append(UserMessage((Text(f"message {turn}"),), USER))
    session.append(TurnEnd(turn, EndReason("completed")))


async def close(table: SessionTable) -> None:
    await table.dsh_unconfigure(cast(Any, SimpleNamespace(agents=AgentRegistry())))


def ask(path: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        return connection.execute(query, values).fetchall()


async def test_the_tables_are_those_that_are_specified(path: Path) -> None:
    table = open_table(path)
    session, _ = table.sessions.create("a", cwd="/work")
    talk(session)
    await close(table)

    assert ask(path, "PRAGMA user_version") == [(4,)]
    for name, columns in SPECIFIED.items():
        assert [row[1] for row in ask(path, f"PRAGMA table_info({name})")] == columns
    assert ask(path, "SELECT id, version, cwd, parent_session, seed_length FROM sessions") == [
        ("a", 0, "/work", None, None)
    ]
    assert ask(path, "SELECT seq, type, data, source_event_seqs, surface_op FROM events WHERE seq = 1") == [
        (
            1,
            "user/message",
            '{"content":[{"type":"text","text":"message 1"}],"source":{"kind":"user"}}',
            None,
            '"append"',
        )
    ]
    assert ask(path, "SELECT count(*) FROM lines") == [(0,)]


async def test_the_database_is_its_owners_alone(path: Path) -> None:
    table = open_table(path)
    session, _ = table.sessions.create("a")
    talk(session)

    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.rglob("*")}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {mode & 0o077 for mode in modes.values()} == {0}
    assert len(list((path.parent / "sessions.db-locks").iterdir())) == 1
    await close(table)
    assert list((path.parent / "sessions.db-locks").iterdir()) == []


@pytest.mark.parametrize(("version", "said"), [(3, "older"), (5, "newer")])
async def test_l20_another_version_is_refused(path: Path, version: int, said: str) -> None:
    path.parent.mkdir()
    ask(path, f"PRAGMA user_version = {version}")
    table = open_table(path)

    with pytest.raises(SessionError, match=f"has version {version}, this dsh knows version 4: the database is {said}"):
        table.sessions.create("a")
    with pytest.raises(SessionError, match=said):
        table.scan(SessionQuery())
    with pytest.raises(SessionError, match=said):
        await table.session_open("a")


async def test_another_programs_database_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    ask(path, "CREATE TABLE precious (x)")
    table = open_table(path)
    session, _ = table.sessions.create("a")

    with pytest.raises(SessionError, match="is that of another program"):
        talk(session)
    assert ask(path, "SELECT name FROM sqlite_master") == [("precious",)]
    with pytest.raises(SessionError):
        await close(table)


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("not a database, but long enough to be taken for one\n" * 20)
    table = open_table(path)

    for attempt in (lambda: table.sessions.create("a"), lambda: table.scan(SessionQuery())):
        with pytest.raises(SessionError, match="is no database, or it is damaged"):
            attempt()


async def test_a_database_without_the_table_of_lines_is_read_and_gets_it(path: Path) -> None:
    table = open_table(path)
    session, _ = table.sessions.create("a")
    talk(session)
    await close(table)
    ask(path, "DROP TABLE lines")

    assert len(dsh_sqlite.read_session(path, "a").events) == 3
    second = open_table(path)
    stored = await second.session_open("a")
    assert stored is not None
    again = second.sessions.prepare("a", seed=stored.events, created_at=stored.header.created_at)
    second.sessions.enter(again)
    second.sessions.announce(again)
    talk(again, 2)
    await close(second)
    assert ask(path, "SELECT count(*) FROM lines") == [(0,)]
    assert len(dsh_sqlite.read_session(path, "a").events) == 6


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
async def test_every_journal_mode_works_and_can_be_changed(path: Path, mode: Any) -> None:
    for first in ("wal", mode):
        table = open_table(path, first)
        session, _ = table.sessions.create(f"in {first}, {mode}, {os.urandom(2).hex()}")
        talk(session)
        await table.sessions.flush(session)
        await close(table)

    assert ask(path, "PRAGMA journal_mode") == [("wal" if mode == "wal" else "delete",)]
    assert len(open_table(path).scan(SessionQuery())) == 2


async def test_a_long_turn_does_not_make_a_long_log(path: Path) -> None:
    table = open_table(path)
    session, _ = table.sessions.create("a")
    for turn in range(1, 400):
        talk(session, turn)
    await table.sessions.flush(session)
    log = f"{path}-wal"
    before = os.stat(log).st_size
    assert before > 4 * 1024 * 1024

    for turn in range(400, 410):
        talk(session, turn)

    assert os.stat(log).st_size == before  # it was carried over, and begins again
    await close(table)


async def test_a_session_that_is_open_is_not_deleted(path: Path) -> None:
    table, other = open_table(path), open_table(path)
    session, _ = table.sessions.create("a")
    talk(session)

    for store in (table, other):
        with pytest.raises(SessionLocked, match="is open; end the program"):
            await store.session_delete("a")
    await close(table)
    assert await other.session_delete("a") is True
    assert await other.session_delete("a") is None
    assert ask(path, "SELECT count(*) FROM events") == [(0,)]
    await close(other)


async def test_a_database_that_another_program_keeps_locked_is_an_error_and_no_loss(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsh_sqlite.database, "WAIT", 0.01)
    table = open_table(path)
    session, _ = table.sessions.create("a")
    talk(session)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionError, match="database is locked; 1 event waits in memory"):
            session.append(UserMessage((Text("late"),), USER))
        other.execute("ROLLBACK")

    await table.sessions.flush(session)

    assert ask(path, "SELECT count(*) FROM events") == [(4,)]
    await close(table)


async def test_a_session_in_a_later_format_says_so_when_it_is_looked_at(path: Path) -> None:
    table = open_table(path)
    session, _ = table.sessions.create("a")
    talk(session)
    ask(path, "UPDATE sessions SET version = 7")

    with pytest.raises(CorruptSession, match=r"sessions\.db, session 'a': log format 7 is newer than this dsh"):
        await table.session_read("a")
    await close(table)


async def test_reading_shows_what_is_there(path: Path) -> None:
    table = open_table(path)
    assert await table.session_read("a") is None
    session, _ = table.sessions.create("a")
    talk(session)
    ask(path, "UPDATE events SET data = 'broken' WHERE seq = 1")

    stored = await table.session_read("a")

    assert stored is not None
    assert len(stored.events) == 3
    assert b"broken" in list(cast(Any, stored.events).lines())[1]
    assert [line for n, line in enumerate(session.events.lines()) if n != 1] == [
        line for n, line in enumerate(cast(Any, stored.events).lines()) if n != 1
    ]
    await close(table)


async def test_the_first_words_may_come_late(path: Path) -> None:
    table = open_table(path)
    for count in (10, 100):
        session, _ = table.sessions.create(f"after {count}")
        for turn in range(1, count):
            session.append(TurnStart(turn, Trigger("message", USER)))
        talk(session, count)
    await close(table)

    titles = {info.id: info.title for info in open_table(path).scan(SessionQuery())}
    assert titles == {"after 10": "message 10", "after 100": ""}  # the whole of a log is not looked through


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"path": ":memory:"}, "--no-session"),
        ({"journal_mode": "off"}, "journal_mode"),
        ({"paht": "x"}, "did you mean path"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(tmp_path: Path, table: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with open_harness(
            Config(tables={"sqlite": table}), plugins={"sqlite": dsh_sqlite}, discover=False, home=tmp_path
        ):
            pass


async def test_a_database_of_ones_own(tmp_path: Path) -> None:
    from dsh.config import SessionsConfig

    config = Config(sessions=SessionsConfig("sqlite"), tables={"sqlite": {"path": str(tmp_path / "x" / "mine.db")}})
    async with open_harness(config, plugins={"sqlite": dsh_sqlite}, discover=False, home=tmp_path) as harness:
        talk(harness.sessions.create("a")[0])

    assert [row[0] for row in ask(tmp_path / "x" / "mine.db", "SELECT id FROM sessions")] == ["a"]


def test_a_database_that_is_not_there_is_not_made(path: Path) -> None:
    with Database(path).reading() as connection:
        assert connection is None
    assert not path.exists()
