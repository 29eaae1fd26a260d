"""Patterns: of commands, and of paths as in a ``.gitignore``; and whether two patterns can mean the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

__all__ = ["ANY", "can_meet", "command_pattern", "path_pattern"]

ANY = "\0"
"""In a text that is compared: anything, or nothing."""

Piece = str | None
"""A sign, ``?`` as an empty string, or None for any number of signs."""


@lru_cache(maxsize=1024)
def command_pattern(pattern: str) -> re.Pattern[str]:
    """What ``*`` and ``?`` in a pattern of commands match: any signs, and one sign that is known.

    A blank and ``*`` at the end may be missing altogether: ``ls *`` is ``ls``, too.
    """
    ending = ""
    if pattern.endswith(" *") and len(pattern) > 2:
        pattern, ending = pattern[:-2], r"(?:\s.*)?"
    pieces = ["".join("[^\0]" if sign == "?" else re.escape(sign) for sign in piece) for piece in pattern.split("*")]
    return re.compile(_joined(pieces, ".") + ending, re.DOTALL)


def _joined(pieces: Sequence[str], sign: str) -> str:
    """The pieces with any number of signs between them; what was found of one is not looked for again."""
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    return first + "".join(f"(?>{sign}*?{piece})" for piece in middle if piece) + f"{sign}*{last}"


def _segment(text: str) -> str:
    pieces: list[str] = []
    out, at = "", 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "*":
            pieces.append(out)
            out = ""
        elif sign == "?":
            out += "[^/]"
        elif sign == "[" and "]" in text[at + 1 :]:
            close = text.index("]", at + 1)
            inside = text[at:close].replace("\\", r"\\")
            out += f"[^/{inside[1:]}]" if inside[0] in "!^" else f"(?!/)[{inside}]"
            at = close + 1
        elif sign == "\\" and at < len(text):
            out += re.escape(text[at])
            at += 1
        else:
            out += re.escape(sign)
    return _joined([*pieces, out], "[^/]")


@lru_cache(maxsize=1024)
def path_pattern(pattern: str, root: str, home: str, wide: bool, fold: bool) -> re.Pattern[str]:
    """The absolute paths that `pattern` means.

    ``/…`` is absolute, ``~/…`` in the home, anything else with a ``/`` in it is in `root`; a name alone may be at any
    depth.  ``**`` is any number of folders.  What is called by name stands for all that is in it, too.

    Args:
        root: the workspace.
        wide: for rules that forbid: a name alone is meant outside of `root`, too, and a pattern of folders stands for
            all that is in them.
        fold: capitals do not matter.
    """
    below = pattern.endswith("/")
    text = pattern.rstrip("/") or "/"
    start = "" if root == "/" else re.escape(root)
    if text == "~" or text.startswith("~/"):
        start, text = ("" if home == "/" else re.escape(home)), text[2:]
        anchored = True
    elif text.startswith("/"):
        start, text, anchored = "", text[1:], True
    else:
        anchored = "/" in text
        text = text.removeprefix("./")
        while text.startswith("../"):
            start, text = start.rpartition("/")[0], text[3:]
    if not anchored:
        start += r"/(?:.*/)?" if not wide else ""
        if wide:
            start = r"/(?:.*/)?"
        out, last = start + _segment(text), text
        if text == "**":
            out = start + ".*"
    else:
        out, last = start, ""
        for segment in text.split("/") if text else []:
            last = segment
            out += r"(?:/[^/]+)*" if segment == "**" else "/" + _segment(segment)
        if last == "**":
            out = out.removesuffix(r"(?:/[^/]+)*") + r"(?:/.*)?"
    if below or wide or not re.search(r"[*?\[]", last):
        out += r"(?:/.*)?"
    return re.compile(out or "/", re.DOTALL | (re.IGNORECASE if fold else 0))


def _pieces(text: str) -> list[Piece]:
    out: list[Piece] = []
    for sign in text:
        if sign in ("*", ANY):
            if not out or out[-1] is not None:
                out.append(None)
        else:
            out.append("" if sign == "?" else sign)
    return out


def can_meet(pattern: str, text: str) -> bool:
    """Whether some text that `pattern` matches can be what `text` stands for, whose `ANY` may be anything."""
    if ANY not in text:
        return command_pattern(pattern).fullmatch(text) is not None
    wanted = _pieces(pattern)
    spoken: list[Piece] = [None if sign == ANY else sign for sign in text]
    return _meet(wanted, spoken)


def _meet(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Whether two patterns have a text in common, by a table of how much of each can be used up together."""
    reach = [False] * (len(right) + 1)
    reach[0] = True
    for at, other in enumerate(right):
        reach[at + 1] = reach[at] and other is None
    for piece in left:
        following = [piece is None and reach[0]] + [False] * len(right)
        for at, other in enumerate(right):
            if piece is None:
                following[at + 1] = reach[at + 1] or following[at] or (reach[at] and other is None)
            elif other is None:
                following[at + 1] = reach[at + 1] or following[at] or reach[at]
            else:
                following[at + 1] = reach[at] and (piece == "" or other == piece)
        reach = following
    return reach[-1]
