"""Wrappers: generators around the other implementations, plain and async ones in one order."""

from __future__ import annotations

import contextlib
import gc
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import pytest
import trio
from trio.testing import MockClock

from dsh import HookError, hookimpl, hookspec
from dsh.hooks import PluginManager, Settings

Log = list[Any]


class Hooks(Protocol):
    @hookspec(firstresult=True)
    async def chosen(self, log: Log) -> Any: ...

    @hookspec
    async def before(self, log: Log) -> None: ...


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


def plain(name: str) -> Callable[..., Any]:
    @hookimpl(wrapper=True)
    def chosen(log: Log) -> Generator[None, Any, Any]:
        log.append(f"{name}>")
        result = yield
        log.append(f"<{name}")
        return f"{name}({result})"

    return chosen


def awaiting(name: str) -> Callable[..., Any]:
    @hookimpl(wrapper=True)
    async def chosen(log: Log) -> AsyncGenerator[Any, Any]:
        await trio.lowlevel.checkpoint()
        log.append(f"{name}>")
        result = yield
        await trio.lowlevel.checkpoint()
        log.append(f"<{name}")
        yield f"{name}({result})"

    return chosen


def raising(error: BaseException) -> Callable[..., Any]:
    @hookimpl
    async def chosen() -> Any:
        await trio.lowlevel.checkpoint()
        raise error

    return chosen


def answering(answer: Any) -> Callable[..., Any]:
    @hookimpl
    async def chosen() -> Any:
        await trio.lowlevel.checkpoint()
        return answer

    return chosen


async def test_plain_and_async_wrappers_in_one_order() -> None:
    manager = managed(Hooks)
    add(manager, "x", chosen=answering("x"))
    add(manager, "a", chosen=plain("a"))
    add(manager, "b", chosen=awaiting("b"))
    add(manager, "c", chosen=plain("c"))
    add(manager, "d", chosen=awaiting("d"))
    log: Log = []

    assert await manager.relay.chosen(log=log) == "d(c(b(a(x))))"
    assert log == ["d>", "c>", "b>", "a>", "<a", "<b", "<c", "<d"]


