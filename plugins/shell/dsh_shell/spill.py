"""Files for outputs that grow too long: in the folder of the session, or else in one of their own."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from dsh.session.folder import private_folder, session_folder

__all__ = ["MAX_FOLDER_BYTES", "Outputs", "Spill", "SpillFolder", "remove_abandoned"]

MAX_FOLDER_BYTES: Final = 1_000_000_000
"""What the files of one session may hold together."""
FOLDER: Final = "outputs"

_PREFIX: Final = "dsh-bash-"
_LOCK: Final = "owner.lock"
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@define(eq=False)
class Spill:
    """A file that takes a whole stream.  Its `path` is None from the first failed write on.

    Attributes:
        failure: why that write failed.
    """

    path: str | None
    _fd: int | None
    written: int = 0
    limit: int = 100_000_000
    failure: str = ""

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
        except OSError as error:
            self._lose(error)
            self.close()

    def close(self) -> None:
        """Close the file; the path is withheld if that fails."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.close(fd)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        """Of what could not be written whole nothing is kept: on a full disk it would be in the way."""
        path, self.path = self.path, None
        self.failure = error.strerror or str(error)
        if path is not None:
            with suppress(OSError):
                os.unlink(path)


class SpillFolder:
    """A private folder for the files of commands that belong to no session, made when the first is needed.

    A lock says that its owner lives; the system takes it away from whoever is killed.
    """

    def __init__(self) -> None:
        self._folder: str | None = None
        self._lock: int | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder, if there is one by now, for whoever may read the files."""
        return () if self._folder is None else (self._folder,)

    def path(self) -> str:
        """The folder.

        Raises:
            OSError: it cannot be made.
        """
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix=_PREFIX)
            with suppress(OSError):
                self._lock = _locked(self._folder)
        return self._folder

    def remove(self) -> None:
        """Delete the folder and all its files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _same(text: str) -> str:
    return text


def _nothing(text: str) -> int:
    return 0


@frozen(eq=False)
class Outputs:
    """Where the long outputs of one harness go.

    Attributes:
        home: ``$DSH_HOME``; None puts the outputs of sessions with those of nobody.
        mask: what hides secrets in a text.
        pending: of a text, how many characters at its end may begin a secret.
        limit: bytes of one file, or a command that never stops printing would fill the disk.
    """

    home: Path | None = None
    mask: Callable[[str], str] = _same
    pending: Callable[[str], int] = _nothing
    limit: int = 100_000_000
    temp: SpillFolder = field(factory=SpillFolder)
    _numbers: count[int] = field(factory=lambda: count(1))

    def open(self, stream: str, owner: str | None = None) -> Spill:
        """A new, empty file for ``stdout`` or ``stderr``; without a path where none can be made.

        Args:
            owner: the session's id; None for what belongs to none.
        """
        try:
            limit = self.limit
            if self.home is None or owner is None:
                folder = self.temp.path()
                stem = f"{_PREFIX}{os.getpid()}-{next(self._numbers)}"
            else:
                folder = str(private_folder(self.home, owner, FOLDER))
                stem = f"bash-{next(self._numbers)}"
                limit = min(limit, MAX_FOLDER_BYTES - _size(folder))
            if limit <= 0:
                why = f"the session's folder holds {MAX_FOLDER_BYTES} bytes of output already"
                return Spill(None, None, failure=why)
            path = os.path.join(folder, f"{stem}-{secrets.token_hex(6)}-{stream}.log")
            return Spill(path, os.open(path, _FLAGS, 0o600), limit=limit)
        except OSError as error:
            return Spill(None, None, failure=error.strerror or str(error))

    def forget(self, owner: str) -> None:
        """Delete the files of a session that nobody stores."""
        if self.home is not None:
            folder = session_folder(self.home, owner)
            shutil.rmtree(folder / FOLDER, ignore_errors=True)
            with suppress(OSError):
                folder.rmdir()


def _size(folder: str) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


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
