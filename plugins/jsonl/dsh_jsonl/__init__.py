"""Sessions as files: a line for each event, written as it happens.

``README.md`` tells where they are, what is in them, and what a crash can do to them.
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
    from .files import JsonlConfig, SessionFiles
    from .stored import StoredFiles

    settings = harness.config.section("jsonl", JsonlConfig)
    if not harness.config.chooses_store("jsonl"):
        return
    root = Path(settings.root).expanduser().absolute() if settings.root else harness.home / "sessions"
    harness.plugins.register(SessionFiles(root, harness.sessions, harness.warn), "jsonl.store")
    harness.plugins.register(StoredFiles(root, harness.sessions), "jsonl.stored")


def read_session(path: str | Path, codec: Codec | None = None) -> StoredSession:
    """Read a session's file without locking or repairing it; its last turn may be open.

    Args:
        codec: knows the event classes; by default, those of the core.

    Raises:
        SessionError: the file cannot be read.
        CorruptSession: it is no session's, or it is damaged; the message names the line.
    """
    from .files import read

    return read(Path(path), codec)
