"""Collectors: what a collect hook hands to its implementations to add to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ..errors import PluginError

__all__ = ["Collector", "refuse_other"]

T = TypeVar("T")


class _Entry(NamedTuple, Generic[T]):
    order: int
    plugin: str
    number: int
    layer: int
    item: T


def refuse_other(taker: str, value: object, *classes: type[Any]) -> None:
    """Refuse what a plugin hands to a collector, unless it is of one of `classes`.

    Raises:
        PluginError: it is not; the relay adds the plugin's name.
    """
    if not isinstance(value, classes):
        wanted = " or ".join("None" if cls is type(None) else cls.__name__ for cls in classes)
        raise PluginError(f"{taker} takes a {wanted}, not {value!r:.80}")


class Collector(Generic[T]):
    """Things added by plugins, in an order that does not depend on the order of calls.

    The engine hands each implementation a view that knows the plugin; iterating gives the items
    by (order, plugin name, order of adding).  Subclasses offer an ``add`` of their own that
    ends in `collect`.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry[T]] = []
        self._plugin = ""
        self._layer = 0

    @property
    def plugin(self) -> str:
        """The name of the plugin that holds this view; empty for the caller's own."""
        return self._plugin

    def collect(self, item: T, order: int = 0) -> None:
        """Add `item`; lower orders come first."""
        self._entries.append(_Entry(order, self._plugin, len(self._entries), self._layer, item))

    def view(self, plugin: str, layer: int = 0) -> Self:
        """The same collection, adding in the name of `plugin`, which is `layer` layers above the program's own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._plugin, other._layer = plugin, layer
        return other

    def __iter__(self) -> Iterator[T]:
        return (entry.item for entry in self._sorted())

    def __len__(self) -> int:
        return len(self._entries)

    def attributed(self) -> list[tuple[str, T]]:
        """The items with the names of the plugins that added them."""
        return [(entry.plugin, entry.item) for entry in self._sorted()]

    def unique(self, name_of: Callable[[T], str], what: str) -> list[T]:
        """The items, one a name: what an agent's own scope adds hides what the layers below it add.

        Raises:
            PluginError: two of one layer have the same name; the message names both plugins.
        """
        return [item for item, _ in self.layered(name_of, what)]

    def layered(self, name_of: Callable[[T], str], what: str) -> list[tuple[T, int]]:
        """Like `unique`, each item with the layer it was added in; 0 is the program's.

        Raises:
            PluginError: two of one layer have the same name; the message names both plugins.
        """
        found: dict[str, _Entry[T]] = {}
        entries = self._sorted()
        for entry in entries:
            name = name_of(entry.item)
            other = found.get(name)
            if other is not None and other.layer == entry.layer:
                if other.plugin == entry.plugin:
                    raise PluginError(f"the plugin {entry.plugin} adds the {what} {name!r} twice")
                raise PluginError(
                    f"two plugins add the {what} {name!r}: {other.plugin} and {entry.plugin}; "
                    f"leave one of them out (--no-plugin {entry.plugin})"
                )
            if other is None or entry.layer > other.layer:
                found[name] = entry
        if len(found) < len(entries):  # some are hidden
            entries = [entry for entry in entries if found[name_of(entry.item)] is entry]
        return [(entry.item, entry.layer) for entry in entries]

    def _sorted(self) -> list[_Entry[T]]:
        # By the first three fields, as no two have the same number: what was added is never compared.
        return sorted(self._entries)
