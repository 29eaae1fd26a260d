"""Sessions in one SQLite database, written as they happen.

``README.md`` tells how to choose it, what is in it, and what a crash can do to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Harness
    from dsh.session import Codec, StoredSession

__all__ = ["read_session"]


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Give this harness a store of its own, if it is chosen; it implements the session hooks."""
    if not harness.config.chooses_store("sqlite"):
        if "sqlite" in harness.config.tables:
            from .settings import SqliteConfig

            harness.config.section("sqlite", SqliteConfig)
        return
    from .settings import SqliteConfig
    from .store import SessionTable

    settings = harness.config.section("sqlite", SqliteConfig)
    path = Path(settings.path).expanduser().absolute() if settings.path else harness.home / "sessions.db"
    harness.plugins.register(SessionTable(path, harness.sessions, settings.journal_mode, harness.warn), "sqlite.store")


def read_session(path: str | Path, session_id: str, codec: Codec | None = None) -> StoredSession:
    """Read a session out of a database without locking or repairing it; its last turn may be open.

    Args:
        path: the database.
        codec: knows the event classes; by default, those of the core.

    Raises:
        SessionNotFound: it is not there.
        SessionError: the database cannot be read.
        CorruptSession: the session is damaged; the message names the event.
    """
    from .store import read

    return read(Path(path), session_id, codec)
