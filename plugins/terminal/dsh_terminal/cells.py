"""What others wrote, as it is drawn, and how many cells of the terminal it fills."""

from __future__ import annotations

import re

from dsh.cells import cells, fitted, within, wrapped
from dsh.terminal import visible

__all__ = ["cells", "fitted", "shown", "within", "wrapped"]

KEEP = "\n\t\u200c\u200d"
_SELECTORS = re.compile("[\ufe00-\ufe0f]")
_JOINED = re.compile("(?<=[\u2190-\U0001ffff])\u200d(?=[\u2190-\U0001ffff])")
_STRAY = re.compile("\u200c\u200d+|\u200d\u200c+|\u200d{2,}|\u200c{2,}")


def shown(text: str) -> str:
    """What others wrote, without anything that steers the terminal, and without what joins or restyles emoji."""
    if text.isascii():
        return visible(text, keep="\n\t")
    text = _JOINED.sub("", _SELECTORS.sub("", text))
    return visible(_STRAY.sub(lambda match: match[0][0], text), keep=KEEP)
