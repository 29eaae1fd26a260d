"""Collect hooks: what is collected does not depend on the order of calls."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import pytest
import trio

from dsh import PluginError, hookimpl, hookspec
from dsh.hooks import Collector, PluginManager, Settings


class Names(Collector[str]):
    def add(self, name: str, order: int = 0) -> None:
        self.collect(name, order)


class Hooks(Protocol):
    @hookspec(collect="names")
    def offered(self, names: Names, x: int) -> None: ...

    @hookspec(collect="names")
    async def listed(self, names: Names) -> None: ...


def managed(specs: type, settings: Settings | None = None) -> PluginManager:
    manager = PluginManager(settings=settings)
    manager.add_hookspecs(specs)
    return manager


def add(manager: PluginManager, name: str, **functions: Callable[..., Any]) -> types.ModuleType:
    """Register a module of that name with these implementations."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    manager.register(module, name)
    return module


def adding(*items: tuple[str, int]) -> Callable[..., Any]:
    @hookimpl
    def offered(names: Names) -> None:
        for name, order in items:
            names.add(name, order)

    return offered


def collected(manager: PluginManager) -> Names:
    names = Names()
    manager.relay.offered(names=names, x=1)
    return names


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_ordered_by_order_then_plugin_then_adding(order: tuple[str, ...]) -> None:
    manager = managed(Hooks)
    what = {
        "a": adding(("a2", 5), ("a1", 5)),
        "b": adding(("b0", 0), ("b5", 5)),
        "c": adding(("c-1", -1), ("c0", 0)),
    }
    for name in order:
        add(manager, name, offered=what[name])

    assert list(collected(manager)) == ["c-1", "b0", "c0", "a2", "a1", "b5"]
    assert collected(manager).attributed()[0] == ("c", "c-1")
    assert len(collected(manager)) == 6


def test_a_view_knows_its_plugin_and_the_caller_has_none() -> None:
    manager = managed(Hooks)
    seen: list[str] = []
    add(manager, "a", offered=hookimpl(lambda names: seen.append(names.plugin)))

    names = collected(manager)

    assert seen == ["a"]
    assert names.plugin == ""


def test_an_error_comes_out_so_that_the_collection_is_not_used() -> None:
    manager = managed(Hooks)

    @hookimpl
    def offered(names: Names) -> None:
        names.add("half")
        raise ValueError("broken")

    add(manager, "a", offered=adding(("whole", 0)))
    add(manager, "bad", offered=offered)

    with pytest.raises(ValueError, match="broken") as caught:
        collected(manager)
    assert caught.value.__notes__ == ["raised by offered of the plugin 'bad'"]


async def test_an_awaited_collection_stops_at_the_first_error() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl
    async def listed(names: Names) -> None:
        await trio.lowlevel.checkpoint()
        raise OSError("no disk")

    add(manager, "never", listed=hookimpl(lambda: heard.append("never")))
    add(manager, "bad", listed=listed)

    with pytest.raises(OSError, match="no disk"):
        await manager.relay.listed(names=Names())
    assert heard == []


async def test_an_awaited_collection_has_views_too() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def listed(names: Names) -> None:
        await trio.lowlevel.checkpoint()
        names.add("slow")

    add(manager, "b", listed=listed)
    add(manager, "a", listed=hookimpl(lambda names: names.add("quick")))
    names = Names()

    await manager.relay.listed(names=names)

    assert names.attributed() == [("a", "quick"), ("b", "slow")]


async def test_what_wrappers_add_is_theirs() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def offered(names: Names) -> Generator[None, Any, Any]:
        yield
        names.add("of the wrapper")

    @hookimpl(wrapper=True)
    async def listed(names: Names) -> AsyncGenerator[Any, Any]:
        names.add("of the async wrapper")
        yield

    add(manager, "w", offered=offered, listed=listed)
    add(manager, "a", offered=adding(("of a", 0)))
    names = Names()

    manager.relay.offered(names=names, x=1)
    await manager.relay.listed(names=names)

    assert names.attributed() == [("a", "of a"), ("w", "of the wrapper"), ("w", "of the async wrapper")]


def test_two_plugins_of_a_layer_cannot_add_the_same_name() -> None:
    manager = managed(Hooks)
    add(manager, "a", offered=adding(("x", 0)))
    add(manager, "b", offered=adding(("x", 0)))

    with pytest.raises(PluginError, match="two plugins add the thing 'x': a and b"):
        collected(manager).unique(lambda name: name, "thing")


def test_a_scope_hides_what_lies_below_it() -> None:
    manager = managed(Hooks)
    scope = manager.scope()
    add(manager, "installed", offered=adding(("x", 0), ("y", 0)))
    add(scope, "own", offered=adding(("x", 3)))

    names = collected(scope)

    assert names.unique(lambda name: name, "thing") == ["y", "x"]
    assert [plugin for plugin, _ in names.attributed()] == ["installed", "installed", "own"]


@pytest.mark.parametrize("busy", [False, True])
def test_the_callers_own_entries_lie_in_the_lowest_layer_whatever_the_scope_holds(busy: bool) -> None:
    manager = managed(Hooks)
    scope = manager.scope()
    add(manager, "installed", offered=adding(("x", 0)))
    if busy:
        add(scope, "elsewhere", offered=adding(("z", 0)))
    names = Names()
    names.view("dsh").add("x")
    scope.relay.offered(names=names, x=1)

    with pytest.raises(PluginError, match="dsh and installed"):
        names.unique(lambda name: name, "thing")
