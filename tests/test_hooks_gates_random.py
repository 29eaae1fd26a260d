"""Gates, whatever is registered: a failure or a denial never becomes a yes."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from dsh import Allow, Ask, Deny, gate, hookimpl
from dsh.hooks import Act, PluginManager, Settings

ANSWERS = ("none", "allow", "ask", "deny", "raise", "late", "swallows", "wrong")
FINAL = ("deny", "raise", "late", "swallows", "wrong")
CHANGES = ("pass", "resolve", "undo", "tighten", "ask", "lose", "raise early", "raise", "late early", "late", "catch")


class Hooks(Protocol):
    @gate
    async def may_run(self, x: Any) -> Any: ...


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


async def answer(kind: str) -> Any:
    await trio.lowlevel.checkpoint()
    if kind == "raise":
        raise ValueError("oops")
    if kind == "late":
        await trio.sleep(100)
    if kind == "swallows":
        try:
            await trio.sleep(100)
        except trio.Cancelled:
            return Allow()
    return {"none": None, "allow": Allow(), "ask": Ask("?"), "deny": Deny("no"), "wrong": True}.get(kind)


def implementation(kind: str, heard: list[Any]) -> Callable[..., Any]:
    def plain(x: Any) -> Any:
        heard.append(x)
        return answer(kind)

    async def awaiting(x: Any) -> Any:
        heard.append(x)
        return await answer(kind)

    return hookimpl(plain if len(kind) % 2 else awaiting)


def changed(kind: str, verdict: Any) -> Any:
    if kind == "raise":
        raise ValueError("oops")
    if kind == "resolve" and isinstance(verdict, Ask):
        return Allow()
    made = {"undo": Allow(), "tighten": Deny("tightened"), "ask": Ask("again"), "lose": None}
    return made.get(kind, verdict)


def wrapper(kind: str, plain: bool) -> Callable[..., Any]:
    def around() -> Generator[None, Any, Any]:
        if kind == "raise early":
            raise ValueError("oops")
        try:
            verdict = yield
        except BaseException:
            if kind == "catch":
                return Allow()
            raise
        return changed(kind, verdict)

    async def around_async() -> AsyncGenerator[Any, Any]:
        if kind == "raise early":
            raise ValueError("oops")
        if kind == "late early":
            await trio.sleep(100)
        try:
            verdict = yield
        except BaseException:
            if kind != "catch":
                raise
            verdict = Allow()
        if kind == "late":
            await trio.sleep(100)
        yield changed(kind, verdict)

    return hookimpl(wrapper=True)(around if plain and "late" not in kind else around_async)


plans = st.lists(st.sampled_from(ANSWERS), max_size=5)
frames = st.lists(st.tuples(st.sampled_from(CHANGES), st.booleans()), max_size=4)


@settings(max_examples=200, deadline=None)
@given(answers=plans, wrappers=frames, cancelled=st.booleans())
def test_no_failure_and_no_denial_becomes_a_yes(
    answers: list[str], wrappers: list[tuple[str, bool]], cancelled: bool
) -> None:
    heard: list[Any] = []
    acts: list[Act] = []
    x = object()
    manager = managed(Hooks, Settings(deadline=5, on_trace=lambda trace: acts.extend(trace.acts)))
    for number, kind in reversed(list(enumerate(answers))):
        add(manager, f"i{number}", may_run=implementation(kind, heard))
    for number, (kind, plain) in reversed(list(enumerate(wrappers))):
        add(manager, f"w{number}", may_run=wrapper(kind, plain))

    async def main() -> Any:
        with trio.CancelScope() as turn:
            if cancelled:
                turn.cancel()
            return await manager.relay.may_run(x=x)
        return "cancelled"

    verdict = trio.run(main, clock=MockClock(autojump_threshold=0))

    kinds = [kind for kind, _ in wrappers]
    asked = not any(kind in ("raise early", "late early") for kind in kinds)
    if cancelled and answers and asked:
        assert verdict == "cancelled"  # each implementation has a checkpoint
    if verdict == "cancelled":
        assert not any(act.verdict == "late" for act in acts)
        return
    assert isinstance(verdict, Allow | Deny)
    assert all(item is x for item in heard)
    until = next((number + 1 for number, kind in enumerate(answers) if kind in FINAL), len(answers))
    assert len(heard) == (until if asked else 0)
    failed = not asked or any(kind in FINAL for kind in answers)
    broken = any(kind in ("raise", "lose", "late", "tighten") for kind in kinds)
    if failed or broken:
        assert isinstance(verdict, Deny)
    elif "ask" not in answers and not set(kinds) & {"ask"}:
        assert verdict == Allow()
    if isinstance(verdict, Allow):
        assert not any(act.verdict in ("deny", "raised", "late") for act in acts)
