"""How the terminal was set, to set it so again however a conversation ends."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

__all__ = ["restore_modes", "say_last"]

SHOWN_AGAIN = b"\x1b[?2004l\x1b[?25h"
"""No marks around pastes, and a cursor."""


def restore_modes(source: int = 0) -> Callable[[], None]:
    """Look how the terminal is set; what is returned sets it so again, where it is another way by then."""
    try:
        before = termios.tcgetattr(source)
    except (OSError, termios.error):
        return lambda: None

    def restore() -> None:
        with suppress(OSError, termios.error, ValueError, AttributeError):
            if termios.tcgetattr(source) != before:
                termios.tcsetattr(source, termios.TCSANOW, before)
                os.write(sys.__stdout__.fileno(), SHOWN_AGAIN)  # type: ignore[union-attr]  # a terminal is there

    return restore


def say_last(words: str) -> None:
    """Write a last line to stderr; where the terminal is gone, nobody shall complain of it later."""
    try:
        print(words, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stderr.fileno())
            os.close(nowhere)
