"""Columns of text."""

from __future__ import annotations

from collections.abc import Sequence

from . import clean

__all__ = ["print_table"]


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a head, in columns; without rows, nothing."""
    if not rows:
        return
    lines = [[*head], *([clean(" ".join(str(cell).splitlines())) for cell in row] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
