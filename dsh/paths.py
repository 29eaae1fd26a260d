"""Files that are opened where they were judged to be, though somebody may move links meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from .tools.tool import ToolCall

__all__ = ["judged_path", "note_judged", "open_folder", "open_resolved"]

_FOLDER = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_judged: WeakKeyDictionary[ToolCall, str] = WeakKeyDictionary()


def note_judged(call: ToolCall, real: str) -> None:
    """Say of a call that was judged by the path `real`, absolute and without links, that it may touch no other."""
    _judged[call] = real


def judged_path(call: ToolCall) -> str | None:
    """The path that `call` was judged by; None where nobody judged it by one.

    A tool compares it with the path that it is about to open, and refuses where they differ.
    """
    return _judged.get(call)


def open_folder(path: str, *, create: bool = False) -> int:
    """A descriptor of the folder `path`, to give to functions of `os` as ``dir_fd``.

    Args:
        path: absolute and resolved: a link anywhere in it is an error.
        create: make folders that are missing.

    Raises:
        OSError: there is a link, as ``ELOOP`` or ``ENOTDIR``, no such folder, or it may not be entered.
    """
    if not os.path.isabs(path):
        raise ValueError(f"expected an absolute path, got {path!r}")
    descriptor = os.open("/", _FOLDER)
    try:
        for name in path.split("/"):
            if not name:
                continue
            if create:
                _make(name, descriptor)
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _make(name: str, parent: int) -> None:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):  # somebody else made it; opening it tells what it is
            os.mkdir(name, dir_fd=parent)


def open_resolved(path: str, flags: int, mode: int = 0o666) -> int:
    """`os.open` for an absolute, resolved path, that follows no link.

    Raises:
        OSError: a part of the path is a link by now, or what `os.open` raises.
    """
    parent, name = os.path.split(path)
    if not name:
        return os.open(path, flags)
    folder = open_folder(parent)
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)
