"""Traces: each decision of a plugin is timed, attributed and recorded."""

from __future__ import annotations

import time
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol

import attrs
import pytest
import trio
from trio.testing import MockClock

from dsh import Allow, Ask, CallConfig, Deny, GiveUp, Process, Stop, gate, hookimpl, hookspec, tool
from dsh.hooks import PluginManager, Settings, Trace
from dsh.session.events import HookDecision
from dsh.testing import call, memory_agent, shape, text


class Hooks(Protocol):
    @hookspec
    def told(self) -> None: ...

    @hookspec
    async def before(self) -> None: ...

    @hookspec(settle=True)
    async def ended(self) -> None: ...

    @hookspec(firstresult=True)
    async def chosen(self, config: Any) -> Any: ...

    @gate
    async def may_run(self) -> Any: ...


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


def traced(**options: Any) -> tuple[PluginManager, list[Trace]]:
    traces: list[Trace] = []
    return managed(Hooks, Settings(on_trace=traces.append, **options)), traces


def acts(traces: list[Trace]) -> list[tuple[Any, ...]]:
    return [(act.plugin, act.verdict, act.reason, act.changed) for trace in traces for act in trace.acts]


async def test_an_answer_is_traced_and_silence_is_not() -> None:
    manager, traces = traced()
    add(manager, "answers", chosen=hookimpl(lambda: 3))
    add(manager, "silent", chosen=hookimpl(lambda: None))

    await manager.relay.chosen(config=1)
    assert acts(traces) == [("answers", "answered", None, None)]
    assert traces[0].hook == "chosen"
    assert traces[0].arguments == {"config": 1}


async def test_the_default_leaves_no_trace() -> None:
    manager, traces = traced()
    add(manager, "silent", chosen=hookimpl(lambda: None))

    assert await manager.relay.chosen(config=1, default=lambda: 7) == 7
    assert traces == []
    assert [name for name, _ in manager.settings.ring] == ["chosen"]


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        (Stop(), "stop", None),
        (GiveUp(), "giveup", None),
        (Deny("why"), "deny", "why"),
        (CallConfig("m"), "answered", None),
    ],
)
async def test_decisions_go_by_their_name(answer: Any, verdict: str, reason: str | None) -> None:
    manager, traces = traced()
    add(manager, "p", chosen=hookimpl(lambda: answer))

    await manager.relay.chosen(config=1)
    assert acts(traces) == [("p", verdict, reason, None)]


async def test_an_error_is_traced() -> None:
    manager, traces = traced()

    @hookimpl
    def chosen() -> None:
        raise ValueError("oops")

    add(manager, "p", chosen=chosen)
    with pytest.raises(ValueError, match="oops"):
        await manager.relay.chosen(config=1)
    assert acts(traces) == [("p", "raised", "ValueError: oops", None)]


async def test_a_changed_value_says_which_fields() -> None:
    manager, traces = traced()

    @hookimpl(wrapper=True)
    def cheaper() -> Generator[None, Any, Any]:
        config = yield
        return attrs.evolve(config, model="cheap", max_tokens=10)

    @hookimpl(wrapper=True)
    async def equal() -> AsyncGenerator[Any, Any]:
        config = yield
        yield attrs.evolve(config)

    @hookimpl(wrapper=True)
    def another() -> Generator[None, Any, Any]:
        yield
        return "something else"

    add(manager, "x", chosen=hookimpl(lambda config: config))
    add(manager, "cheaper", chosen=cheaper)
    add(manager, "equal", chosen=equal)
    add(manager, "another", chosen=another)

    await manager.relay.chosen(config=CallConfig("dear"))
    assert acts(traces) == [
        ("x", "answered", None, None),
        ("cheaper", "changed", None, ("model", "max_tokens")),
        ("another", "changed", None, ()),
    ]


async def test_traces_see_results_and_no_coroutines() -> None:
    manager, traces = traced()

    @hookimpl
    async def chosen() -> CallConfig:
        await trio.lowlevel.checkpoint()
        return CallConfig("m")

    @hookimpl(wrapper=True)
    def sees() -> Generator[None, Any, Any]:
        result = yield
        assert result == CallConfig("m")
        return result

    add(manager, "p", chosen=chosen)
    add(manager, "w", chosen=sees)
    await manager.relay.chosen(config=1)
    assert acts(traces) == [("p", "answered", None, None)]


async def test_the_time_is_the_plugins_own() -> None:
    manager, traces = traced()

    @hookimpl
    def chosen() -> int:
        time.sleep(0.02)
        return 1

    @hookimpl(wrapper=True)
    def around() -> Generator[None, Any, Any]:
        yield
        return 2

    @hookimpl
    async def may_run() -> Ask:
        chosen()
        return Ask("?")

    @hookimpl(wrapper=True)
    def approves() -> Generator[None, Any, Any]:
        yield
        return Allow()

    @hookimpl(wrapper=True)
    async def doubts() -> AsyncGenerator[Any, Any]:
        yield
        yield Deny("no")

    add(manager, "slow", chosen=chosen, may_run=may_run)
    add(manager, "quick", chosen=around, may_run=approves)
    add(manager, "quick too", may_run=doubts)
    await manager.relay.chosen(config=1)
    await manager.relay.may_run()

    times = [(act.plugin, act.ms >= 20) for trace in traces for act in trace.acts]
    assert times == [("slow", True), ("quick", False), ("slow", True), ("quick", False), ("quick too", False)]


