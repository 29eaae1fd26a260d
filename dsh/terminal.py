"""The terminal a person sits at: whether one is there, and how to show them what others wrote."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["TTY", "leave_as_found", "person_present", "restoring", "visible"]

TTY = "/dev/tty"
"""The terminal of the process, wherever its streams lead."""


_restores: list[Callable[[], None]] = []


@contextmanager
def restoring(restore: Callable[[], None]) -> Iterator[None]:
    """Call `restore` at the end of the block, and also when the program is left within it without unwinding."""
    _restores.append(restore)
    try:
        yield
    finally:
        _restores.remove(restore)
        restore()


def leave_as_found() -> None:
    """Put the terminal back into the state it was found in; for who ends the program at once."""
    for restore in reversed(_restores):
        with suppress(Exception):
            restore()


def person_present() -> bool:
    """Whether somebody can be asked: stderr is the terminal of this process, which runs in its foreground.

    A stdin that is ``/dev/null``, or closed, says that nobody is there; one that brings the task does not.
    """
    try:
        if not os.isatty(2) or not _may_be_attended(0):
            return False
        descriptor = os.open(TTY, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()  # who reads in the background is stopped
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _may_be_attended(descriptor: int) -> bool:
    kind = os.fstat(descriptor).st_mode
    return os.isatty(descriptor) or stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)


def visible(text: str, *, keep: str = "\n") -> str:
    r"""`text` with every sign that steers a terminal, or hides or turns round what it shows, as an escape.

    Control characters become ``\x1b``, marks of direction and of no width ``\u202e``.  What is written in
    other alphabets stays.

    Args:
        keep: signs that stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in keep or _plain(sign) else _escaped(sign) for sign in text)


def _plain(sign: str) -> bool:
    # Cf and Cc steer; Zl, Zp break lines; spaces other than the plain one look like it and part words elsewhere
    return sign == " " or not (unicodedata.category(sign)[0] in "CZ" or _is_unseen(sign))


_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"


def _is_unseen(sign: str) -> bool:
    code = ord(sign)
    return 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or sign in _UNSEEN


def _escaped(sign: str) -> str:
    code = ord(sign)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(sign, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
