"""Files for outputs that grow too long: in the folder of the session, or else in one of their own."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from dsh.ownfolder import OwnFolder
from dsh.ownfolder import remove_abandoned as remove_all_abandoned
from dsh.session.folder import private_folder, session_folder

__all__ = ["MAX_FOLDER_BYTES", "Outputs", "Spill", "SpillFolder", "remove_abandoned"]

MAX_FOLDER_BYTES: Final = 1_000_000_000
"""What the files of one session may hold together."""
FOLDER: Final = "outputs"

_PREFIX: Final = "dsh-bash-"
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
    """A private folder for the files of commands that belong to no session, made when the first is needed."""

    def __init__(self) -> None:
        self._folder: OwnFolder | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder, if there is one by now, for whoever may read the files."""
        return () if self._folder is None else (self._folder.path,)

    def path(self) -> str:
        """The folder.

        Raises:
            OSError: it cannot be made.
        """
        if self._folder is None:
            self._folder = OwnFolder(_PREFIX)
        return self._folder.path

    def remove(self) -> None:
        """Delete the folder and all its files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()


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


def remove_abandoned() -> None:
    """Remove the folders of this user whose owners were killed.  It may take a while; never raises for a folder."""
    remove_all_abandoned(_PREFIX)
