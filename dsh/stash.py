"""Typed storage for plugins' state on somebody else's object.

    SEEN: StashKey[set[str]] = StashKey("seen")

    agent.stash[SEEN] = set()
    agent.stash.setdefault(SEEN, set()).add("a")

A key is known by identity, so no two plugins meet by accident.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

__all__ = ["Stash", "StashKey"]

T = TypeVar("T")
D = TypeVar("D")


class StashKey(Generic[T]):
    """The key of a `T`; `name` is for people who look into a stash."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"StashKey({self.name!r})"


class Stash:
    """A mapping from keys to values of each key's own type."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[StashKey[Any], Any] = {}

    def __setitem__(self, key: StashKey[T], value: T) -> None:
        self._values[key] = value

    def __getitem__(self, key: StashKey[T]) -> T:
        return cast(T, self._values[key])

    def __delitem__(self, key: StashKey[Any]) -> None:
        del self._values[key]

    def __contains__(self, key: StashKey[Any]) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: StashKey[T], default: D) -> T | D:
        """The value of `key`, or `default`."""
        return cast("T | D", self._values.get(key, default))

    def setdefault(self, key: StashKey[T], default: T) -> T:
        """The value of `key`, which is `default` from now on if it had none."""
        return cast(T, self._values.setdefault(key, default))
