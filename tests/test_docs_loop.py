"""docs/loop.md: the protocol it shows, and the scenarios it restates, are those of the loop."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

import dsh.loop
from dsh import Agent, AgentOptions, Text, ToolErrorInfo, ToolResult, hookimpl, tool
from dsh.agents import AgentHandle, AgentRequest
from dsh.errors import AgentError, PluginError
from dsh.hookspecs import Hooks
from dsh.loop.agent import LoopAgent
from dsh.session import events as ev
from dsh.session import interrupted_turn_closers
from dsh.testing import (
    ScriptedModel,
    call,
    hang,
    memory_agent,
    memory_harness,
    on_event,
    plugin_of,
    reply,
    shape,
    text,
)
from dsh.tools.tool import Tools

TEXT = (Path(__file__).parents[1] / "docs" / "loop.md").read_text(encoding="utf-8")
SHAPES = [line.strip() for line in TEXT.splitlines() if line.startswith("    T+1 ")]


@tool
def noop(a: int = 0) -> str:
    """Do nothing."""
    return f"done {a}"


@tool
async def slow() -> str:
    """Never end."""
    await trio.sleep_forever()
    return ""


class Bench:
    @hookimpl
    def tools_register(self, tools: Tools) -> None:
        tools.add(noop, slow)


BENCH: dict[str, object] = {"bench": Bench()}


def results(agent: Agent) -> list[ev.ToolResult]:
    return [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)]


def test_the_protocol_is_the_one_in_the_code() -> None:
    doc = inspect.getdoc(dsh.loop) or ""
    block = doc[doc.index("    agent_queued") : doc.index("One task drives")].rstrip()

    assert block in TEXT


def test_every_hook_of_a_turn_is_told_of() -> None:
    for name in vars(Hooks):
        if name.startswith(("agent_", "tools_", "prompt_")):
            assert name in TEXT, name


async def test_a10_arguments() -> None:
    """A10."""
    async with memory_agent(call("noop", ""), text("ok"), plugins=BENCH) as agent:
        await agent.run("go")
        assert results(agent)[0].content == (Text("done 0"),)
    for raw in ("not json", "[1]", '"text"'):
        async with memory_agent(call("noop", raw), text("ok"), plugins=BENCH) as agent:
            await agent.run("go")
            assert shape(agent.session.events) == SHAPES[0]
            (result,) = results(agent)
            assert result.error == ev.ErrorInfo("ToolArgsError", "INVALID_ARGS")
            assert raw in str(result.content)
            (called,) = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolCall)]
            assert called.arguments == raw


async def test_b07_a_bare_abort() -> None:
    """B07."""
    async with memory_agent(hang("x"), text("ok")) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.steer("faster")
        turn = cast(LoopAgent, agent).turn
        assert turn is not None
        turn.scope.cancel()
        await agent.when_idle()
        assert shape(agent.session.events) == SHAPES[1]


async def test_d02_the_prompt_gate_raises() -> None:
    """D02."""
    errors: list[Any] = []

    class Guard:
        @hookimpl
        def agent_prompt_submit(self, content: Any) -> None:
            if "bad" in str(content):
                raise ValueError("oops")

        @hookimpl
        def agent_error(self, error: BaseException) -> None:
            errors.append(error)

    async with memory_agent(text("ok"), plugins={"guard": Guard()}) as agent:
        await agent.run("bad")
        assert shape(agent.session.events).startswith(SHAPES[2].removesuffix(" ...)"))
        agent.send("bad")
        agent.send("good")
        await agent.when_idle()
        assert "T+2 D(guard raised) PB U S+1" in shape(agent.session.events)
    assert errors == []


async def test_d17_a_listener_raises_on_a_result() -> None:
    """D17."""

    class Listener:
        @hookimpl
        def session_event(self, event: ev.Event) -> None:
            if isinstance(event.data, ev.ToolResult) and event.data.call_id == "c1":
                raise ValueError("oops")

    script = reply(calls=[("c1", "noop", {}), ("c2", "noop", {})])
    async with memory_agent(script, plugins={**BENCH, "listener": Listener()}) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == SHAPES[3]
        assert results(agent)[1].error == ev.ErrorInfo("ToolAborted", "ABORTED_BEFORE_DISPATCH")


@pytest.mark.parametrize("reasons", [["x"], ["x", "y"], []])
async def test_e09_cancelled_while_the_answer_streams_in(reasons: list[str]) -> None:
    """E09."""
    async with memory_agent(hang("x")) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        if not reasons:
            agent.cancel()
        for reason in reasons:
            agent.cancel(reason)
        await agent.when_idle()
        expected = SHAPES[4] if reasons else SHAPES[4].replace("aborted x", "aborted cancelled")
        assert shape(agent.session.events) == expected


async def test_e14_disposed_by_a_listener() -> None:
    """E14."""
    async with memory_harness(hang("x")) as harness:
        handle = harness.create_agent(options=AgentOptions(model="scripted/model"))
        dispose = on_event(ev.StepStart, lambda _: harness.start_soon(handle.dispose))
        handle.agent.plugins.register(dispose)
        handle.agent.send("go")
        await handle.agent.when_idle()
        assert handle.agent.status == "disposed"
        assert shape(handle.agent.session.events) == SHAPES[5]


async def test_i02_who_makes_agents() -> None:
    """I02."""
    asked: list[str] = []

    def factory(name: str) -> object:
        class Factory:
            def create(self, request: AgentRequest) -> AgentHandle:
                raise AgentError(f"{name} makes no {request.agent_id}")

        def agent_factory() -> Factory:
            asked.append(name)
            return Factory()

        return plugin_of(agent_factory=agent_factory)

    async with memory_harness(plugins={"one": factory("one"), "two": factory("two")}) as harness:
        with pytest.raises(AgentError, match="two makes no x"):
            harness.create_agent(agent_id="x")
        assert asked == ["two"]
        with pytest.raises(PluginError, match="makes agents and cannot be unloaded"):
            await harness.unload("two")


async def test_g11_two_plugins_add_to_the_prefix() -> None:
    """G11."""

    class Adds:
        def __init__(self, *items: tuple[str, int]) -> None:
            self.items = items

        @hookimpl
        def agent_session_prefix(self, prefix: Any) -> None:
            for item, order in self.items:
                prefix.add(item, order=order)

    model = ScriptedModel(text("ok"))
    plugins = {"b": Adds(("b", 0), ("early", -1)), "a": Adds(("a1", 0), ("a0", 0))}
    async with memory_agent(model=model, plugins=plugins) as agent:
        await agent.run("go")
    said = [message.content[0].text for message in model.requests[0].messages]  # type: ignore[union-attr]  # all text
    assert said == ["early", "a1", "a0", "b", "go"]


async def test_h08_closing_the_log_of_a_program_that_died() -> None:
    """H08."""
    script = reply(calls=[("c1", "noop", {}), ("c2", "noop", {})])
    async with memory_agent(script, text("ok"), plugins=BENCH) as agent:
        await agent.run("go")
        whole = list(agent.session.events)
    first = next(event.seq for event in whole if isinstance(event.data, ev.ToolCall))

    for cut, known in ((first, False), (first + 1, True)):
        closers = interrupted_turn_closers(whole[:cut])
        one = closers[0]
        assert shape(closers) == "TR!(c1) TR!(c2) S-1 T-(interrupted)"
        assert one.data.error.code == ("TOOL_OUTCOME_UNKNOWN" if known else "TOOL_NOT_STARTED")
        assert one.source_event_seqs == ((first,) if known else None)
    assert interrupted_turn_closers(whole) == []


async def test_j10_a_budget_of_time() -> None:
    """J10."""

    class Budget:
        @hookimpl(wrapper=True)
        async def tools_execute(self) -> AsyncGenerator[Any, Any]:
            result = ToolResult(
                "Error: too slow", is_error=True, error=ToolErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")
            )
            with trio.move_on_after(0):
                result = yield
            yield result

    async with memory_agent(call("slow"), text("ok"), plugins={**BENCH, "budget": Budget()}) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == SHAPES[6]
        assert results(agent)[0].error == ev.ErrorInfo("ToolTimeoutError", "TOOL_TIMEOUT")


def raising() -> None:
    raise ValueError("oops")


@pytest.mark.parametrize(
    ("hook", "ends"),
    [
        ("prompt_sections", "T+1 U T-(error 1)"),
        ("prompt_variables", "T+1 U T-(error 1)"),
        ("tools_register", "T+1 U T-(error 1)"),
        ("prompt_assemble", "T+1 U D(bad raised) T-(error 1)"),
        ("agent_session_prefix", "T+1 U T-(error 1)"),
        ("agent_pre_step", "T+1 U T-(error 1)"),
        ("agent_request", "T+1 U S+1 D(bad raised) S-1 T-(error 1)"),
        ("llm_stream", "T+1 U S+1 H(initial) D(bad raised) S-1 T-(error 1)"),
        ("agent_turn_continuation", "A TC(c1) TR(c1) S-1 D(bad raised) T-(error 1)"),
        ("tools_pre_execute", "TC(c1) D(bad raised) TR!(c1) S-1 S+2 C×6 A S-2 T-(completed)"),
        ("tools_execute", "TC(c1) D(bad raised) TR!(c1) S-1 S+2 C×6 A S-2 T-(completed)"),
        ("tools_post_execute", "TC(c1) D(bad raised) TR!(c1) S-1 S+2 C×6 A S-2 T-(completed)"),
        ("agent_status", "T-(completed)"),
        ("agent_session_start", "T-(completed)"),
        ("agent_error", "T-(completed)"),
        ("session_flush", "T-(completed)"),
    ],
)
async def test_what_a_raising_hook_does(hook: str, ends: str) -> None:
    import types

    bad = types.ModuleType("bad")
    setattr(bad, hook, hookimpl(lambda: raising()))
    errors: list[tuple[int, int, str]] = []

    class Told:
        @hookimpl
        def agent_error(self, turn: int, step: int, error: BaseException) -> None:
            errors.append((turn, step, str(error)))

    warnings: list[str] = []
    plugins = {**BENCH, "bad": bad, "told": Told()}
    async with memory_agent(call("noop"), text("ok"), plugins=plugins, warnings=warnings) as agent:
        await agent.run("go")
        assert shape(agent.session.events).endswith(ends)
        if "error" in ends:
            assert errors == [(1, 1, "oops")]
        elif hook == "session_flush":
            assert errors == [(1, 2, "oops")]
        else:
            assert errors == []
    if hook in ("agent_status", "agent_session_start", "session_flush"):
        assert any("'bad'" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("turn/start", "T+1 T-(error 0)"),
        ("user/message", "T+1 U T-(error 0)"),
        ("step/start", "T+1 U S+1 S-1 T-(error 1)"),
        ("request/header", "T+1 U S+1 H(initial) S-1 T-(error 1)"),
        ("assistant/chunk", "H(initial) C×1 S-1 T-(error 1)"),
        ("assistant/message", "A TC(c1) TR!(c1) S-1 T-(error 1)"),
        ("tool/call", "A TC(c1) TR!(c1) S-1 T-(error 1)"),
        ("tool/result", "A TC(c1) TR(c1) S-1 T-(error 1)"),
        ("step/end", "A TC(c1) TR(c1) S-1 T-(error 1)"),
        ("turn/end", "S+2 C×6 A S-2 T-(completed)"),
    ],
)
async def test_what_a_raising_listener_does(kind: str, ends: str) -> None:
    class Listener:
        heard = False

        @hookimpl
        def session_event(self, event: ev.Event) -> None:
            if event.type == kind and not self.heard:
                self.heard = True
                raise ValueError("oops")

    warnings: list[str] = []
    plugins = {**BENCH, "bad": Listener()}
    async with memory_agent(call("noop"), text("ok"), plugins=plugins, warnings=warnings) as agent:
        await agent.run("go")
        assert shape(agent.session.events).endswith(ends)
    assert bool(warnings) == (kind == "turn/end")
