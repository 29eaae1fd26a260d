"""Checkpoint hooks: one after another, and the first error stops."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pytest
import trio

from dsh import hookimpl, hookspec
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec
    async def before(self, x: list[str]) -> None: ...


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


async def test_awaited_in_order_plain_ones_too() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def before(x: list[str]) -> None:
        await trio.lowlevel.checkpoint()
        x.append("async")

    add(manager, "plain", before=hookimpl(lambda x: x.append("plain")))
    add(manager, "async", before=before)
    heard: list[str] = []

    assert await manager.relay.before(x=heard) is None
    assert heard == ["async", "plain"]


async def test_the_first_error_stops_the_others() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def before() -> None:
        raise ValueError("not now")

    add(manager, "never", before=hookimpl(lambda x: x.append("never")))
    add(manager, "bad", before=before)
    add(manager, "first", before=hookimpl(lambda x: x.append("first")))
    heard: list[str] = []

    with pytest.raises(ValueError, match="not now") as caught:
        await manager.relay.before(x=heard)

    assert heard == ["first"]
    assert caught.value.__notes__ == ["raised by before of the plugin 'bad'"]


async def test_answers_do_not_stop_it() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    def answering(x: list[str]) -> str:
        x.append("one")
        return "an answer"

    add(manager, "b", before=hookimpl(lambda x: x.append("two")))
    add(manager, "a", before=hookimpl(answering))

    assert await manager.relay.before(x=heard) is None
    assert heard == ["one", "two"]


async def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    manager = managed(Hooks)

    async def work(x: list[str]) -> None:
        x.append("worked")

    add(manager, "hidden", before=hookimpl(lambda x: work(x)))
    heard: list[str] = []

    await manager.relay.before(x=heard)
    assert heard == ["worked"]


async def test_calls_at_the_same_time_do_not_share_anything() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def before(x: list[str]) -> None:
        for number in range(3):
            x.append(f"{x[0]}{number}")
            await trio.lowlevel.checkpoint()

    add(manager, "a", before=before)
    heard = [["a"], ["b"]]

    async with trio.open_nursery() as nursery:
        for one in heard:
            nursery.start_soon(partial(manager.relay.before, x=one))

    assert heard == [["a", "a0", "a1", "a2"], ["b", "b0", "b1", "b2"]]
