"""Deciding hooks: the first answer wins, and the caller's default comes after everybody."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Generator
from typing import Any, Protocol

import pytest
import trio
from pluggy import HookCallError

from dsh import hookimpl, hookspec
from dsh.hooks import PluginManager, Settings


class Hooks(Protocol):
    @hookspec(firstresult=True)
    async def chosen(self, x: int) -> Any: ...


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


def awaiting(answer: Any, heard: list[str] | None = None, name: str = "") -> Callable[..., Any]:
    @hookimpl
    async def chosen(x: int) -> Any:
        await trio.lowlevel.checkpoint()
        if heard is not None:
            heard.append(name)
        return answer

    return chosen


async def test_nobody_and_no_default_is_none() -> None:
    assert await managed(Hooks).relay.chosen(x=1) is None


async def test_an_async_implementation_that_answers_none_falls_through() -> None:
    manager = managed(Hooks)
    heard: list[str] = []
    add(manager, "never", chosen=awaiting("late", heard, "never"))
    add(manager, "answers", chosen=hookimpl(lambda x: x + 1))
    add(manager, "none", chosen=awaiting(None, heard, "none"))

    assert await manager.relay.chosen(x=1) == 2
    assert heard == ["none"]


@pytest.mark.parametrize("answer", [0, "", False, ()])
async def test_falsy_answers_are_answers(answer: object) -> None:
    manager = managed(Hooks)
    add(manager, "a", chosen=awaiting(answer))

    assert await manager.relay.chosen(x=1, default=lambda: "default") is answer


async def test_the_default_comes_after_a_third_partys_trylast() -> None:
    manager = managed(Hooks)
    asked: list[str] = []

    def default() -> str:
        asked.append("default")
        return "default"

    add(manager, "last", chosen=hookimpl(trylast=True)(lambda: "last"))

    assert await manager.relay.chosen(x=1, default=default) == "last"
    assert asked == []
    assert await manager.relay.without("chosen", manager.get_plugin("last"))(x=1, default=default) == "default"


async def test_the_default_may_be_async() -> None:
    manager = managed(Hooks)

    async def default() -> str:
        await trio.lowlevel.checkpoint()
        return "default"

    assert await manager.relay.chosen(x=1, default=default) == "default"
    add(manager, "none", chosen=awaiting(None))
    assert await manager.relay.chosen(x=1, default=default) == "default"


async def test_wrappers_stand_around_the_default_and_its_error_blames_nobody() -> None:
    manager = managed(Hooks)
    seen: list[Any] = []

    @hookimpl(wrapper=True)
    def chosen() -> Generator[None, Any, Any]:
        try:
            result = yield
        except ValueError as error:
            seen.append(error)
            raise
        return result

    def default() -> None:
        raise ValueError("the default's")

    add(manager, "w", chosen=chosen)

    with pytest.raises(ValueError, match="the default's") as caught:
        await manager.relay.chosen(x=1, default=default)
    assert seen == [caught.value]
    assert not hasattr(caught.value, "__notes__")


async def test_an_error_stops_it_and_names_the_plugin() -> None:
    manager = managed(Hooks)

    @hookimpl
    def chosen() -> None:
        raise ValueError("no")

    add(manager, "never", chosen=awaiting("never"))
    add(manager, "bad", chosen=chosen)

    with pytest.raises(ValueError, match="no") as caught:
        await manager.relay.chosen(x=1)
    assert caught.value.__notes__ == ["raised by chosen of the plugin 'bad'"]


@pytest.mark.parametrize("implemented", [False, True])
async def test_wrong_arguments_are_an_error(implemented: bool) -> None:
    manager = managed(Hooks)
    if implemented:
        add(manager, "a", chosen=awaiting(1))

    with pytest.raises(HookCallError, match=r"chosen takes \['x'\], was given \['y'\]"):
        await manager.relay.chosen(y=1)


async def test_nothing_is_left_unawaited_when_one_raises() -> None:
    manager = managed(Hooks)

    @hookimpl
    def chosen() -> None:
        raise ValueError("no")

    add(manager, "never", chosen=awaiting(1))
    add(manager, "bad", chosen=chosen)

    with pytest.raises(ValueError, match="no"):
        await manager.relay.chosen(x=1)
    gc.collect()  # a coroutine that was never awaited would warn, which is an error


async def test_calls_at_the_same_time_have_their_own_answers() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def chosen(x: int) -> int:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        return x

    @hookimpl(wrapper=True)
    def around(x: int) -> Generator[None, Any, Any]:
        answer = yield
        return (x, answer)

    add(manager, "a", chosen=chosen)
    add(manager, "w", chosen=around)
    answers: dict[int, Any] = {}

    async def ask(x: int) -> None:
        answers[x] = await manager.relay.chosen(x=x)

    async with trio.open_nursery() as nursery:
        for x in range(4):
            nursery.start_soon(ask, x)

    assert answers == {x: (x, x) for x in range(4)}


async def test_cancellation_passes_through() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def chosen() -> None:
        await trio.sleep_forever()

    add(manager, "never", chosen=awaiting("never"))
    add(manager, "waits", chosen=chosen)

    with trio.move_on_after(0) as scope:
        await manager.relay.chosen(x=1)
    assert scope.cancelled_caught
