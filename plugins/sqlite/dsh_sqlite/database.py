"""The database: opening it, its tables, and what is asked of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dsh import SessionError
from dsh.jsonvalue import clean
from dsh.session import SessionHeader

from .rows import Row, Stored, compose_header, split
from .settings import JournalMode

__all__ = ["OLDEST_SQLITE", "Database", "event_rows", "header_line", "holds", "kept_lines", "plain", "snapshot"]

VERSION = 4
"""The tables' version, in the database's ``user_version``."""
OLDEST_SQLITE = (3, 37)
"""The first with strict tables."""
WAIT = 5.0
"""How many seconds to wait for another process's transaction."""
_CHECKPOINT_PAGES = 4000
"""When a commit carries the write-ahead log over into the database by itself; `Database.sync` does it earlier."""
_LONG_LOG = 4 * 1024 * 1024
_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, created_at INTEGER NOT NULL,
    cwd TEXT, parent_session TEXT, seed_length INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS events (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
    type TEXT NOT NULL, time INTEGER NOT NULL, data TEXT NOT NULL, source_event_seqs TEXT, surface_op TEXT,
    PRIMARY KEY (session_id, seq)
) STRICT;
CREATE TABLE IF NOT EXISTS lines (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (session_id, seq),
    FOREIGN KEY (session_id, seq) REFERENCES events(session_id, seq) ON DELETE CASCADE
) STRICT
"""
_HAS_LINES = "SELECT count(*) FROM sqlite_master WHERE name = 'lines'"
# Bytes bound as text are taken as they are. An event that does not follow the stored ones is not inserted.
_ADD_EVENT = """
INSERT INTO events
SELECT ?1, ?2, ?3, ?4, CAST(?5 AS TEXT), CAST(?6 AS TEXT), CAST(?7 AS TEXT)
WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM events WHERE session_id = ?1 AND seq = ?2 - 1)
"""


class Database:
    """Sessions' tables in one file.

    Args:
        path: the file; made, with its folder, when the first event is written.
        journal_mode: SQLite's, for writing.
    """

    def __init__(self, path: Path, journal_mode: JournalMode = "wal") -> None:
        self.path = path
        self.journal_mode = journal_mode
        self._writing: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    # -- opening

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection of one's own; None while there is no database, or nothing in it.

        Raises:
            SessionError: it is none, or of another version.
            sqlite3.Error: it cannot be opened.
        """
        if not self.path.exists():
            yield None
            return
        with closing(self._connect(_is_frozen(self.path))) as connection:
            yield connection if self._version(connection) else None

    def writing(self) -> sqlite3.Connection:
        """The connection of all writes, which happen in one thread.

        Raises:
            sqlite3.Error, OSError: the database cannot be made or opened.
            SessionError: it is none, or of another version; or its file was deleted.
        """
        if self._writing is None:
            _make_private(self.path)
            connection = self._connect()
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._writing = connection
            self._identity = _identity(self.path)
        elif _identity(self.path) != self._identity:
            raise SessionError(
                f"the database {self.path} was deleted or replaced while sessions in it were open; "
                "what follows cannot be resumed"
            )
        return self._writing

    def close(self) -> None:
        """Close the connection of the writes."""
        if self._writing is not None:
            with suppress(sqlite3.Error):  # the last one carries the log over, if it can
                self._writing.close()
            self._writing = None

    def _connect(self, frozen: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?immutable=1" if frozen else self.path,
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
            uri=frozen,
        )
        connection.text_factory = bytes
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        except sqlite3.DatabaseError as error:
            connection.close()
            if error.sqlite_errorcode not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            raise SessionError(f"{self.path} is no database, or it is damaged: {error}") from error
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        """Make the tables that are missing."""
        version = self._version(connection)
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0].decode()
        if mode != self.journal_mode:
            connection.execute(f"PRAGMA journal_mode = {self.journal_mode}")
        if version and _number(connection, _HAS_LINES):
            return
        with _transaction(connection):
            if not self._version(connection) and _number(connection, "SELECT count(*) FROM sqlite_master"):
                raise SessionError(f"the database {self.path} is that of another program; choose another path")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self, connection: sqlite3.Connection) -> int:
        """The version of the tables, 0 if there are none."""
        version = _number(connection, "PRAGMA user_version")
        if version in (0, VERSION):
            return version
        what = "newer; install the version of dsh that wrote it" if version > VERSION else "older; choose another path"
        raise SessionError(
            f"the database {self.path} has version {version}, this dsh knows version {VERSION}: the database is {what}"
        )

    # -- writing

    def add(self, header: SessionHeader | None, id: str, lines: Sequence[bytes]) -> None:
        """Add events to a session in one transaction, and the session itself if its header is given.

        Raises:
            sqlite3.Error, OSError: that cannot be done.
            SessionError: the session in the database is not what it was.
        """
        connection = self.writing()
        if header is None and len(lines) == 1:
            row, plain = split(lines[0])
            if plain:
                _add_event(connection, id, row)  # a transaction by itself
                return
        with _transaction(connection):
            if header is not None:
                connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", _header_values(header))
            _add_events(connection, id, lines)

    def mend(self, id: str, length: int, lines: Sequence[bytes]) -> None:
        """Cut a session down to its first `length` events and add others, in one durable transaction.

        Raises:
            sqlite3.Error: that cannot be done.
        """
        with closing(self._connect()) as connection:
            self._set_up(connection)
            connection.execute("PRAGMA synchronous = FULL")
            with _transaction(connection):
                kept = (id, length - 1)
                connection.execute("DELETE FROM events WHERE session_id = ? AND seq NOT BETWEEN 0 AND ?", kept)
                _add_events(connection, id, lines)

    def delete(self, id: str) -> None:
        """Remove a session and its events, durably.

        Raises:
            sqlite3.Error: that cannot be done.
        """
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("DELETE FROM sessions WHERE id = ?", (id,))

    def sync(self) -> None:
        """Make every commit so far durable; for a thread.

        Raises:
            OSError, sqlite3.Error: that failed.
        """
        log = f"{self.path}-wal"
        try:
            fd = os.open(log, os.O_RDONLY)
        except FileNotFoundError:
            return  # another journal mode, which syncs each commit; or all of it is in the database already
        try:
            # What was carried over from the log into the database was synced by SQLite.
            os.fsync(fd)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size > _LONG_LOG:
            with self.reading() as connection:
                if connection is not None:
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # -- reading

    def holds(self, id: str) -> bool:
        """Whether there is such a session.

        Raises:
            SessionError, sqlite3.Error: that cannot be seen.
        """
        if self._writing is not None:
            return holds(self._writing, id)
        with self.reading() as connection:
            return connection is not None and holds(connection, id)


