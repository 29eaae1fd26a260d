"""What is set for a conversation and set back however it ends, and leaving it for a while."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from .screen import Screen

__all__ = ["restore_modes", "say_last", "suspend", "switching_fast"]

SHOWN_AGAIN = b"\x1b[?2004l\x1b[?25h"
"""No marks around pastes, and a cursor."""
SWITCH = 0.0005
"""Seconds that one thread keeps another waiting; by default ten times as many, at every step of echoing a key."""


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


async def suspend(screen: Screen) -> None:
    """Ctrl-Z: the person's shell, until they come back.  Where there is none, nothing happens."""
    async with screen.borrow():
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(0, signal.SIGTSTP)
            await trio.lowlevel.checkpoint()
        finally:
            signal.signal(signal.SIGTSTP, before)


@contextmanager
def switching_fast() -> Iterator[None]:
    """Let the thread that echoes keys run soon, also while the other one has its hands full."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
