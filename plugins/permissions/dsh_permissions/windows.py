"""Paths as Windows and its shells write them, made comparable.  Pure functions: they look at text alone."""

from __future__ import annotations

import re
from pathlib import PurePath, PureWindowsPath

__all__ = ["comparable", "from_msys", "is_path_like"]

_DEVICES = frozenset(["/dev/null", "/dev/zero", "/dev/tty", "/dev/stdin", "/dev/stdout", "/dev/stderr"])
_DRIVE = re.compile(r"/([A-Za-z])(/.*)?\Z", re.DOTALL)


def comparable(text: str, kind: type[PurePath]) -> str:
    """A path, or a pattern of paths, as patterns are compared: with ``/``; of Windows, in small letters.

    Args:
        kind: `PureWindowsPath`, for which ``\\`` parts folders, or `PurePosixPath`, for which it is a sign as others.
    """
    if not issubclass(kind, PureWindowsPath):
        return text
    return text.replace("\\", "/").lower()


def from_msys(text: str, *, temp: str = "C:/Temp", root: str = "C:/msys64") -> str:
    """What a path in a command of Git Bash or MSYS means to Windows, with ``/``; devices stay what they are.

    Args:
        temp: what ``/tmp`` is there.
        root: where the shell is installed, which is its ``/``.
    """
    text = text.replace("\\", "/")
    if text in _DEVICES or text.startswith("/proc/"):
        return text
    drive = _DRIVE.match(text)
    if drive:
        return f"{drive[1].upper()}:{drive[2] or '/'}"
    if text == "/tmp" or text.startswith("/tmp/"):
        return temp + text[4:]
    if text.startswith("/") and not text.startswith("//"):
        return root + text
    return text


def is_path_like(word: str, kind: type[PurePath]) -> bool:
    """Whether a word of a command looks like a path, as far as its text tells."""
    if word.startswith("-") or "://" in word or not word:
        return False
    if not issubclass(kind, PureWindowsPath):
        return "/" in word or word in (".", "..") or word.startswith("~")
    return bool(re.search(r"[\\/]", word)) or word in (".", "..") or bool(re.match(r"[A-Za-z]:|~", word))
