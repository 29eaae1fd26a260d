"""The private directory of commands' temporary files, which the next program removes if this one cannot."""

from __future__ import annotations

import os
import shutil
from itertools import count
from typing import Final

from dsh.ownfolder import OwnFolder
from dsh.ownfolder import remove_abandoned as remove_all_abandoned

__all__ = ["Folder", "remove_abandoned"]

_PREFIX: Final = "dsh-sandbox-"


class Folder(OwnFolder):
    """A directory of this program's own, with a room for each owner, and an empty file.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self) -> None:
        super().__init__(_PREFIX)
        self.nothing = os.path.join(self.path, "nothing")
        with open(self.nothing, "x"):
            pass
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


def remove_abandoned() -> None:
    """Remove the directories of this user whose owners were killed.  It may take a while; never raises."""
    remove_all_abandoned(_PREFIX)
