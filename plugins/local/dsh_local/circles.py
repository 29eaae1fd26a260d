"""Going in circles: a small model that has its result, and asks for it again and again."""

from __future__ import annotations

from collections.abc import Iterable

from dsh.session.events import Event, ToolCall, TurnStart

__all__ = ["MOST_CALLS", "enough"]

MOST_CALLS = 12
"""After so many calls in a turn a small model is asked for an answer, whatever it has."""


def enough(newest_first: Iterable[Event]) -> bool:
    """Whether the turn that is open has called a tool the same way twice, or very often.

    Args:
        newest_first: the log, from its end.
    """
    seen: set[tuple[str, str]] = set()
    count = 0
    for event in newest_first:
        data = event.data
        if isinstance(data, TurnStart):
            return False
        if isinstance(data, ToolCall):
            call = (data.name, data.arguments)
            count += 1
            if call in seen or count >= MOST_CALLS:
                return True
            seen.add(call)
    return False
