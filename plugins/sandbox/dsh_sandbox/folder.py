"""The private directory of commands' temporary files, which the next program removes if this one cannot."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from typing import Final

__all__ = ["Folder", "remove_abandoned"]

_PREFIX: Final = "dsh-sandbox-"
_LOCK: Final = "owner.lock"


class Folder:
    """A directory of this program's own; a lock says that it lives."""

    def __init__(self) -> None:
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        self.nothing = os.path.join(self.path, "nothing")
        with open(self.nothing, "x"):
            pass
        path = os.path.join(self.path, _LOCK)
        self._lock = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(f"{path}.new", path)
        self._rooms: dict[str, str] = {}
        self._numbers = count()

    def room(self, owner: str) -> str:
        """The temporary directory of `owner`."""
        if owner not in self._rooms:
            self._rooms[owner] = os.path.join(self.path, f"tmp-{next(self._numbers)}")
            os.mkdir(self._rooms[owner], 0o700)
        return self._rooms[owner]

    def clear(self, owner: str) -> None:
        """Delete the temporary directory of `owner`, if there is one."""
        path = self._rooms.pop(owner, None)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the directories of this user whose owners were killed.  It may take a while; never raises."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for path in [entry.path for entry in entries if entry.name.startswith(_PREFIX)]:
            with suppress(OSError):
                _remove_if_abandoned(path)


def _remove_if_abandoned(path: str) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(opened).st_uid != os.getuid():
            return
        lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=opened)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)
    finally:
        os.close(opened)
