"""Secrets: values that must not enter the log, and the mask that keeps them out."""

from __future__ import annotations

import re

from .hooks import Collector

__all__ = ["Secrets"]

SHORTEST = 6
"""Shorter values are not masked: they would blot out ordinary words."""


class Secrets(Collector[tuple[str, str]]):
    """The collector of ``secrets_register``, and afterwards the mask."""

    def __init__(self) -> None:
        super().__init__()
        self._cache: tuple[int, re.Pattern[str] | None, dict[str, str]] = (0, None, {})

    def add(self, value: str, name: str) -> None:
        """Never log `value`; ``[secret NAME]`` is shown in its place."""
        self.collect((value, name))

    def values(self) -> frozenset[str]:
        """The values, for whoever must not pass them on."""
        return frozenset(value for value, _ in self)

    @property
    def any(self) -> bool:
        """Whether there is anything to mask."""
        return self._current()[1] is not None

    def mask(self, text: str) -> str:
        """`text` without secrets."""
        _, pattern, names = self._current()
        if pattern is None or len(text) < SHORTEST:
            return text
        return pattern.sub(lambda match: f"[secret {names[match[0]]}]", text)

    def _current(self) -> tuple[int, re.Pattern[str] | None, dict[str, str]]:
        """The mask for the secrets that there are by now: their number, their pattern, and their names."""
        if self._cache[0] != len(self):
            names = {value: name for value, name in self if len(value) >= SHORTEST}
            longest_first = sorted(names, key=len, reverse=True)
            pattern = re.compile("|".join(map(re.escape, longest_first))) if names else None
            self._cache = (len(self), pattern, names)
        return self._cache
