"""What tools and the person's own commands printed, to be shown whole: the last one first, then those before it."""

from __future__ import annotations

from collections import deque

from attrs import define, field

__all__ = ["Results"]

MOST = 50
"""Results that can be shown whole."""


@define
class Results:
    """The last results, each with a title."""

    _kept: deque[tuple[str, str]] = field(factory=lambda: deque(maxlen=MOST))
    _seen: int = 0

    def add(self, title: str, text: str) -> None:
        """Another one, which is the next to be shown."""
        self._kept.append((title, text))
        self._seen = 0

    def clear(self) -> None:
        """Another conversation begins."""
        self._kept.clear()
        self._seen = 0

    def next(self) -> tuple[str, str] | None:
        """The one before that which was shown last; None where there is none, and then it begins anew."""
        self._seen += 1
        if self._seen > len(self._kept):
            self._seen = 0
            return None
        return self._kept[-self._seen]

    def __len__(self) -> int:
        return len(self._kept)
