"""Times for people."""

from __future__ import annotations

from datetime import datetime

__all__ = ["minute"]


def minute(ms: int) -> str:
    """Milliseconds since the epoch as local date and time; text of its own for what is no time."""
    try:
        return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
