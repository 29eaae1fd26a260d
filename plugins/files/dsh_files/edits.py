"""Replacing text in text, byte for byte the same everywhere else."""

from __future__ import annotations

from bisect import bisect_left

from attrs import frozen

from .errors import FsError
from .hints import why_not_found

__all__ = ["Edited", "dominant_end", "normal", "replace"]

SAMPLE = 4096
"""Characters by which the usual line end of a file is told."""


@frozen
class Edited:
    """A text after an edit; `before` and `after` have LF as line ends, `text` has its own."""

    text: str
    before: str
    after: str
    count: int


def normal(text: str) -> str:
    """`text` with LF in place of CRLF."""
    return text.replace("\r\n", "\n")


def dominant_end(text: str) -> str:
    """The line end that most lines of `text` have."""
    sample = text if "\n" not in text[:SAMPLE] else text[:SAMPLE]
    crlf = sample.count("\r\n")
    return "\r\n" if crlf > sample.count("\n") - crlf else "\n"


def replace(text: str, old: str, new: str, *, every: bool, shown: str) -> Edited:
    """Put `new` in the place of `old`, both taken literally, whatever their line ends.

    Args:
        every: all places, where otherwise there must be exactly one.
        shown: what to call the file in errors.

    Raises:
        FsError: ``FS_EDIT_NOT_FOUND`` or ``FS_AMBIGUOUS_EDIT``.
    """
    before, old, new = normal(text), normal(old), normal(new)
    if not old:
        raise FsError(f"old_string is empty, which is nowhere in {shown}; write makes new files", "FS_EDIT_NOT_FOUND")
    places = _places(before, old, overlapping=not every)
    if not places:
        raise FsError(f"old_string is not in {shown}: {why_not_found(before, old)}", "FS_EDIT_NOT_FOUND")
    if len(places) > 1 and not every:
        lines = ", ".join(str(before.count("\n", 0, place) + 1) for place in places[:10])
        more = ", ..." if len(places) > 10 else ""
        raise FsError(
            f"old_string is in {shown} {len(places)} times (lines {lines}{more}); "
            "add text around it until it is unique, or set replace_all",
            "FS_AMBIGUOUS_EDIT",
        )
    # What old and new have in common stays as it is, line ends included.
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    middle = new[head : len(new) - tail]
    spans = [(place + head, place + len(old) - tail) for place in places]
    if "\r\n" not in text:
        changed = _splice(text, spans, middle)
        return Edited(changed, before, changed, len(places))
    changed = _splice(text, _original(text, spans), middle.replace("\n", dominant_end(text)))
    return Edited(changed, before, normal(changed), len(places))


def _places(text: str, part: str, *, overlapping: bool) -> list[int]:
    found: list[int] = []
    place = text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + (1 if overlapping else len(part)))
    return found


def _common_prefix(a: str, b: str) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _original(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`spans` of the text with LF ends as spans of the text itself."""
    shortened = [place - n for n, place in enumerate(_places(text, "\r\n", overlapping=False))]
    return [(start + bisect_left(shortened, start), end + bisect_left(shortened, end)) for start, end in spans]


def _splice(text: str, spans: list[tuple[int, int]], new: str) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += (text[done:start], new)
        done = end
    return "".join((*pieces, text[done:]))
