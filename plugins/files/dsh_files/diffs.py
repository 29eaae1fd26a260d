"""The hunks of a change, as user interfaces show them."""

from __future__ import annotations

from dsh.jsonvalue import Json

__all__ = ["hunks"]

CONTEXT = 3
MOST_LINES = 2000
MOST_CHARACTERS = 65_536


def hunks(path: str, before: str, after: str) -> list[Json]:
    """One entry per hunk, ``{path, oldText, newText}``, with three lines of context; both texts have LF ends.

    ``oldText`` is None where nothing was.  A change too big to show has no entries.
    """
    import difflib

    old, new = before.split("\n"), after.split("\n")
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    if max(len(old), len(new)) - head - tail > MOST_LINES:
        return []
    # Comparing lines is quadratic, so it gets to see the part that differs, with its context.
    start, end = max(head - CONTEXT, 0), max(tail - CONTEXT, 0)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    found: list[Json] = []
    size = 0
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        old_text = "\n".join(old[group[0][1] : group[-1][2]])
        new_text = "\n".join(new[group[0][3] : group[-1][4]])
        size += len(old_text) + len(new_text)
        found.append({"path": path, "oldText": old_text or None, "newText": new_text})
    return found if size <= MOST_CHARACTERS else []


def _same(a: list[str], b: list[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
