"""The store: sessions, and their rows."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from dsh import ConfigError, CorruptSession, SessionError, SessionLocked, SessionNotFound, hookimpl
from dsh.session import (
    EventLog,
    SessionHeader,
    SessionStore,
    SessionWriter,
    StoredSession,
    check_cancelled,
    interrupted_turn_closers,
    parse_log,
)
from dsh.session.codec import Codec, default_codec

from .copies import drop_copies, keep_copy
from .database import OLDEST_SQLITE, Database, event_rows, header_line, holds, kept_lines, plain, snapshot
from .listing import scan
from .lock import SessionLock
from .rows import compose

if TYPE_CHECKING:
    from dsh.checks import Checks
    from dsh.session import Session, SessionInfo, SessionQuery, Sessions
    from dsh.session.lines import ParsedLog

    from .settings import JournalMode

__all__ = ["SessionTable", "read"]


class SessionRows(SessionWriter):
    """Writes the rows of one session, which it has locked."""

    def __init__(
        self, database: Database, header: SessionHeader, lock: SessionLock, loaded: EventLog | None = None
    ) -> None:
        super().__init__(f"the session {header.id!r} in {database.path}", header, loaded)
        self.database = database
        self._lock = lock
        self._id = plain(header.id)
        self._stored = loaded is not None
        self._unsynced = False

    def write(self, lines: Sequence[bytes]) -> None:
        try:
            self._lock.acquire()
            if not self._stored and self.database.holds(self._id):
                raise SessionError(
                    f"there is a session {self.header.id!r} already in {self.database.path}; "
                    "resume that session, or choose another id",
                    code="SESSION_ALREADY_EXISTS",
                )
            self.database.add(None if self._stored else self.header, self._id, lines)
        except (sqlite3.Error, OSError, OverflowError) as error:
            raise self.refused("write", _reason(error)) from error
        self._stored = self._unsynced = True

    def sync(self) -> None:
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            self.database.sync()
        except (sqlite3.Error, OSError) as error:
            self._unsynced = True
            raise self.refused("sync", _reason(error)) from error

    def close(self) -> None:
        self._lock.release()


class SessionTable(SessionStore):
    """The sessions of one harness in a database.

    Args:
        path: the database; made when needed.
        sessions: the live ones.
        journal_mode: SQLite's.
        warn: told what was cut off a session.

    Raises:
        ConfigError: the SQLite of this Python is too old.
    """

    def __init__(
        self,
        path: Path,
        sessions: Sessions,
        journal_mode: JournalMode = "wal",
        warn: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(sessions, warn)
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigError(
                f"the store sqlite needs SQLite {'.'.join(map(str, OLDEST_SQLITE))}, and this Python has "
                f'{sqlite3.sqlite_version}; use sessions.store = "jsonl"'
            )
        self.database = Database(path, journal_mode)

    def find(self, session_id: str) -> str | None:
        with _readable(self.database.path):
            found = self.database.holds(plain(session_id))
        return f"{session_id!r} in {self.database.path}" if found else None

    def new(self, session: Session) -> SessionRows:
        return SessionRows(self.database, session.header, SessionLock(self.database.path, session.id))

    def load(self, session_id: str, *, live: bool = False) -> tuple[SessionRows, StoredSession] | None:
        lock = SessionLock(self.database.path, session_id)
        try:
            lock.acquire()
            return self._load(session_id, lock, live)
        except (sqlite3.Error, OSError) as error:
            lock.release()
            raise SessionError(
                f"cannot open the session {session_id!r} in {self.database.path}: {_reason(error)}"
            ) from error
        except BaseException:
            lock.release()
            raise

    def _load(self, session_id: str, lock: SessionLock, live: bool) -> tuple[SessionRows, StoredSession] | None:
        codec = self.sessions.codec
        found = _read(self.database, session_id, codec)
        if found is None:
            lock.release()
            return None
        parsed, text = found
        events = parsed.events
        closers = [] if live else interrupted_turn_closers(events)
        if closers or parsed.size < len(text):
            if parsed.size < len(text):
                self._keep(session_id, text, len(events))
            self.database.mend(plain(session_id), len(events), [codec.encode(event) for event in closers])
            events = events.extended(closers)
        rows = SessionRows(self.database, parsed.header, lock, events)
        return rows, StoredSession(parsed.header, events)

    def _keep(self, session_id: str, text: bytes, good: int) -> None:
        """Keep a session as it is, and tell."""
        copy = keep_copy(self.database.path, session_id, text)
        self.tell(
            f"{self.database.path}, session {session_id!r}: from event {good} on it could not be read, which was "
            f"cut off; the session as it was is kept in {copy}"
        )

    def scan(self, query: SessionQuery) -> list[SessionInfo]:
        with _readable(self.database.path), self.database.reading() as connection:
            return [] if connection is None else scan(connection, query, self.sessions.codec)

    def close(self) -> None:
        self.database.close()

    @hookimpl
    async def dsh_doctor(self, checks: Checks) -> None:
        """Say whether the database can be written, and how many sessions it has."""
        from dsh.checks import may_write

        path, order = self.database.path, 35
        if not may_write(path.parent) or (path.exists() and not os.access(path, os.W_OK)):
            advice = "mend its rights, or set [sqlite] path to another one"
            checks.error("sessions", f"{path} cannot be written, so no session can be stored", advice, order=order)
            return
        try:
            count = await trio.to_thread.run_sync(self._count, abandon_on_cancel=True)
        except (SessionError, sqlite3.Error, OSError) as error:
            advice = "move the file away, and a new one is made"
            checks.error("sessions", f"{path} cannot be read: {_reason(error)}", advice, order=order)
            return
        size = path.stat().st_size if path.exists() else 0
        checks.ok("sessions", f"{count} in {path}, {size / (1 << 20):.1f} MiB", order=order)

    def _count(self) -> int:
        with self.database.reading() as connection:
            return 0 if connection is None else int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])

    @hookimpl
    async def session_read(self, session_id: str) -> StoredSession | None:
        """Look at a session's rows, in a thread that nobody waits for once it is cancelled."""
        see = functools.partial(look, self.database, session_id, self.sessions.codec)
        return await trio.to_thread.run_sync(see, abandon_on_cancel=True)

    @hookimpl
    async def session_delete(self, session_id: str) -> bool | None:
        """Remove a session's rows, unless somebody writes it.  Cancelling waits until that is done."""
        if self.find(session_id) is None:
            return None
        await trio.to_thread.run_sync(self._delete, session_id)
        return True

    def _delete(self, session_id: str) -> None:
        lock = SessionLock(self.database.path, session_id)
        try:
            lock.acquire()
            self.database.delete(plain(session_id))
            drop_copies(self.database.path, session_id)
        except SessionLocked:
            raise SessionLocked(
                f"the session {session_id!r} is open; end the program that writes it to {self.database.path}, "
                "then delete it"
            ) from None
        except (sqlite3.Error, OSError) as error:
            raise SessionError(
                f"cannot delete the session {session_id!r} in {self.database.path}: {_reason(error)}"
            ) from error
        finally:
            lock.release()


