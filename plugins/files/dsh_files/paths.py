"""From a path that a model wrote to the file that it means."""

from __future__ import annotations

import os
from typing import NewType

from attrs import frozen

from .errors import FsError

__all__ = ["Target", "TargetKey", "resolve"]

TargetKey = NewType("TargetKey", str)


@frozen
class Target:
    """A file, there or not.

    Attributes:
        key: its real path, the same through every link and before and after it is made.
        shown: the absolute path by which it was asked for.
    """

    key: TargetKey
    shown: str


def resolve(path: str, cwd: str) -> Target:
    """The file that `path` means in the directory `cwd`; ``~/`` is the home directory.

    `cwd` does not confine: absolute paths and ``..`` lead out of it.

    Raises:
        FsError: ``FS_NOT_FOUND`` for a path that cannot name a file.
    """
    if not path.strip():
        raise FsError("the path is empty", "FS_NOT_FOUND")
    if "\0" in path:
        raise FsError("the path holds a NUL character", "FS_NOT_FOUND")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)
    joined = os.path.join(cwd, path)
    key = os.path.realpath(joined)
    shown = os.path.normpath(joined)
    # Behind a link to a directory, ".." is not what the text says.
    if ".." in joined.split(os.sep) and os.path.realpath(shown) != key:
        shown = key
    return Target(TargetKey(key), shown)
