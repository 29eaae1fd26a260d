"""Output of programs as text that a model can read: without what steers terminals."""

from __future__ import annotations

import re

from dsh.patterns import late

__all__ = ["cleaned", "is_binary", "visible"]

_ESCAPES = late(
    r"""
    \x1b \[ [0-?]* [ -/]* [@-~]                # CSI: colours, cursor, screen (ECMA-48 5.4)
  | \x1b [\]PX^_] [^\x07\x1b\n]* (?: \x07 | \x1b\\ )   # OSC, DCS, SOS, PM, APC with their text
  | \x1b [ -/]* [0-~]                          # the short ones
  | \x9b [0-?]* [ -/]* [@-~]                   # CSI as one character
  | \x1b
    """,
    re.VERBOSE,
)
_ERASE = late(r"(?:\x1b\[|\x9b)(?P<part>[0-2]?)K")
_TO_END, _WHOLE = "\x1e", "\x1f"
"""What stands for the erasing of a line, from the cursor on or all of it, until the line is put together."""
_MARKS = late(r"[\x1e\x1f]")
_PIECES = late(r"[\x1e\x1f]|[^\x1e\x1f]+")
_CONTROLS = late(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f]")
_ALL_CONTROLS = late(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ODD = late(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\ufffd]")

BINARY = 0.1
"""The share of characters that no text has, from which on something is no text."""
LOOK = 8192


def is_binary(text: str) -> bool:
    """Whether it is hardly text: many NULs, control characters and broken bytes in its beginning."""
    start = text[:LOOK]
    return bool(start) and len(_ODD.findall(start)) > BINARY * len(start)


def cleaned(text: str) -> str:
    """The text without escape sequences; of a line that was written over, what stood there last.

    Other control characters but tab and newline become a visible U+2400 picture of themselves or U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    rewritten = "\r" in text
    if "\x1b" in text or "\x9b" in text:
        if _ERASE.search(text):
            rewritten = True
            text = _ERASE.sub(_mark, _MARKS.sub(_picture, text))
        text = _ESCAPES.sub("", text)
    if rewritten:
        text = "\n".join(_last_state(line) for line in text.replace("\r\n", "\n").split("\n"))
    if "\b" in text:
        text = "\n".join(_without_erased(line) for line in text.split("\n"))
    return _CONTROLS.sub(_picture, text)


def visible(text: str) -> str:
    """What is no text, with a picture in the place of each character that is none."""
    return _ALL_CONTROLS.sub(_picture, text)


def _mark(match: re.Match[str]) -> str:
    """A mark where a part of a line is erased."""
    return {"": _TO_END, "0": _TO_END, "2": _WHOLE}.get(match["part"], "")


def _last_state(line: str) -> str:
    """What a line shows in the end: each carriage return starts over, and what is longer below it stays, unless it
    is erased.
    """
    if "\r" not in line and not _MARKS.search(line):
        return line
    shown = ""
    frames = line.split("\r")
    for frame in frames[-64:]:  # what many frames before it left, is covered
        shown = _over(shown, frame)
    return shown.rstrip()


def _over(shown: str, frame: str) -> str:
    """A line with `frame` written over its beginning."""
    if not _MARKS.search(frame):
        return frame + shown[len(frame) :]
    letters, place, blank = list(shown), 0, 0  # so many blanks stand before the letters
    for piece in _PIECES.findall(frame):
        if piece == _TO_END:
            del letters[place - blank :]
        elif piece == _WHOLE:
            letters, blank = [], place
        else:
            letters[place - blank : place - blank + len(piece)] = piece
            place += len(piece)
    return " " * blank + "".join(letters)


def _without_erased(line: str) -> str:
    """The line without what backspaces took away."""
    if "\b" not in line:
        return line
    shown: list[str] = []
    for char in line:
        if char != "\b":
            shown.append(char)
        elif shown:
            shown.pop()
    return "".join(shown)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
