"""One session's file, while the session is live."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterable
from pathlib import Path

from dsh import SessionError, SessionLocked
from dsh.session import EventLog, Session

__all__ = ["SessionFile", "lock"]


class SessionFile:
    """Writes lines to the end of a file that it has locked.

    Lines that cannot be written are kept and tried again with the next ones, so the file never has a
    gap; a line of which only a part could be written is taken back.

    Args:
        path: the file; it is made when the first line is written.
        header: its first line, without the newline.

    Attributes:
        fd: the open file, None while it is closed or does not exist.
        size: the bytes of all complete lines.
        loaded: the events that were in the file when it was opened, until a session claims it.
        owner: the session whose file it is.
        released: nobody is expected to write any more; who does closes the file again.
    """

    def __init__(self, path: Path, header: bytes) -> None:
        self.path = path
        self.fd: int | None = None
        self.size = 0
        self.loaded: EventLog | None = None
        self.released = False
        self._owner: weakref.ref[Session] | None = None
        self._header = header
        self._pending: list[bytes] = []
        self._ragged = False
        self._unsynced = False
        self._new = False

    @property
    def owner(self) -> Session | None:
        return None if self._owner is None else self._owner()

    def belongs_to(self, session: Session, lines: Iterable[bytes]) -> None:
        """Make `session` the owner; `lines` are those of its events that the file does not have yet."""
        self._owner = weakref.ref(session)
        self.loaded = None
        self._pending.extend(lines)

    def add(self, line: bytes) -> None:
        """Write a line, and those that are left from before.

        Raises:
            SessionError: the disk refused it; the line is kept.
        """
        self._pending.append(line)
        self.drain()

    def drain(self) -> None:
        """Write what is left to write.

        Raises:
            SessionError: the disk refused it; nothing is lost.
        """
        if not self._pending:
            return
        try:
            fd = self._open() if self.fd is None else self.fd
            if self._ragged:
                os.ftruncate(fd, self.size)
            text = b"\n".join((*(() if self.size else (self._header,)), *self._pending, b""))
            self._ragged = True  # until all of it is there
            _write(fd, text)
        except OSError as error:
            self._take_back()
            raise self._refused("write", error) from error
        self._ragged = False
        self._unsynced = True
        self.size += len(text)
        self._pending.clear()

    def sync(self) -> None:
        """Make durable what is written.  It blocks; run it in a thread.

        Raises:
            SessionError: the disk refused it, or the file was deleted.
        """
        if self.fd is None or not self._unsynced:
            return
        fd = os.dup(self.fd)  # it may be closed meanwhile
        try:
            self._unsynced = False
            os.fsync(fd)
            if os.fstat(fd).st_nlink == 0:
                raise SessionError(
                    f"the session file {self.path} was deleted while the session was open; "
                    "what follows cannot be resumed"
                )
            if self._new:
                _sync_folder(self.path.parent)
                _sync_folder(self.path.parent.parent)
                self._new = False
        except OSError as error:
            self._unsynced = True
            raise self._refused("sync", error) from error
        finally:
            os.close(fd)

    def take(self, fd: int, size: int, loaded: EventLog) -> None:
        """Go on with a file that was opened, locked and read."""
        self.fd, self.size, self.loaded = fd, size, loaded

    def close(self) -> None:
        """Close and unlock the file; a line added later opens it again."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _open(self) -> int:
        if self.size:
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND)
        else:
            for folder in (self.path.parent.parent, self.path.parent):
                _make_folder(folder)
            fd = self._create()
        try:
            lock(fd, self.path)
            if self.size and not self._ragged and os.fstat(fd).st_size != self.size:
                raise SessionError(f"the session file {self.path} was changed by another program; resume the session")
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd
        self._new = not self.size
        return fd

    def _create(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SessionError(
                f"the session file {self.path} exists already; resume that session, or choose another id",
                code="SESSION_ALREADY_EXISTS",
            ) from None

    def _take_back(self) -> None:
        """Leave nothing behind of a line that is not complete; what fails here is tried again before the next write."""
        if self.fd is None:
            return
        with contextlib.suppress(OSError):
            if self.size:
                os.ftruncate(self.fd, self.size)
                self._ragged = False
            else:
                os.unlink(self.path)
                self.close()
                self._ragged = False

    def _refused(self, verb: str, error: OSError) -> SessionError:
        waiting = (
            f"; {len(self._pending)} events wait in memory and are written once that is mended" if self._pending else ""
        )
        return SessionError(f"cannot {verb} the session file {self.path}: {error.strerror or error}{waiting}")


def lock(fd: int, path: Path) -> None:
    """Lock an open file for this process, or rather for this opening of it.

    Raises:
        SessionLocked: it is locked.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SessionLocked(
            f"the session is open in another program, which writes {path}; end that program, or fork the session"
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise
        # A file system without locks: better a session than none.


def _write(fd: int, text: bytes) -> None:
    written = os.write(fd, text)
    while written < len(text):
        written += os.write(fd, text[written:])


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
