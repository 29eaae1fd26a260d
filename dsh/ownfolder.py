"""A folder for temporary files of this program's own, which the next program removes if this one cannot."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Final

__all__ = ["OwnFolder", "remove_abandoned"]

_LOCK: Final = "owner.lock"


class OwnFolder:
    """A new folder for this user alone; a lock in it says that its owner lives, which the system takes away from
    whoever is killed.

    Args:
        prefix: how the names of all folders of this purpose begin.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, prefix: str) -> None:
        self.path = os.path.realpath(tempfile.mkdtemp(prefix=prefix))
        self._lock: int | None = None
        with suppress(OSError):  # without a lock it is nobody's to remove
            self._lock = _locked(self.path)

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
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


def remove_abandoned(prefix: str) -> None:
    """Remove this user's folders of a purpose whose owners were killed.  It may take a while; never raises."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        folders = [entry.path for entry in entries if entry.name.startswith(prefix)]
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
