"""Messages that arrive while a turn runs, and context that asks no model."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.agents import Agent
from dsh.errors import AgentError
from dsh.jsonvalue import NotJson
from dsh.messages import HookContext, OtherBlock, PluginSource, Text
from dsh.session import events as ev
from dsh.testing import ScriptedModel, call, hang, memory_agent, on_event, plugin_of, shape, text, tool_of

SOURCE = PluginSource("notes")


async def test_steering_from_a_tool_stands_behind_its_result() -> None:
    """B01."""
    model = ScriptedModel(call("work"), text("ok"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(tool_of("work", lambda _: agent.steer("left")))
        await agent.run("go")
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) C×6 A TC(c1) TR(c1) ST S-1 S+2 C×6 A S-2 T-(completed)"
        )
        assert model.requests[1].messages[-1].content == (
            *(Text('<steering source="user">'), Text("left"), Text("</steering>")),
        )


async def test_steering_keeps_a_finished_turn_going() -> None:
    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(on_event(ev.AssistantChunk, lambda _: agent.steer("more")))
        await agent.run("go")
        assert shape(agent.session.events) == ("T+1 U S+1 H(initial) C×5 A ST S-1 S+2 C×5 A S-2 T-(completed)")


async def test_steering_an_idle_agent_is_sending() -> None:
    """B02."""
    heard: list[bool] = []
    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(agent_queued=lambda steering: heard.append(steering)))
        agent.steer("go")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"
        assert heard == [False]


async def test_queued_tells_of_steering() -> None:
    heard: list[tuple[bool, str]] = []
    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(
            plugin_of(agent_queued=lambda steering, content: heard.append((steering, content[0].text)))
        )
        agent.plugins.register(on_event(ev.StepStart, lambda _: agent.steer("more")))
        await agent.run("go")
        assert heard == [(False, "go"), (True, "more")]


async def test_steering_while_the_continuation_says_stop_makes_a_step() -> None:
    """B04."""
    steered = False

    def continuation() -> None:
        nonlocal steered
        if not steered:
            steered = True
            agent.steer("wait")

    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=continuation))
        await agent.run("go")
        assert shape(agent.session.events) == ("T+1 U S+1 H(initial) C×5 A S-1 ST S+2 C×5 A S-2 T-(completed)")


async def test_steering_behind_the_end_of_a_turn_makes_the_next_one() -> None:
    """B05."""
    statuses: list[str] = []
    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        agent.plugins.register(on_event(ev.TurnEnd, lambda _: agent.steer("more")))
        await agent.run("go")
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) C×5 A S-1 T-(completed) T+2 U S+1 C×5 A S-1 T-(completed)"
        )
        assert statuses == ["running", "idle"]


async def test_steering_during_the_flush_is_not_lost() -> None:
    flushes = 0

    async def flush() -> None:
        nonlocal flushes
        flushes += 1
        if flushes == 1:
            agent.steer("late")
        await trio.lowlevel.checkpoint()

    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(session_flush=flush))
        await agent.run("go")
        assert "T-(completed) T+2 U S+1" in shape(agent.session.events)


async def test_a_cancel_drops_what_was_to_steer() -> None:
    """B08."""
    async with memory_agent(hang()) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.steer("left")
        agent.cancel()
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 A~ S-1 T-(aborted cancelled)"


async def test_steering_survives_a_failing_step_as_the_next_turn() -> None:
    def step_result() -> None:
        agent.steer("left")
        raise RuntimeError("no")

    async with memory_agent(text("a"), text("b")) as agent:
        plugin = plugin_of(agent_step_result=step_result)
        agent.plugins.register(plugin)
        agent.plugins.register(on_event(ev.TurnEnd, lambda _: agent.plugins.unregister(plugin)))
        await agent.run("go")
        assert "T-(error 1) T+2 U S+1 C×5 A S-1 T-(completed)" in shape(agent.session.events)


# -- inject


async def test_context_from_a_tool_stands_in_the_turn() -> None:
    """B10."""
    async with memory_agent(call("work"), text("ok")) as agent:
        agent.plugins.register(tool_of("work", lambda _: agent.inject("note", SOURCE)))
        await agent.run("go")
        assert "A TC(c1) CX TR(c1) S-1" in shape(agent.session.events)
        assert agent.session.last_turn == 1


async def test_context_for_an_idle_agent_is_a_turn_of_its_own() -> None:
    statuses: list[str] = []
    model = ScriptedModel(text("a"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        agent.inject("note", SOURCE)
        assert shape(agent.session.events) == "T+1 CX T-(completed)"
        assert agent.session.events[0].data.trigger == ev.Trigger("injection", SOURCE)
        assert statuses == []
        await agent.run("go")
        assert shape(agent.session.events).endswith("T+2 U S+1 H(initial) C×5 A S-1 T-(completed)")
        context, asked = model.requests[0].messages
        assert context.content == (Text('<context source="plugin">'), Text("note"), Text("</context>"))
        assert asked.content == (Text("go"),)


async def test_an_idle_injection_is_flushed_behind_the_callers_back() -> None:
    flushed: list[int] = []
    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(session_flush=lambda session: flushed.append(len(session.events))))
        agent.inject("note", SOURCE)
        assert flushed == []
        await trio.testing.wait_all_tasks_blocked()
        assert flushed == [3]


async def test_disposing_waits_for_the_flush_of_an_injection() -> None:
    flushed: list[int] = []

    async def flush() -> None:
        await trio.lowlevel.checkpoint()
        flushed.append(1)

    async with memory_agent() as agent:
        harness = agent.harness
        handle = harness.create_agent()
        handle.agent.plugins.register(plugin_of(session_flush=flush))
        handle.agent.inject("note", SOURCE)
        await handle.dispose()
        assert flushed == [1]


async def test_a_failing_flush_of_an_injection_reaches_nobody_but_the_listeners() -> None:
    """B14."""
    warnings: list[str] = []
    errors: list[tuple[int, int, str]] = []

    def flush() -> None:
        raise OSError("disk full")

    async with memory_agent(warnings=warnings) as agent:
        agent.plugins.register(
            plugin_of(
                session_flush=flush,
                agent_error=lambda turn, step, error: errors.append((turn, step, str(error))),
            )
        )
        agent.inject("note", SOURCE)
        await trio.testing.wait_all_tasks_blocked()
        assert errors == [(1, 0, "disk full")]
        assert any("disk full" in warning for warning in warnings)
        assert shape(agent.session.events) == "T+1 CX T-(completed)"


async def test_a_source_that_is_no_json_logs_nothing() -> None:
    """B13."""
    async with memory_agent() as agent:
        with pytest.raises(NotJson):
            agent.inject("note", object())  # type: ignore[arg-type]  # that is the point
        assert shape(agent.session.events) == ""


async def test_content_that_is_no_json_is_refused_where_it_is_made() -> None:
    with pytest.raises(NotJson):
        OtherBlock({"x": float("nan")})


@pytest.mark.parametrize(
    ("kind", "logged"),
    [(ev.TurnStart, "T+1 T-(completed)"), (ev.ContextMessage, "T+1 CX T-(completed)")],
)
async def test_an_error_of_a_listener_reaches_who_injects_and_the_turn_is_closed(kind: type, logged: str) -> None:
    def fail(event: ev.Event) -> None:
        raise RuntimeError("no")

    async with memory_agent() as agent:
        agent.plugins.register(on_event(kind, fail))
        with pytest.raises(RuntimeError, match="no"):
            agent.inject("note", SOURCE)
        assert shape(agent.session.events) == logged


async def test_an_error_at_the_end_of_an_injection_is_a_warning() -> None:
    def fail(event: ev.Event) -> None:
        raise RuntimeError("at the end")

    warnings: list[str] = []
    async with memory_agent(warnings=warnings) as agent:
        agent.plugins.register(on_event(ev.TurnEnd, fail))
        agent.inject("note", SOURCE)
        assert shape(agent.session.events) == "T+1 CX T-(completed)"
        assert any("at the end" in warning for warning in warnings)


async def test_the_log_decides_whether_an_injection_opens_a_turn() -> None:
    """B11.  Right at a turn's end the agent still runs, but nothing is open any more."""
    async with memory_agent(text("a")) as agent:
        agent.plugins.register(on_event(ev.TurnEnd, lambda _: agent.inject("note", SOURCE)))
        await agent.run("go")
        assert shape(agent.session.events).endswith("T-(completed) T+2 CX T-(completed)")


