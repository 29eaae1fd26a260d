"""Locks of sessions, which end with the process that has them, however it ends."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from contextlib import suppress
from pathlib import Path

from dsh import SessionLocked

__all__ = ["SessionLock", "name_of"]


def name_of(session_id: str) -> str:
    """A name for files about a session: different for every id, and harmless for any."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class SessionLock:
    """The right to write one session: a locked file in a folder beside the database.

    Args:
        database: the database.
        session_id: the session's.
    """

    def __init__(self, database: Path, session_id: str) -> None:
        self._path = database.with_name(f"{database.name}-locks") / name_of(session_id)
        self._message = (
            f"the session {session_id!r} is open in another program, which writes it to {database}; "
            "end that program, or fork the session"
        )
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take it, unless it is taken here already.

        Raises:
            SessionLocked: somebody else has it.
            OSError: the file cannot be made.
        """
        if self._fd is not None:
            return
        for folder in (self._path.parent.parent, self._path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._lock(fd)
                # Whoever had it may have removed the file between the opening and the locking.
                if os.fstat(fd).st_nlink:
                    self._fd = fd
                    return
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionLocked(self._message) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            # A file system without locks: better a session than none.

    def release(self) -> None:
        """Give it back."""
        if self._fd is not None:
            with suppress(OSError):
                os.unlink(self._path)
            os.close(self._fd)
            self._fd = None