async def test_every_other_call_is_kept_in_the_ring() -> None:
    manager, traces = traced()
    add(
        manager,
        "p",
        **{name: hookimpl(lambda: None) for name in ("told", "before", "ended", "chosen", "may_run")},
    )
    manager.relay.told()
    await manager.relay.before()
    await manager.relay.ended()
    await manager.relay.chosen(config=1)
    await manager.relay.may_run()

    assert [name for name, _ in manager.settings.ring] == ["told", "before", "ended", "chosen", "may_run"]
    assert all(ms >= 0 for _, ms in manager.settings.ring)
    assert traces == []


async def test_a_hook_nobody_implements_is_not_kept() -> None:
    manager, _ = traced()
    manager.relay.told()
    await manager.relay.before()
    await manager.relay.may_run()

    assert list(manager.settings.ring) == []


async def test_the_ring_has_an_end() -> None:
    manager, _ = traced()
    add(manager, "p", told=hookimpl(lambda: None))
    for _ in range(1100):
        manager.relay.told()

    assert len(manager.settings.ring) == 1000


async def test_without_traces_nothing_is_kept_and_the_rules_hold() -> None:
    manager, traces = traced(trace=False)
    add(manager, "p", told=hookimpl(lambda: None), chosen=hookimpl(lambda: 1), may_run=hookimpl(lambda: Ask("?")))

    manager.relay.told()
    assert await manager.relay.chosen(config=1) == 1
    assert isinstance(await manager.relay.may_run(), Deny)
    assert traces == []
    assert list(manager.settings.ring) == []


@pytest.mark.parametrize("hook", ["told", "before", "ended", "chosen", "may_run"])
@pytest.mark.parametrize("wraps", [False, True])
async def test_a_blocking_implementation_is_reported_once(hook: str, wraps: bool) -> None:
    reports: list[tuple[str, str, bool]] = []
    manager, _ = traced(on_slow=lambda plugin, hook, seconds: reports.append((plugin, hook, seconds > 0.1)))

    def blocks() -> None:
        time.sleep(0.11)

    @hookimpl(wrapper=True)
    def around() -> Generator[None, Any, Any]:
        time.sleep(0.11)
        return (yield)

    add(manager, "blocks", **{hook: around if wraps else hookimpl(blocks)})
    add(manager, "quick", **{hook: hookimpl(lambda: None)})
    for _ in range(2):
        result = getattr(manager.relay, hook)(**({"config": 1} if hook == "chosen" else {}))
        if result is not None:
            await result

    assert reports == [("blocks", hook, True)]


async def test_an_implementation_that_awaits_is_not_reported(autojump_clock: MockClock) -> None:
    reports: list[Any] = []
    manager, _ = traced(on_slow=lambda *report: reports.append(report))

    @hookimpl
    async def before() -> None:
        await trio.sleep(10)

    add(manager, "waits", before=before)
    await manager.relay.before()
    assert reports == []


async def test_the_echo_prints_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    manager, _ = traced(echo=True)

    @hookimpl
    def ended() -> None:
        raise ValueError("oops")

    add(manager, "b", told=hookimpl(lambda: None), chosen=hookimpl(lambda: "x" * 300), ended=ended)
    add(manager, "a", told=hookimpl(lambda: None), may_run=hookimpl(lambda: Deny("no")))
    manager.relay.told()
    await manager.relay.before()
    await manager.relay.chosen(config=1)
    await manager.relay.may_run()
    with pytest.raises(ValueError, match="oops"):
        await manager.relay.ended()

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # a hook nobody implements is not printed
    assert lines[0].startswith("hook told [a, b] ")
    assert lines[0].endswith(" ms -> None")
    assert lines[1].startswith("hook chosen [b] ")
    assert lines[1].endswith("xxx...")
    assert lines[2].endswith("-> Deny(reason='no', unanswered=False)")
    assert lines[3].endswith("-> ValueError('oops')")


# -- in the log


@tool
def noop() -> str:
    """Do nothing."""
    return "done"


def plugin(name: str, **functions: Callable[..., Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(functions)
    return module


async def test_a_decision_is_logged_with_its_place() -> None:
    guard = plugin(
        "guard",
        tools_register=hookimpl(lambda tools: tools.add(noop)),
        tools_pre_execute=hookimpl(lambda: Deny("not today")),
    )
    async with memory_agent(call("noop"), text("ok"), plugins={"guard": guard}) as agent:
        await agent.run("go")
        (decision,) = [event.data for event in agent.session.events if isinstance(event.data, HookDecision)]

    assert (decision.hook, decision.plugin, decision.version) == ("tools_pre_execute", "guard", "")
    assert (decision.verdict, decision.reason, decision.changed) == ("deny", "not today", None)
    assert (decision.turn, decision.step, decision.call_id) == (1, 1, "c1")
    assert decision.ms >= 0


async def test_calls_without_a_turn_or_a_session_leave_nothing_in_the_log() -> None:
    chooses = plugin("chooses", process_prepare=hookimpl(lambda process: process))
    async with memory_agent(text("ok"), plugins={"chooses": chooses}) as agent:
        process = Process(("true",), {}, "/")
        await agent.hook.process_prepare(agent=agent, process=process)
        await agent.hook.process_prepare(agent=None, process=process)
        assert list(agent.session.events) == []


async def test_secrets_in_reasons_are_masked() -> None:
    guard = plugin(
        "guard",
        secrets_register=hookimpl(lambda secrets: secrets.add("hunter2hunter2", "PASSWORD")),
        tools_pre_execute=hookimpl(lambda call: Deny(f"no {call.name} with hunter2hunter2")),
    )
    async with memory_agent(call("noop"), text("ok"), plugins={"guard": guard}) as agent:
        await agent.run("go")
        assert "D(guard deny)" in shape(agent.session.events)
        assert "hunter2" not in "".join(str(event.data) for event in agent.session.events)
