"""A bar on stderr where a person watches, one line elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["bar"]

_WIDTH = 30


@contextmanager
def bar(title: str, say: Callable[[str], None], stream: TextIO | None = None) -> Iterator[Callable[[int, int], None]]:
    """Show how far something is: the function to call with the bytes done and in all, from any thread.

    Args:
        title: what happens.
        say: told `title` when `stream` is no terminal.
        stream: stderr when not given.
    """
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        say(title)
        yield lambda done, total: None
        return
    shown = -1

    def draw(done: int, total: int) -> None:
        nonlocal shown
        percent = done * 100 // total
        if percent == shown:
            return
        shown = percent
        filled = min(percent, 100) * _WIDTH // 100
        out.write(f"\r[{'#' * filled}{'.' * (_WIDTH - filled)}] {percent:3d}% of {total >> 20} MB")
        out.flush()

    out.write(f"{title}\n")
    draw(0, 1)
    try:
        yield draw
    finally:
        out.write("\n")
        out.flush()