def look(database: Database, session_id: str, codec: Codec) -> StoredSession | None:
    """A session's rows as they are, whatever is wrong with them.

    Raises:
        CorruptSession: its format is not known here.
        SessionError: the database cannot be read.
    """
    with _readable(database.path):
        found = _lines(database, session_id)
    if found is None:
        return None
    first, lines = found
    try:
        header = codec.decode_header(first)
    except CorruptSession as error:
        raise CorruptSession(f"{database.path}, session {session_id!r}: {error}") from None
    return StoredSession(header, EventLog(lines, codec))


def read(path: Path, session_id: str, codec: Codec | None = None) -> StoredSession:
    """Read a session as it is; see `dsh_sqlite.read_session`."""
    with _readable(path):
        found = _read(Database(path), session_id, codec or default_codec())
    if found is None:
        raise SessionNotFound(f"there is no session {session_id!r} in {path}")
    return StoredSession(found[0].header, found[0].events)


def _read(database: Database, session_id: str, codec: Codec) -> tuple[ParsedLog, bytes] | None:
    """A session as far as it is good, and all its lines."""
    found = _lines(database, session_id)
    if found is None:
        return None
    header, lines = found
    text = b"\n".join((header, *lines, b""))
    return parse_log(text, codec, f"{database.path}, session {session_id!r}", check_cancelled), text


def _lines(database: Database, session_id: str) -> tuple[bytes, list[bytes]] | None:
    """A session's header and events, as a file would have them."""
    id = plain(session_id)
    with database.reading() as connection:
        if connection is None:
            return None
        with snapshot(connection):
            if not holds(connection, id):
                return None
            header, rows, kept = header_line(connection, id), event_rows(connection, id), kept_lines(connection, id)
    return header, compose(rows, kept)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise SessionError(f"cannot read the sessions in {path}: {_reason(error)}") from error


def _reason(error: Exception) -> object:
    return (error.strerror if isinstance(error, OSError) else None) or error
