"""The folder of a session: what belongs to it and is no part of its log, such as results too long for one.

The log may be anywhere a store likes; this folder is always ``$DSH_HOME/session-data/ID``.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SessionError
from .lineage import lineage_of

if TYPE_CHECKING:
    from .log import Session

__all__ = ["FOLDERS", "SHELVES", "encode_id", "private_folder", "session_folder", "shelves"]

FOLDERS = "session-data"
"""In ``$DSH_HOME``: the folders of all sessions."""
SHELVES = ("results", "outputs")
"""In the folder of a session: where what was too long for the model is kept, for it to look things up."""

_PLAIN = re.compile(r"[A-Za-z0-9._-]")


def encode_id(session_id: str) -> str:
    """The id as a file's name: different for every id, and harmless for any.

    Raises:
        SessionError: the id is empty.
    """
    if not session_id:
        raise SessionError("the id of a session cannot be empty")
    if session_id in (".", ".."):
        return session_id.replace(".", "~002E")
    return "".join(char if _PLAIN.fullmatch(char) else _escaped(char) for char in session_id)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"~{units[n : n + 4]}" for n in range(0, len(units), 4))


def session_folder(home: Path, session_id: str) -> Path:
    """Where the folder of a session is, or would be.

    Args:
        home: ``$DSH_HOME``.

    Raises:
        SessionError: the id is empty.
    """
    return home / FOLDERS / encode_id(session_id)


def private_folder(home: Path, session_id: str, *names: str) -> Path:
    """Make the folder of a session, and the folders `names` in it, for this user alone.

    Raises:
        OSError: it cannot be made.
    """
    folder = home / FOLDERS
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in (encode_id(session_id), *names):
        folder = folder / name
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"{folder} is a link, and may lead anywhere")
    return folder


def shelves(home: Path, session: Session) -> tuple[str, ...]:
    """The real paths of what an agent may read of its session's folder, whether they exist or not.

    A fork has the history of the session that it comes from, and of all that this one comes from, and so may read
    what is named there.  The sessions' folders may all be elsewhere by a link; a link further down leads nowhere,
    since what it leads to was never put there.

    Args:
        home: ``$DSH_HOME``.

    Raises:
        SessionError: an id is empty.
    """
    ids = (session.id, *lineage_of(session))
    folders = [os.path.join(os.path.realpath(home / FOLDERS), encode_id(each)) for each in ids]
    paths = [os.path.join(folder, name) for folder in folders for name in SHELVES]
    return tuple(path for path in paths if os.path.realpath(path) == path)
