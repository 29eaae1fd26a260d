"""Files for outputs that grow too long, in a folder of their own, which the next program removes if this one cannot."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from typing import Final

from attrs import define

__all__ = ["MAX_SPILL_BYTES", "Spill", "SpillFolder", "remove_abandoned"]

MAX_SPILL_BYTES: Final = 1 << 30
"""No file grows beyond this, or a command that never stops printing would fill the disk."""

_PREFIX: Final = "dsh-bash-"
_LOCK: Final = "owner.lock"


@define(eq=False)
class Spill:
    """A file that takes a whole stream.  Its `path` is None from the first failed write on."""

    path: str | None
    _fd: int | None
    written: int = 0
    limit: int = MAX_SPILL_BYTES

    def write(self, data: bytes | bytearray) -> None:
        """Append `data`, up to the file's limit; never raises."""
        room = self.limit - self.written
        if self._fd is None or room <= 0:
            return
        rest = memoryview(data)[:room]
        try:
            while rest:
                done = os.write(self._fd, rest)
                self.written += done
                rest = rest[done:]
        except OSError:
            self.path = None
            self.close()

    def close(self) -> None:
        """Close the file; the path is withheld if that fails."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.close(fd)
        except OSError:
            self.path = None


class SpillFolder:
    """A private folder for spill files, made when the first is needed.

    A lock says that its owner lives; the system takes it away from whoever is killed.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._lock: int | None = None
        self._numbers = count(1)

    def open(self, stream: str) -> Spill:
        """A new, empty file for ``stdout`` or ``stderr``; without a path where none can be made."""
        try:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix=_PREFIX)
                with suppress(OSError):
                    self._lock = _locked(self._folder)
            name = f"{_PREFIX}{os.getpid()}-{next(self._numbers)}-{secrets.token_hex(6)}-{stream}.log"
            path = os.path.join(self._folder, name)
            return Spill(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:
            return Spill(None, None)

    def remove(self) -> None:
        """Delete the folder and all its files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _locked(folder: str) -> int:
    """Lock a new folder; the lock has its name only once it is held, so that nobody takes it for an abandoned one."""
    path = os.path.join(folder, _LOCK)
    lock = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(f"{path}.new", path)
    except BaseException:
        os.close(lock)
        raise
    return lock


def remove_abandoned() -> None:
    """Remove the folders of this user whose owners were killed.  It may take a while; never raises for a folder."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        folders = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
        for folder in folders:
            with suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: str) -> None:
    """Raises: OSError: it is no folder of the kind, or its owner lives."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(opened).st_uid != os.getuid():
            return
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
    finally:
        os.close(opened)
