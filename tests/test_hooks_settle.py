"""Settle hooks: each is awaited, also when another raises."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import pytest
import trio
from trio.testing import MockClock

from dsh import hookimpl, hookspec
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec(settle=True)
    async def ended(self, x: int) -> None: ...


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


async def test_all_are_awaited_one_after_another(autojump_clock: MockClock) -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    def slow(name: str) -> Callable[..., Any]:
        @hookimpl
        async def ended(x: int) -> None:
            heard.append(f"{name} begins")
            await trio.sleep(x)
            heard.append(f"{name} ends")

        return ended

    add(manager, "a", ended=slow("a"))
    add(manager, "plain", ended=hookimpl(lambda: heard.append("plain")))
    add(manager, "b", ended=slow("b"))

    assert await manager.relay.ended(x=5) is None

    assert heard == ["b begins", "b ends", "plain", "a begins", "a ends"]


async def test_everyone_runs_even_if_one_raises() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl
    async def ended() -> None:
        raise OSError("disk full")

    add(manager, "last", ended=hookimpl(lambda: heard.append("last")))
    add(manager, "bad", ended=ended)

    with pytest.raises(OSError, match="disk full") as caught:
        await manager.relay.ended(x=1)

    assert heard == ["last"]
    assert caught.value.__notes__ == ["raised by ended of the plugin 'bad'"]


async def test_several_errors_come_out_together() -> None:
    manager = managed(Hooks)

    def raising(error: Exception) -> Callable[..., Any]:
        @hookimpl
        async def ended() -> None:
            raise error

        return ended

    add(manager, "second", ended=raising(KeyError("b")))
    add(manager, "first", ended=raising(OSError("a")))

    with pytest.raises(ExceptionGroup) as caught:
        await manager.relay.ended(x=1)

    assert [type(error) for error in caught.value.exceptions] == [OSError, KeyError]


async def test_cancellation_stops_it_and_passes() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl
    async def ended() -> None:
        await trio.sleep_forever()

    add(manager, "last", ended=hookimpl(lambda: heard.append("last")))
    add(manager, "waits", ended=ended)

    with trio.move_on_after(0) as scope:
        await manager.relay.ended(x=1)

    assert scope.cancelled_caught
    assert heard == []


async def test_a_wrapper_may_bound_it(autojump_clock: MockClock) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def bounded() -> AsyncGenerator[Any, Any]:
        with trio.move_on_after(3):
            yield

    @hookimpl
    async def ended() -> None:
        await trio.sleep_forever()

    add(manager, "bound", ended=bounded)
    add(manager, "waits", ended=ended)

    await manager.relay.ended(x=1)


async def test_a_wrapper_that_raises_before_its_yield_keeps_it_from_nobody() -> None:
    manager = managed(Hooks)
    heard: list[str] = []

    @hookimpl(wrapper=True)
    async def early() -> AsyncGenerator[None, None]:
        await trio.lowlevel.checkpoint()
        raise ValueError("early")
        yield

    add(manager, "inner", ended=hookimpl(lambda: heard.append("inner")))
    add(manager, "early", ended=early)

    with pytest.raises(ValueError, match="early"):
        await manager.relay.ended(x=1)

    assert heard == ["inner"]