async def test_an_async_wrapper_without_a_second_yield_leaves_the_result() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def chosen(log: Log) -> AsyncGenerator[Any, Any]:
        log.append("before")
        yield
        log.append("after")

    add(manager, "x", chosen=answering("x"))
    add(manager, "w", chosen=chosen)
    log: Log = []

    assert await manager.relay.chosen(log=log) == "x"
    assert log == ["before", "after"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_teardown_on_an_error_and_an_error_may_become_an_answer(asynchronous: bool) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def ends_it(log: Log) -> Generator[None, Any, Any]:
        try:
            result = yield
        except ValueError as error:
            log.append(str(error))
            return "rescued"
        return result

    @hookimpl(wrapper=True)
    async def ends_it_async(log: Log) -> AsyncGenerator[Any, Any]:
        try:
            result = yield
        except ValueError as error:
            log.append(str(error))
            result = "rescued"
        yield result

    add(manager, "bad", chosen=raising(ValueError("no")))
    add(manager, "w", chosen=ends_it_async if asynchronous else ends_it)
    add(manager, "outer", chosen=plain("o"))
    log: Log = []

    assert await manager.relay.chosen(log=log) == "o(rescued)"
    assert log == ["o>", "no", "<o"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("error", [False, True])
async def test_a_lost_result_is_an_error_that_names_the_plugin(asynchronous: bool, error: bool) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def loses(log: Log) -> Generator[None, Any, Any]:
        with contextlib.suppress(ValueError):
            yield

    @hookimpl(wrapper=True)
    async def loses_async(log: Log) -> AsyncGenerator[Any, Any]:
        try:
            yield
        except ValueError:
            return
        yield None

    add(manager, "x", chosen=raising(ValueError("no")) if error else answering("x"))
    add(manager, "loser", chosen=loses_async if asynchronous else loses)

    with pytest.raises(HookError, match="the wrapper of the plugin loser") as caught:
        await manager.relay.chosen(log=[])
    assert ("ended an error" if error else "lost the result") in str(caught.value)
    assert caught.value.__notes__ == ["raised by chosen of the plugin 'loser'"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_in_a_hook_that_does_not_decide_there_is_no_result_to_lose(asynchronous: bool) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def around(log: Log) -> Generator[None, Any, Any]:
        try:
            yield
        except ValueError as error:
            log.append(str(error))

    @hookimpl(wrapper=True)
    async def around_async(log: Log) -> AsyncGenerator[Any, Any]:
        try:
            yield
        except ValueError as error:
            log.append(str(error))

    @hookimpl
    def before() -> None:
        raise ValueError("no")

    add(manager, "bad", before=before)
    add(manager, "w", before=around_async if asynchronous else around)
    log: Log = []

    assert await manager.relay.before(log=log) is None
    assert log == ["no"]


async def test_the_second_wrappers_setup_raises() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def outer(log: Log) -> Generator[None, Any, Any]:
        try:
            result = yield
        except ValueError as error:
            log.append(error.__notes__)
            raise
        return result

    @hookimpl(wrapper=True)
    async def bad() -> AsyncGenerator[Any, Any]:
        await trio.lowlevel.checkpoint()
        raise ValueError("setup")
        yield

    add(manager, "x", chosen=answering("x"))
    add(manager, "bad", chosen=bad)
    add(manager, "outer", chosen=outer)
    log: Log = []

    with pytest.raises(ValueError, match="setup"):
        await manager.relay.chosen(log=log)
    assert log == [["raised by chosen of the plugin 'bad'"]]


async def test_a_wrapper_may_raise_another_error() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def changes() -> Generator[None, Any, Any]:
        try:
            yield
        except ValueError as error:
            raise KeyError("other") from error

    add(manager, "bad", chosen=raising(ValueError("no")))
    add(manager, "w", chosen=changes)

    with pytest.raises(KeyError) as caught:
        await manager.relay.chosen(log=[])
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__notes__ == ["raised by chosen of the plugin 'w'"]
    assert caught.value.__cause__.__notes__ == ["raised by chosen of the plugin 'bad'"]


async def test_yielding_too_often_or_not_at_all_is_an_error() -> None:
    @hookimpl(wrapper=True)
    def twice() -> Generator[None, Any, Any]:
        yield
        yield

    @hookimpl(wrapper=True)
    async def thrice() -> AsyncGenerator[Any, Any]:
        yield
        yield 1
        yield 2

    @hookimpl(wrapper=True)
    def never() -> Generator[None, Any, Any]:
        if False:
            yield

    @hookimpl(wrapper=True)
    async def never_async() -> AsyncGenerator[Any, Any]:
        if False:
            yield

    cases = [(twice, "twice"), (thrice, "three times"), (never, "did not yield"), (never_async, "did not yield")]
    for function, said in cases:
        manager = managed(Hooks)
        add(manager, "x", chosen=answering("x"))
        add(manager, "w", chosen=function)
        with pytest.raises(HookError, match=said):
            await manager.relay.chosen(log=[])
    gc.collect()  # a generator that was left open would warn


async def test_teardown_when_cancelled_and_cancelled_again_in_it() -> None:
    manager = managed(Hooks)

    @hookimpl
    async def chosen() -> None:
        await trio.sleep_forever()

    @hookimpl(wrapper=True)
    async def inner(log: Log) -> AsyncGenerator[Any, Any]:
        try:
            yield
        finally:
            log.append("inner")
            await trio.lowlevel.checkpoint()  # is cancelled again

    @hookimpl(wrapper=True)
    def outer(log: Log) -> Generator[None, Any, Any]:
        try:
            result = yield
        except trio.Cancelled:
            log.append("outer")
            raise
        return result

    add(manager, "waits", chosen=chosen)
    add(manager, "inner", chosen=inner)
    add(manager, "outer", chosen=outer)
    log: Log = []

    with trio.move_on_after(0) as scope:
        await manager.relay.chosen(log=log)
    assert scope.cancelled_caught
    assert log == ["inner", "outer"]


async def test_cancelled_inside_a_wrappers_setup() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def waits() -> AsyncGenerator[Any, Any]:
        await trio.sleep_forever()
        yield

    @hookimpl(wrapper=True)
    async def outer(log: Log) -> AsyncGenerator[Any, Any]:
        try:
            yield
        except BaseException as error:
            log.append(type(error))
            raise

    add(manager, "x", chosen=answering("x"))
    add(manager, "waits", chosen=waits)
    add(manager, "outer", chosen=outer)
    log: Log = []

    with trio.move_on_after(0) as scope:
        await manager.relay.chosen(log=log)
    assert scope.cancelled_caught
    assert log == [trio.Cancelled]


@pytest.mark.parametrize("how", ["answers", "raises"])
async def test_a_cancellation_from_outside_is_not_a_wrappers_to_end(how: str) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    def swallows() -> Generator[None, Any, Any]:
        try:
            result = yield
        except trio.Cancelled:
            if how == "raises":
                raise ValueError("instead") from None
            return "swallowed"
        return result

    @hookimpl
    async def chosen() -> None:
        await trio.sleep_forever()

    add(manager, "waits", chosen=chosen)
    add(manager, "w", chosen=swallows)

    with trio.move_on_after(0) as scope:
        await manager.relay.chosen(log=[])
        pytest.fail("the cancellation was lost")
    assert scope.cancelled_caught


async def test_a_wrapper_may_hold_a_cancel_scope_across_its_yield(autojump_clock: MockClock) -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def bounded() -> AsyncGenerator[Any, Any]:
        result = "too slow"
        with trio.move_on_after(2):
            result = yield
        yield result

    @hookimpl
    async def chosen() -> None:
        await trio.sleep_forever()

    add(manager, "waits", chosen=chosen)
    add(manager, "bound", chosen=bounded)

    assert await manager.relay.chosen(log=[]) == "too slow"


async def test_a_wrapper_may_hold_a_nursery_across_its_yield() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def beside(log: Log) -> AsyncGenerator[Any, Any]:
        async def work() -> None:
            log.append("works")
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            result = yield
            nursery.cancel_scope.cancel()
        yield result

    @hookimpl
    async def chosen(log: Log) -> str:
        await trio.testing.wait_all_tasks_blocked()
        return f"{log}"

    add(manager, "x", chosen=chosen)
    add(manager, "w", chosen=beside)

    assert await manager.relay.chosen(log=[]) == "['works']"


async def test_an_error_in_the_nursery_of_a_wrapper_stops_the_inner_call() -> None:
    manager = managed(Hooks)

    @hookimpl(wrapper=True)
    async def beside() -> AsyncGenerator[Any, Any]:
        async def work() -> None:
            raise ValueError("in the nursery")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            result = yield
        yield result

    @hookimpl
    async def chosen() -> None:
        await trio.sleep_forever()

    add(manager, "waits", chosen=chosen)
    add(manager, "w", chosen=beside)

    with pytest.raises(ExceptionGroup) as caught:
        await manager.relay.chosen(log=[])
    assert caught.group_contains(ValueError, match="in the nursery")


async def test_no_generator_is_left_open() -> None:
    manager = managed(Hooks)
    add(manager, "bad", chosen=raising(ValueError("no")))
    for name in "abc":
        add(manager, name, chosen=awaiting(name))

    with pytest.raises(ValueError, match="no"):
        await manager.relay.chosen(log=[])
    gc.collect()  # trio warns of an async generator that was not run to its end


async def test_an_error_does_not_keep_the_call_alive() -> None:
    class Held(list[Any]):
        pass

    @hookimpl
    def chosen() -> None:
        raise ValueError("no")

    manager = managed(Hooks)
    add(manager, "bad", chosen=chosen)
    add(manager, "w", chosen=plain("w"))
    held = Held()
    reference = weakref.ref(held)

    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            await manager.relay.chosen(log=held)
        del held
        assert reference() is None
    finally:
        gc.enable()