async def test_context_from_session_start_is_the_first_turn() -> None:
    """B16."""
    model = ScriptedModel(text("a"))
    starter = plugin_of(agent_session_start=lambda agent: agent.inject("note", SOURCE))
    async with memory_agent(model=model, plugins={"starter": starter}) as agent:
        result = await agent.run("go")
        assert result.turn == 2
        assert len(model.requests[0].messages) == 2


async def test_context_behind_the_boundary_is_in_the_next_request() -> None:
    """B17."""
    model = ScriptedModel(text("a"), text("b"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(on_event(ev.StepStart, lambda _: None))
        injected: list[Agent] = []

        def agent_request() -> None:
            if not injected:
                injected.append(agent)
                agent.inject("note", SOURCE)

        agent.plugins.register(plugin_of(agent_request=agent_request))
        await agent.run("one")
        assert "S+1 CX H(initial)" in shape(agent.session.events)
        await agent.run("two")
        assert [len(request.messages) for request in model.requests] == [1, 4]


async def test_verbs_of_a_disposed_agent_are_refused() -> None:
    async with memory_agent() as agent:
        handle = agent.harness.create_agent(agent_id="gone")
        await handle.dispose()
        gone = handle.agent
        with pytest.raises(AgentError, match="'gone' is disposed"):
            gone.send("x")
        with pytest.raises(AgentError, match="'gone' is disposed"):
            gone.steer("x")
        with pytest.raises(AgentError, match="'gone' is disposed"):
            gone.inject("x", SOURCE)
        with pytest.raises(AgentError, match="disposed"):
            await gone.run("x")
        gone.cancel()
        await gone.when_idle()


async def test_an_error_of_a_queued_listener_reaches_the_sender_and_the_message_stays() -> None:
    def queued() -> None:
        raise RuntimeError("no")

    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(agent_queued=queued))
        with pytest.raises(RuntimeError, match="no"):
            agent.send("go")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"


async def test_context_of_a_plugin_says_whose_it_is() -> None:
    context = HookContext("note", SOURCE)
    async with memory_agent() as agent:
        agent.inject(context.content, context.source)
        assert agent.session.events[1].data.source == SOURCE