def holds(connection: sqlite3.Connection, id: str) -> bool:
    """Whether there is such a session."""
    return connection.execute("SELECT 1 FROM sessions WHERE id = ?", (id,)).fetchone() is not None


def header_line(connection: sqlite3.Connection, id: str) -> bytes:
    """A session's header, as the first line of a file would have it."""
    query = "SELECT version, id, created_at, cwd, parent_session, seed_length FROM sessions WHERE id = ?"
    return compose_header(connection.execute(query, (id,)).fetchone())


def event_rows(connection: sqlite3.Connection, id: str) -> list[Stored]:
    """A session's events."""
    query = "SELECT seq, type, time, data, source_event_seqs, surface_op FROM events WHERE session_id = ? ORDER BY seq"
    return connection.execute(query, (id,)).fetchall()


def kept_lines(connection: sqlite3.Connection, id: str) -> dict[int, bytes]:
    """The lines of events that their rows do not tell, by seq."""
    if not _number(connection, _HAS_LINES):
        return {}
    return dict(connection.execute("SELECT seq, line FROM lines WHERE session_id = ?", (id,)))


def _add_events(connection: sqlite3.Connection, id: str, lines: Sequence[bytes]) -> None:
    for line in lines:
        row, plain = split(line)
        _add_event(connection, id, row)
        if not plain:
            connection.execute("INSERT INTO lines VALUES (?, ?, ?)", (id, row[0], line))


def _add_event(connection: sqlite3.Connection, id: str, row: Row) -> None:
    try:
        cursor = connection.execute(_ADD_EVENT, (id, *row))
    except sqlite3.IntegrityError as error:
        raise _changed(id, f"it has an event {row[0]} already") from error
    if cursor.rowcount != 1:
        raise _changed(id, f"its event {row[0] - 1} is gone")


def _changed(id: str, how: str) -> SessionError:
    return SessionError(
        f"the session {id!r} was changed by another program: {how}. "
        "Nothing more is written to it; end this program, and resume the session as far as the database has it"
    )


def _header_values(header: SessionHeader) -> tuple[str | int | None, ...]:
    cwd = None if header.cwd is None else clean(header.cwd)
    parent = None if header.parent_session is None else plain(header.parent_session)
    return plain(header.id), header.version, header.created_at, cwd, parent, header.seed_length


def plain(text: str) -> str:
    """`text` without what UTF-8 cannot express: halves of characters, in names of folders."""
    return text.encode("utf-8", "replace").decode()


def _number(connection: sqlite3.Connection, query: str) -> int:
    number: int = connection.execute(query).fetchone()[0]
    return number


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _is_frozen(path: Path) -> bool:
    """Whether SQLite cannot make the files that it shares with other processes, and nobody can write."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY) and not os.path.exists(f"{path}-wal")
    except OSError:
        return False


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """See the database as it is at the first query, whatever others write meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _make_private(path: Path) -> None:
    """Make the database's file, which SQLite would let everybody read."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
