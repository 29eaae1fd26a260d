"""The two ends of the terminal, as prompt_toolkit has them, for a line of input below text that scrolls away."""

from __future__ import annotations

import os
import sys

from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output

__all__ = ["is_paste", "keyboard", "window"]

CHUNK = 4096
"""Bytes that are read at once."""
BURST = 200
"""Signs at once that nobody types."""
BEHIND = 4
"""Signs behind the end of a line that come at once with it, and mean that it was not Enter that was pressed."""


def is_paste(data: str) -> bool:
    """Whether what was read at once was pasted, on a terminal that puts no marks around pastes."""
    text = data.rstrip("\r\n")
    if not all(sign.isprintable() or sign in "\r\n\t" for sign in text):
        return False
    first = next((place for place, sign in enumerate(text) if sign in "\r\n"), len(text))
    return len(text) >= BURST or len(text) - first > BEHIND


class _Keyboard(Vt100Input):
    """What comes faster than anybody types is a paste, also without marks: no Enter in it sends anything."""

    def read_keys(self) -> list[KeyPress]:
        data = self.stdin_reader.read(CHUNK)
        if is_paste(data) and not getattr(self.vt100_parser, "_in_bracketed_paste", False):
            return [KeyPress(Keys.BracketedPaste, data)]
        self.vt100_parser.feed(data)
        taken, self._buffer = self._buffer, []
        return taken


class _Window(Vt100_Output):
    """It never asks the terminal where its cursor is.

    One that does not answer would be complained of, and an answer that comes late is read by whoever reads then: as
    keys of a question, or by the shell.
    """

    def get_rows_below_cursor_position(self) -> int:
        return 1


def keyboard() -> Input:
    """The keys of the terminal that stdin is."""
    return _Keyboard(sys.__stdin__)  # type: ignore[arg-type]  # there is one


def window() -> Output:
    """The terminal that stdout is."""
    return _Window.from_pty(
        sys.__stdout__,  # type: ignore[arg-type]  # there is one
        term=os.environ.get("TERM"),
        default_color_depth=ColorDepth.from_env(),
    )
