"""What is finished, on its way to the terminal: written above the line of input, so much at a time."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from contextlib import suppress

from prompt_toolkit.application import Application

__all__ = ["FRAME", "Writer"]

FRAME = 0.04
"""Seconds between two times that something is written: what comes faster is written together."""
MOST = 32 * 1024
"""Signs that are written at once, so that a key is not kept waiting by a flood."""


class Writer:
    """See the module.  `add` may be called in any thread, all else in the one of prompt_toolkit."""

    def __init__(self) -> None:
        self._out: deque[str] = deque()
        self._is_due = False

    def add(self, text: str) -> None:
        """Take a text to be written."""
        self._out.append(text)

    def soon(self, loop: asyncio.AbstractEventLoop | None, app: Application[str] | None) -> None:
        """Write in a moment."""
        if not self._is_due and self._out and loop is not None:
            self._is_due = True
            loop.call_later(FRAME, self._write, loop, app)

    def _write(self, loop: asyncio.AbstractEventLoop, app: Application[str] | None) -> None:
        """Write out what is finished, above the line of input.

        `run_in_terminal` would let the terminal edit lines for that moment: keys would be echoed twice, and an Enter
        would begin a line.
        """
        self._is_due = False
        if app is None or not app.is_running:
            self.rest()
        elif not app._running_in_terminal:  # or else somebody has the terminal
            app.renderer.erase()
            _put(self._some())
            app.renderer.request_absolute_cursor_position()
            app._redraw()
        self.soon(loop, app)

    def _some(self) -> str:
        taken: list[str] = []
        size = 0
        while self._out and size < MOST:
            text = self._out.popleft()
            if size + len(text) > MOST and (cut := text.rfind("\n", 0, MOST - size) + 1):
                self._out.appendleft(text[cut:])
                text = text[:cut]
            taken.append(text)
            size += len(text)
        return "".join(taken)

    def rest(self) -> None:
        """Write all of it at once, where nothing is drawn."""
        out = "".join(self._out)
        self._out.clear()
        _put(out)


def _put(text: str) -> None:
    with suppress(OSError, ValueError):  # the terminal is gone
        sys.__stdout__.write(text)  # type: ignore[union-attr]  # there is a terminal
        sys.__stdout__.flush()  # type: ignore[union-attr]
