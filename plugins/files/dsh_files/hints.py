"""Why an edit's old text is not in a file: what a model can act upon."""

from __future__ import annotations

import re

__all__ = ["why_not_found"]

_NUMBERED = re.compile(r"^ *\d+(?:: ?|\t|→)", re.MULTILINE)
_LOOKALIKES = str.maketrans("‘’‚‛“”„‟‐‑‒–—−\u00a0\u202f", "''''\"\"\"\"------  ")
_MOST_LINES = 5000
_LONGEST = 200


def why_not_found(text: str, old: str) -> str:
    """A sentence about the nearest thing to `old` in `text`; both have LF line ends."""
    bare = _NUMBERED.sub("", old)
    if bare != old and bare.strip("\n") and bare in text:
        return "leave out the line numbers that read puts before each line"
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if len(lines) > _MOST_LINES or len(wanted) > _MOST_LINES:
        return "read the place again and copy it exactly"
    for cause, plain in (
        ("empty lines at its start or end", str),
        ("quotes, dashes or special blanks", _looks),
        ("blanks and tabs", _words),
        ("upper and lower case", str.lower),
        ("blanks, quotes or case", lambda line: _words(_looks(line)).lower()),
    ):
        place = _find([plain(line) for line in lines], [plain(line) for line in wanted])
        if place is not None:
            return (
                f"{_span(place, len(wanted))} but for {cause}; there the file has {_quote(lines, place, len(wanted))}"
            )
    nearest = _nearest(lines, wanted)
    if nearest is not None:
        return f"the nearest text is line {nearest + 1}, {_quote(lines, nearest, 1)}; read the place again and copy it"
    return "nothing like it is there; read the file again"


def _looks(line: str) -> str:
    return line.translate(_LOOKALIKES)


def _words(line: str) -> str:
    return " ".join(line.split())


def _find(lines: list[str], wanted: list[str]) -> int | None:
    """Where the lines `wanted` follow each other; the first and the last may be parts of lines."""
    count = len(wanted)
    if not any(line.strip() for line in wanted):
        return None
    if count == 1:
        return next((n for n, line in enumerate(lines) if wanted[0] in line), None)
    for start in range(len(lines) - count + 1):
        if (
            lines[start].endswith(wanted[0])
            and lines[start + count - 1].startswith(wanted[-1])
            and lines[start + 1 : start + count - 1] == wanted[1:-1]
        ):
            return start
    return None


def _nearest(lines: list[str], wanted: list[str]) -> int | None:
    """The line most like the longest one of `wanted`."""
    import difflib

    key = max(wanted, key=lambda line: len(line.strip())).strip()[:_LONGEST]
    stripped = [line.strip()[:_LONGEST] for line in lines]
    found = difflib.get_close_matches(key, set(stripped) - {""}, n=1, cutoff=0.6) if key else []
    return stripped.index(found[0]) if found else None


def _span(place: int, count: int) -> str:
    return f"line {place + 1} is the same" if count == 1 else f"lines {place + 1}-{place + count} are the same"


def _quote(lines: list[str], place: int, count: int) -> str:
    """The lines as a literal, in which a tab is seen to be one."""
    text = "\n".join(lines[place : place + count])
    literal = text[: 2 * _LONGEST].replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    return f'"{literal}"' + ("..." if len(text) > 2 * _LONGEST else "")
