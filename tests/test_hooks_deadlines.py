"""Deadlines of gates: late is late, whatever an implementation does about it."""

from __future__ import annotations

import contextlib
import time
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import pytest
import trio
from trio.testing import MockClock

from dsh import Accept, Allow, Ask, Block, Deny, gate, hookimpl
from dsh.hooks import Act, PluginManager, Settings
from dsh.hooks.half import Late


class Hooks(Protocol):
    @gate
    async def may_run(self, x: Any) -> Any: ...

    @gate(on_error="block")
    async def may_enter(self) -> Any: ...

    @gate(on_error="raise")
    async def reviewed(self) -> Any: ...


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


def traced(deadline: float | None = 60.0) -> tuple[PluginManager, list[Act]]:
    acts: list[Act] = []
    return managed(Hooks, Settings(deadline=deadline, on_trace=lambda trace: acts.extend(trace.acts))), acts


def sleeping(seconds: float, answer: Any = None, **options: Any) -> Callable[..., Any]:
    async def implementation() -> Any:
        await trio.sleep(seconds)
        return answer

    marked: Callable[..., Any] = hookimpl(**options)(implementation)
    return marked


def assert_late(verdict: Any, plugin: str, kind: type = Deny) -> None:
    assert isinstance(verdict, kind)
    assert f"the plugin {plugin} missed its deadline" in verdict.reason  # type: ignore[attr-defined]  # both have one


async def test_an_implementation_is_interrupted_at_its_deadline(autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)
    add(manager, "slow", may_run=sleeping(1000, Allow()))

    assert_late(await manager.relay.may_run(x=1), "slow")
    assert trio.current_time() == 5
    assert [(act.plugin, act.verdict) for act in acts] == [("slow", "late")]


async def test_just_in_time_is_in_time(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)
    add(manager, "quick", may_run=sleeping(4.9, Allow()))

    assert await manager.relay.may_run(x=1) == Allow()


async def test_each_implementation_has_its_own_time(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)
    for name in "abc":
        add(manager, name, may_run=sleeping(4, Allow()))

    assert await manager.relay.may_run(x=1) == Allow()
    assert trio.current_time() == 12


@pytest.mark.parametrize("named", [2.0, None])
async def test_an_implementation_may_name_its_own_deadline(named: float | None, autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)
    add(manager, "own", may_run=sleeping(1000, Allow(), deadline=named))

    verdict = await manager.relay.may_run(x=1)
    if named is None:
        assert verdict == Allow()
        assert trio.current_time() == 1000
    else:
        assert_late(verdict, "own")
        assert trio.current_time() == 2


async def test_without_a_configured_deadline_nobody_is_late(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=None)
    add(manager, "slow", may_run=sleeping(100_000, Allow()))

    assert await manager.relay.may_run(x=1) == Allow()


@pytest.mark.parametrize("at_once", [False, True])
async def test_swallowing_the_cancellation_does_not_help(at_once: bool, autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)

    @hookimpl
    async def may_run() -> Allow:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()
        if not at_once:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)
        return Allow()

    add(manager, "stubborn", may_run=may_run)

    assert_late(await manager.relay.may_run(x=1), "stubborn")
    assert [act.verdict for act in acts] == ["late"]


async def test_a_scope_of_its_own_does_not_help(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)

    @hookimpl
    async def may_run() -> Allow:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return Allow()

    add(manager, "shielded", may_run=may_run)
    assert_late(await manager.relay.may_run(x=1), "shielded")


