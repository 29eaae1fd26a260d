"""What is not finished, as lines above the line of input: its end, where it is long."""

from __future__ import annotations

from itertools import groupby
from typing import TypeAlias

from prompt_toolkit.formatted_text import ANSI, to_formatted_text

from .cells import shown, wrapped
from .screen import Live

__all__ = ["Above"]

MOST = 12
"""Lines of it."""
STYLES = {"thought": "class:faint", "call": "class:call"}
Fragments: TypeAlias = list[tuple[str, str]]


class Above:
    """Makes these lines; the same ones again, without work, until something else is shown or the size is another."""

    def __init__(self) -> None:
        self._live: Live = ()
        self._size = (0, 0)
        self._lines: Fragments = []

    def lines(self, live: Live, columns: int, rows: int) -> Fragments:
        """The lines, for a terminal of that size."""
        if live is not self._live or self._size != (columns, rows):
            self._live, self._size = live, (columns, rows)
            self._lines = _lines(live, max(20, columns) - 1, max(2, min(MOST, rows // 2)))
        return self._lines


def _lines(live: Live, width: int, most: int) -> Fragments:
    found: list[Fragments] = []
    for kind, text in live:
        if kind == "drawn":
            found += [_coloured(line) for line in text.rstrip("\n").split("\n")[-most:]]
        else:
            last = wrapped(shown(text[-most * width :]), width)[-most:]
            found += [[(STYLES[kind], f"{line}\n")] for line in last]
    return [fragment for line in found[-most:] for fragment in line]


def _coloured(line: str) -> Fragments:
    if "\x1b" not in line:
        return [("", f"{line}\n")]
    signs = to_formatted_text(ANSI(line))
    runs = [(style, "".join(sign[1] for sign in run)) for style, run in groupby(signs, key=lambda sign: sign[0])]
    return [*runs, ("", "\n")]
