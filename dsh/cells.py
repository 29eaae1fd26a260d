"""Widths: how many cells of a terminal a text fills, and cutting it to size between characters.

Terminals do not agree on signs that are several characters, such as a family of emoji.  Here every character counts
for what it fills alone, so that nothing is wider than was reckoned on any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

__all__ = ["cells", "fitted", "width", "within", "wrapped"]

TAB = 8
_ESCAPE = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)")


@lru_cache(maxsize=4096)
def width(sign: str) -> int:
    """How many cells one character fills."""
    if sign < "\x7f":
        return 1 if sign >= " " else 0
    if "\U0001f3fb" <= sign <= "\U0001f3ff":
        return 2  # shades of skin; a terminal that does not join them shows a square
    from wcwidth import wcwidth  # its tables take a moment to load, and most texts need none

    return max(0, wcwidth(sign))


def cells(text: str) -> int:
    """How many cells the text fills, on one line and without tabs."""
    return len(text) if text.isascii() else sum(map(width, text))


def fitted(text: str, most: int) -> str:
    """The text, cut so that it fills at most so many cells; at least one."""
    if cells(text) <= most:
        return text
    kept: list[str] = []
    room = most - 1
    for sign in text:
        room -= width(sign)
        if room < 0:
            break
        kept.append(sign)
    return f"{''.join(kept).rstrip()}…"


def within(text: str, columns: int) -> str:
    """A text with colours, with lines that are too wide cut between characters, and tabs as spaces."""
    return "\n".join(wrapped(text, columns))


def wrapped(text: str, columns: int, *, size: Callable[[str], int] = width) -> list[str]:
    """The text's lines, none wider than that; cut between characters.

    Args:
        size: how many cells one character that is not ASCII is taken to fill.
    """
    return [piece for line in text.split("\n") for piece in _pieces(line, columns, size)]


def _pieces(line: str, columns: int, size: Callable[[str], int]) -> Iterator[str]:
    if line.isascii() and "\t" not in line and "\x1b" not in line:
        for at in range(0, max(1, len(line)), columns):
            yield line[at : at + columns]
        return
    kept: list[str] = []
    used = 0
    for token in _tokens(line):
        room = 0 if token[0] == "\x1b" else TAB - used % TAB if token == "\t" else size(token)
        if used and used + room > columns:
            yield "".join(kept)
            kept, used = [], 0
            room = min(room, columns)
        if token == "\t":
            token = " " * min(room, columns)
        kept.append(token)
        used += room
    yield "".join(kept)


def _tokens(line: str) -> Iterator[str]:
    at = 0
    while at < len(line):
        match = _ESCAPE.match(line, at) if line[at] == "\x1b" else None
        end = match.end() if match else at + 1
        yield line[at:end]
        at = end