def block(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.parametrize("kind", ["plain", "hidden", "async"])
async def test_a_blocking_implementation_is_late_when_it_returns(kind: str) -> None:
    manager, acts = traced(deadline=0.02)

    @hookimpl
    def plain() -> Allow:
        block(0.03)
        return Allow()

    async def after() -> Allow:
        await trio.lowlevel.checkpoint()
        return Allow()

    @hookimpl
    def hidden() -> Any:
        block(0.03)
        return after()

    @hookimpl
    async def blocking() -> Allow:
        block(0.03)
        return Allow()

    add(manager, "blocks", may_run={"plain": plain, "hidden": hidden, "async": blocking}[kind])

    assert_late(await manager.relay.may_run(x=1), "blocks")
    assert [act.verdict for act in acts] == ["late"]


async def test_a_late_denial_is_a_denial_for_being_late(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)

    @hookimpl
    async def may_run() -> Deny:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()
        return Deny("mine")

    add(manager, "slow", may_run=may_run)
    assert_late(await manager.relay.may_run(x=1), "slow")


async def test_being_late_stops_the_others(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)
    heard: list[Any] = []
    add(manager, "never", may_run=hookimpl(lambda x: heard.append(x)))
    add(manager, "slow", may_run=sleeping(10))

    assert_late(await manager.relay.may_run(x=1), "slow")
    assert heard == []


async def test_a_late_prompt_gate_blocks_and_a_late_review_raises(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)
    add(manager, "slow", may_enter=sleeping(10), reviewed=sleeping(10, Accept()))

    assert_late(await manager.relay.may_enter(), "slow", Block)
    with pytest.raises(Late, match="missed its deadline of 5 s"):
        await manager.relay.reviewed()


# -- wrappers


async def test_the_time_inside_the_yield_is_not_the_wrappers(autojump_clock: MockClock) -> None:
    manager, _ = traced(deadline=5)

    @hookimpl(wrapper=True)
    async def around() -> AsyncGenerator[Any, Any]:
        await trio.sleep(2)
        verdict = yield
        await trio.sleep(2)
        yield verdict

    add(manager, "person", may_run=sleeping(1000, Allow(), deadline=None))
    add(manager, "w", may_run=around)
    add(manager, "w2", may_run=around)

    assert await manager.relay.may_run(x=1) == Allow()
    assert trio.current_time() == 1008


@pytest.mark.parametrize("halves", [(7, 0), (0, 7), (3, 3)])
async def test_both_halves_of_a_wrapper_count(halves: tuple[float, float], autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)
    seen: list[Any] = []
    heard: list[Any] = []

    @hookimpl(wrapper=True)
    async def slow() -> AsyncGenerator[Any, Any]:
        await trio.sleep(halves[0])
        verdict = yield
        await trio.sleep(halves[1])
        yield verdict

    @hookimpl(wrapper=True)
    def outer() -> Generator[None, Any, Any]:
        verdict = yield
        seen.append(verdict)
        return verdict

    add(manager, "x", may_run=hookimpl(lambda x: heard.append(x)))
    add(manager, "slow", may_run=slow)
    add(manager, "outer", may_run=outer)

    verdict = await manager.relay.may_run(x=1)
    assert_late(verdict, "slow")
    assert seen == [verdict]
    assert heard == ([] if halves[0] > 5 else [1])
    assert trio.current_time() == 5
    assert [act.verdict for act in acts] == ["late"]


@pytest.mark.parametrize("half", ["first", "second"])
@pytest.mark.parametrize("cleanup", ["none", "awaits", "raises"])
async def test_a_wrapper_that_swallows_its_deadline_is_late(half: str, cleanup: str, autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)
    heard: list[Any] = []

    @hookimpl(wrapper=True)
    async def stubborn() -> AsyncGenerator[Any, Any]:
        try:
            if half == "first":
                with contextlib.suppress(trio.Cancelled):
                    await trio.sleep_forever()
            yield
            with contextlib.suppress(trio.Cancelled):
                await trio.sleep_forever()
            yield Allow()
        finally:
            if cleanup == "awaits":
                await trio.sleep(100)
            if cleanup == "raises":
                raise ValueError("in the cleanup")

    add(manager, "x", may_run=hookimpl(lambda x: heard.append(x)))
    add(manager, "stubborn", may_run=stubborn)

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "stubborn" in verdict.reason
    assert heard == ([] if half == "first" else [1])
    assert len(acts) == 1
    await trio.lowlevel.checkpoint()  # nothing of the cancellation is left
    assert trio.current_time() == 5


@pytest.mark.parametrize("half", ["first", "second"])
async def test_a_blocking_plain_wrapper_is_late(half: str) -> None:
    manager, _ = traced(deadline=0.02)

    @hookimpl(wrapper=True)
    def blocks() -> Generator[None, Any, Any]:
        block(0.03 if half == "first" else 0)
        verdict = yield
        block(0.03 if half == "second" else 0)
        return verdict

    add(manager, "blocks", may_run=blocks)
    assert_late(await manager.relay.may_run(x=1), "blocks")


async def test_an_approver_waits_for_a_person_as_long_as_it_takes(autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)

    @hookimpl(wrapper=True, deadline=None)
    async def approver() -> AsyncGenerator[Any, Any]:
        verdict = yield
        if isinstance(verdict, Ask):
            await trio.sleep(3600)
            verdict = Allow()
        yield verdict

    add(manager, "asks", may_run=hookimpl(lambda: Ask("?")))
    add(manager, "approver", may_run=approver)

    assert await manager.relay.may_run(x=1) == Allow()
    assert [(act.plugin, act.verdict) for act in acts] == [("asks", "ask"), ("approver", "allow")]


async def test_late_inside_a_nursery_with_another_error_is_a_failure(autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)

    @hookimpl(wrapper=True)
    async def messy() -> AsyncGenerator[Any, Any]:
        async def fails_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("instead")

        verdict = yield
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_when_cancelled)
            nursery.start_soon(trio.sleep_forever)
        yield verdict

    add(manager, "messy", may_run=messy)

    verdict = await manager.relay.may_run(x=1)
    assert isinstance(verdict, Deny)
    assert "messy" in verdict.reason
    assert [act.verdict for act in acts] == ["raised"]
    await trio.lowlevel.checkpoint()


async def test_the_turn_is_cancelled_before_the_deadline(autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)
    add(manager, "slow", may_run=sleeping(1000))

    with trio.move_on_after(2) as turn:
        await manager.relay.may_run(x=1)
    assert turn.cancelled_caught
    assert trio.current_time() == 2
    assert acts == []


async def test_a_deadline_inside_a_cancelled_turn_is_a_cancellation(autojump_clock: MockClock) -> None:
    manager, acts = traced(deadline=5)
    add(manager, "slow", may_run=sleeping(1000))

    with trio.move_on_after(5) as turn:
        await manager.relay.may_run(x=1)
    assert turn.cancelled_caught
    assert acts == []
