"""One session's file, while the session is live."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from dsh import SessionError, SessionLocked
from dsh.session import EventLog, SessionHeader, SessionWriter

__all__ = ["SessionFile", "lock"]


class SessionFile(SessionWriter):
    """Writes lines to the end of a file that it has locked.

    A line of which only a part could be written is taken back, and so is the file if it was the first.

    Args:
        path: the file; it is made when the first line is written.
        first: its first line, without the newline.

    Attributes:
        fd: the open file, None while it is closed or does not exist.
        size: the bytes of all complete lines.
    """

    def __init__(self, path: Path, header: SessionHeader, first: bytes) -> None:
        super().__init__(f"the session file {path}", header)
        self.path = path
        self.fd: int | None = None
        self.size = 0
        self._first = first
        self._ragged = False
        self._unsynced = False
        self._new = False

    def write(self, lines: Sequence[bytes]) -> None:
        try:
            fd = self._open() if self.fd is None else self.fd
            if self._ragged:
                os.ftruncate(fd, self.size)
            elif self.size:
                self._check(fd)
            text = b"\n".join((*(() if self.size else (self._first,)), *lines, b""))
            self._ragged = True  # until all of it is there
            _write(fd, text)
        except OSError as error:
            self._take_back()
            raise self.refused("write", error.strerror or error) from error
        self._ragged = False
        self._unsynced = True
        self.size += len(text)

    def sync(self) -> None:
        if self.fd is None or not self._unsynced:
            return
        fd = os.dup(self.fd)  # it may be closed meanwhile
        try:
            self._unsynced = False
            os.fsync(fd)
            self._check_links(os.fstat(fd))
            if self._new:
                _sync_folder(self.path.parent)
                _sync_folder(self.path.parent.parent)
                self._new = False
        except OSError as error:
            self._unsynced = True
            raise self.refused("sync", error.strerror or error) from error
        finally:
            os.close(fd)

    def take(self, fd: int, size: int, loaded: EventLog) -> None:
        """Go on with a file that was opened, locked and read."""
        self.fd, self.size, self.loaded = fd, size, loaded

    def close(self) -> None:
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

    def _check(self, fd: int) -> None:
        """Write only behind what was written last: on anything else a line would be damage."""
        found = os.fstat(fd)
        self._check_links(found)
        if found.st_size != self.size:
            raise SessionError(
                f"{self.place} was changed by another program: it has {found.st_size} bytes instead of {self.size}. "
                "Nothing more is written to it; end this program, and resume the session as far as the file has it"
            )

    def _check_links(self, found: os.stat_result) -> None:
        if found.st_nlink == 0:
            raise SessionError(f"{self.place} was deleted while the session was open; what follows cannot be resumed")

    def _take_back(self) -> None:
        """Leave nothing behind of a line that is not complete; what fails here is tried again before the next write."""
        if self.fd is None or not self._ragged:
            return
        with contextlib.suppress(OSError):
            if self.size:
                os.ftruncate(self.fd, self.size)
                self._ragged = False
            else:
                os.unlink(self.path)
                self.close()
                self._ragged = False


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
