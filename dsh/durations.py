"""Lengths of time, as people write them: ``90``, ``1.5h``, ``10m``, ``1h30m``."""

from __future__ import annotations

import re

__all__ = ["seconds_in", "spoken"]

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+|\d+(?:\.\d+)?", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms]?)")


def seconds_in(text: str) -> float:
    """The seconds of `text`: a number of them, or parts with the units d, h, m and s.

    Raises:
        ValueError: it is no such text, or no time at all.
    """
    word = text.strip().lower()
    seconds = 0.0
    if len(word) <= 40 and _WHOLE.fullmatch(word):
        seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in _PART.findall(word))
    if seconds <= 0:
        raise ValueError(f"expected a time above 0, as in 90, 10m or 1h30m, got {text!r}")
    return seconds


def spoken(seconds: float) -> str:
    """`seconds` for a message: ``1 h 30 min``, ``10 min``, ``2.5 s``."""
    if seconds < 60 or seconds % 1:
        return f"{seconds:g} s"
    whole = int(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)
