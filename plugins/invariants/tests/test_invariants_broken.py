"""Every promise, broken on purpose: the error comes where it was broken, and names the promise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, cast

import dsh_invariants
import pytest
from attrs import evolve
from dsh_invariants.checks import Checks, InvariantError

from dsh import (
    USER,
    Agent,
    AgentOptions,
    Allow,
    Ask,
    CallConfig,
    Config,
    Deny,
    Harness,
    Request,
    ToolCall,
    ToolSchema,
    hookimpl,
)
from dsh.messages import Message, PluginSource, Text, ToolCallBlock
from dsh.prompt import Sections
from dsh.session import Event, Session
from dsh.session import events as ev
from dsh.testing import Reply, call, memory_harness, on_event, plugin_of, shape, text, tool_of
from dsh.tools import pipeline

ON = Config(tables={"invariants": {"enabled": True}})
START = ev.TurnStart(1, ev.Trigger("message", USER))
END = ev.TurnEnd(1, ev.EndReason("completed"))
STEP, STEPPED = ev.StepStart(1, 1), ev.StepEnd(1, 1)
USER_MESSAGE = ev.UserMessage((Text("x"),), USER)
HEADER = ev.RequestHeader(ev.Header(CallConfig("m")), "initial")
CALLING = ev.AssistantMessage(1, 1, (ToolCallBlock("c", "work", "{}"),))
CALL = ev.ToolCall(1, 1, "c", "work", "{}")
RESULT = ev.ToolResult(1, 1, "c", (Text("x"),), False)


@asynccontextmanager
async def checked(*replies: Reply, warnings: list[str] | None = None, **plugins: object) -> AsyncIterator[Harness]:
    """A harness with the checks on, which may find something."""
    async with memory_harness(
        *replies,
        plugins={"invariants": dsh_invariants, **plugins},
        config=ON,
        warnings=warnings,
        check_logs=False,
        invariants=False,
    ) as harness:
        yield harness


def checks_of(harness: Harness) -> Checks:
    return cast(Checks, harness.plugins.get_plugin(dsh_invariants.CHECKS))


def agent_of(harness: Harness, **more: Any) -> Agent:
    return harness.create_agent(options=AgentOptions(model="scripted/model"), **more).agent


def found(harness: Harness, name: str) -> list[str]:
    """What was found, all of it against the promise `name`."""
    errors = [str(error) for error in checks_of(harness).violations]
    assert all(error.startswith(f"invariant '{name}' violated: ") for error in errors), errors
    assert all(error.code == "INVARIANT" for error in checks_of(harness).violations)
    return errors


# -- the log


@pytest.mark.parametrize(
    ("before", "broken", "complaint"),
    [
        ([START], START, "turn 1 starts in turn 1"),
        ([], ev.TurnStart(2, START.trigger), "turn 2 follows turn 0"),
        ([], END, "turn 1 ends, where None is open"),
        ([START, STEP], END, "turn 1 ends in step 1"),
        ([], STEP, "step 1 of turn 1 starts in (None, None)"),
        ([START, STEP], ev.StepStart(1, 2), "step 2 of turn 1 starts in (1, 1)"),
        ([START], ev.StepStart(1, 2), "step 2 follows step 0"),
        ([START], STEPPED, "step/end of turn and step (1, 1)"),
        ([START, STEP], ev.AssistantMessage(1, 2, ()), "assistant/message of turn and step (1, 2)"),
        ([START], HEADER, "request/header outside of a step"),
        ([START, STEP, HEADER], HEADER, "a second request/header in one step"),
        ([START, STEP, CALLING], STEPPED, "the call 'c' has no tool/call when its step ends"),
        ([START, STEP, CALLING, CALL], STEPPED, "the call 'c' has no result when its step ends"),
        ([START, STEP], CALL, "the call 'c' is not in the step's message"),
        ([START, STEP, CALLING], RESULT, "a result of the call 'c', which was not begun"),
        ([], ev.TodoWrite(()), "todo/write outside of a turn"),
        ([], ev.OtherData("who/knows", {}), "who/knows outside of a turn"),
    ],
)
async def test_the_append_that_breaks_the_log_raises(before: list[Any], broken: Any, complaint: str) -> None:
    async with checked() as harness:
        session = agent_of(harness).session
        for data in before:
            session.append(data)
        with pytest.raises(InvariantError) as caught:
            session.append(broken)
        assert complaint in str(caught.value)
        assert f"event {len(before)} ({broken.type}) of session {session.id}" in str(caught.value)
        assert found(harness, "log") == [str(caught.value)]
        assert session.events[-1].data is broken, "it is in the log all the same"


@pytest.mark.parametrize(
    ("replace", "sources", "complaint"),
    [
        (None, [0, 0], "with the sources (0, 0)"),
        (None, [], "with the sources ()"),
        (None, [9], "with the sources (9,)"),
        (ev.Replace(1, 2), [1], "replaces the events [2], which are not among its sources"),
    ],
)
async def test_sources_are_checked(replace: ev.Replace | None, sources: list[int], complaint: str) -> None:
    async with checked() as harness:
        session = agent_of(harness).session
        for data in (START, USER_MESSAGE, USER_MESSAGE):
            session.append(data)
        with pytest.raises(InvariantError, match="invariant 'log'") as caught:
            session.append(USER_MESSAGE, replace=replace, sources=sources)
        assert complaint in str(caught.value)


async def test_a_plugin_that_breaks_the_log_in_a_turn_ends_the_turn_by_name() -> None:
    async def pre_step(agent: Agent) -> None:
        agent.session.append(ev.StepEnd(7, 7))

    async with checked(text("never"), bad=plugin_of(agent_pre_step=pre_step)) as harness:
        result = await agent_of(harness).run("go")
        assert result.reason is not None
        assert result.reason.code == "INVARIANT"
        assert "step/end of turn and step (7, 7)" in (result.reason.message or "")
        assert "agent_pre_step of the plugin 'bad'" in (result.reason.message or "")


async def test_what_a_session_began_with_is_a_warning() -> None:
    warnings: list[str] = []
    seed = Session("s")
    for data in (START, STEP, CALLING, STEPPED, END):
        seed.append(data)
    async with checked(text("ok"), warnings=warnings) as harness:
        agent = agent_of(harness, seed=list(seed.events))
        assert (await agent.run("go")).text == "ok"
        assert found(harness, "log") == []
        assert warnings == [
            f"the log that session {agent.session.id} began with breaks a rule: "
            "event 3: the call 'c' has no tool/call when its step ends"
        ]


# -- notifications


async def test_an_event_that_is_told_again() -> None:
    async with checked() as harness:
        agent = agent_of(harness)
        event = agent.session.append(START)
        with pytest.raises(InvariantError, match=r"event 0 \(turn/start\) .* is told again"):
            agent.hook.session_event(session=agent.session, event=event)
        found(harness, "notification")


async def test_an_event_that_nobody_heard_of() -> None:
    async with checked() as harness:
        session = agent_of(harness).session
        notify, session.notify = session.notify, None
        session.append(START)
        session.notify = notify
        with pytest.raises(InvariantError, match=r"event 1 \(user/message\) .* is told, where event 0 comes next"):
            session.append(USER_MESSAGE)
        session.append(END)
        assert len(found(harness, "notification")) == 1, "one fault is found once"


async def test_an_event_that_nobody_hears_of_is_found_at_the_flush() -> None:
    async with checked() as harness:
        session = agent_of(harness).session
        session.append(START)
        notify, session.notify = session.notify, None
        session.append(USER_MESSAGE)
        session.notify = notify
        with pytest.raises(InvariantError, match=r"event 1 \(user/message\) .* was not told"):
            await harness.sessions.flush(session)
        session.append(END)
        await harness.sessions.flush(session)
        assert len(found(harness, "notification")) == 1


async def test_an_event_that_is_told_before_everybody_heard_of_the_last() -> None:
    async with checked() as harness:
        agent = agent_of(harness)

        def jump_the_queue(event: Event) -> None:
            more = evolve(event, seq=event.seq + 1, data=USER_MESSAGE, surface_op="append")
            agent.hook.session_event(session=agent.session, event=more)

        agent.plugins.register(on_event(ev.TurnStart, jump_the_queue))
        with pytest.raises(InvariantError, match="is told before everybody has heard of event 0"):
            agent.session.append(START)
        found(harness, "notification")


# -- requests


def changed(**more: Any) -> Callable[[Request], Request]:
    return lambda request: evolve(request, **more)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (changed(model="scripted/other"), "model is not that of the header"),
        (changed(temperature=0.5), "temperature is not"),
        (changed(max_tokens=5), "max_tokens is not"),
        (changed(stop=("x",)), "stop is not"),
        (changed(system="be evil"), "system is not"),
        (changed(tools=(ToolSchema("t", "", {}),)), "tools is not"),
        (changed(messages=()), "it has 0 messages, and the log makes 1"),
        (changed(messages=(Message("user", "other"),)), "messages that the log makes otherwise: 0"),
    ],
)
async def test_a_request_that_is_not_what_the_log_says(
    change: Callable[[Request], Request], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with checked(text("never")) as harness:
        stream = harness.llm.stream
        monkeypatch.setattr(harness.llm, "stream", lambda request, agent: stream(change(request), agent))
        result = await agent_of(harness).run("go")
        assert result.reason is not None
        assert result.reason.code == "INVARIANT"
        (error,) = found(harness, "request")
        assert complaint in error


async def test_a_plugins_own_request_is_its_own() -> None:
    own = Request("scripted/model", (Message("user", "summarise"),))

    async def ask(agent: Agent) -> None:
        async for _ in await agent.harness.llm.stream(own, agent):
            pass

    asks = plugin_of(agent_pre_step=ask, agent_request=ask, agent_step_result=ask)
    async with checked(*[text("ok")] * 4, asks=asks) as harness:
        assert (await agent_of(harness).run("go")).text == "ok"
        assert found(harness, "request") == []


# -- tools


async def test_a_tool_that_runs_unasked() -> None:
    ran: list[str] = []
    tool = tool_of("work", lambda call: ran.append(call.id))
    async with checked(tool=tool) as harness:
        result = await pipeline.run(harness.hook, {}, ToolCall("c", "work", {}))
        assert result.is_error
        (error,) = found(harness, "tool")
        assert error.endswith("the call 'c' of work runs, about which the gate was not asked")
    assert ran == []


async def test_a_tool_that_runs_while_the_gate_is_asked() -> None:
    async def impatient(agent: Agent, call: ToolCall) -> None:
        await pipeline.run(agent.hook, {}, call)

    async with checked(
        call("work"), text("ok"), tool=tool_of("work"), bad=plugin_of(tools_pre_execute=impatient)
    ) as harness:
        await agent_of(harness).run("go")
        (error,) = found(harness, "tool")
        assert error.endswith("the call 'c1' of work runs, which the gate has not answered yet")


async def test_a_tool_that_runs_after_a_denial() -> None:
    guard = plugin_of(tools_pre_execute=lambda: Deny("no"))
    async with checked(guard=guard) as harness:
        wanted = ToolCall("c", "work", {})
        assert (await pipeline.judge(harness.hook, wanted)).denial is not None
        result = await pipeline.run(harness.hook, {}, wanted)
        assert result.error is not None
        assert result.error.code == "INVARIANT"
        assert found(harness, "tool")[0].endswith("runs, which was denied")


async def test_a_tool_that_runs_twice() -> None:
    async with checked() as harness:
        wanted = ToolCall("c", "work", {})
        await pipeline.judge(harness.hook, wanted)
        await pipeline.run(harness.hook, {}, wanted)
        assert found(harness, "tool") == []
        await pipeline.run(harness.hook, {}, wanted)
        assert found(harness, "tool")[0].endswith("runs, which ran before")


async def test_an_approver_of_the_agents_own_may_answer_last() -> None:
    """Its wrapper stands around the one of the checks, which see the question alone."""
    ask = plugin_of(tools_pre_execute=lambda: Ask("may it?"))
    async with checked(call("work"), text("ok"), tool=tool_of("work"), ask=ask) as harness:
        agent = agent_of(harness)
        agent.plugins.register(Approver())
        await agent.run("go")
        assert "TR(c1)" in shape(agent.session.events)
        assert found(harness, "tool") == []


class Approver:
    @hookimpl(wrapper=True, tryfirst=True)
    def tools_pre_execute(self) -> Generator[None, Any, Any]:
        verdict = yield
        return Allow() if isinstance(verdict, Ask) else verdict


# -- agents


async def test_a_status_that_is_told_twice() -> None:
    async with checked() as harness:
        agent = agent_of(harness)
        agent.hook.agent_status(agent=agent, status="running")
        with pytest.raises(InvariantError, match="agent-1 is told to be running twice in a row"):
            agent.hook.agent_status(agent=agent, status="running")
        agent.hook.agent_status(agent=agent, status="idle")
        assert len(found(harness, "status")) == 1


async def test_a_person_is_told_even_where_errors_are_contained() -> None:
    warnings: list[str] = []
    async with checked(call("work"), text("ok"), warnings=warnings, tool=tool_of("work", broken_append)) as harness:
        assert (await agent_of(harness).run("go")).text == "ok"
        (error,) = found(harness, "log")
        assert warnings == [error]


def broken_append(call: ToolCall) -> None:
    assert call.agent is not None
    call.agent.session.append(ev.SteeringMessage(9, (Text("x"),), USER))


async def test_a_status_after_the_end() -> None:
    async with checked() as harness:
        handle = harness.create_agent()
        await handle.dispose()
        for _ in range(2):
            with pytest.raises(InvariantError, match="agent-1 is running after it was disposed"):
                handle.agent.hook.agent_status(agent=handle.agent, status="running")
        assert len(found(harness, "status")) == 2


# -- agents' starts, and their scopes


async def test_i11_a_turn_before_the_start_of_its_agent() -> None:
    """I11."""
    async with checked() as harness:
        agent_of(harness, setup=lambda agent: agent.inject("early", PluginSource("me")))
        (error,) = found(harness, "start")
        assert "a turn began before that, with event 0" in error


async def test_a_session_that_began_with_turns_is_none_of_that() -> None:
    async with checked(text("x")) as harness:
        await agent_of(harness).run("go")
        seed = harness.agents.list()[0].session.events
        await agent_of(harness, seed=list(seed)).when_idle()
        assert found(harness, "start") == []


async def test_what_is_told_past_the_agents_scope() -> None:
    """By the hooks of the program, or those of another agent."""
    async with checked() as harness:
        agent, other = agent_of(harness), agent_of(harness)
        for hook in (harness.hook, other.hook):
            with pytest.raises(InvariantError, match="scope"):
                hook.agent_queued(agent=agent, content=(), source=USER, steering=False)
            with pytest.raises(InvariantError, match="scope"):
                hook.agent_error(agent=agent, turn=1, step=0, error=ValueError())
        agent.hook.agent_queued(agent=agent, content=(), source=USER, steering=False)
        found(harness, "scope")


async def test_a_prompt_that_is_asked_for_past_the_agents_scope() -> None:
    async with checked() as harness:
        agent = agent_of(harness)
        with pytest.raises(InvariantError, match="prompt_sections of agent agent-1 was told, but not in its own"):
            harness.hook.prompt_sections(agent=agent, sections=Sections())
        agent.hook.prompt_sections(agent=agent, sections=Sections())
        assert len(found(harness, "scope")) == 1


async def test_events_that_another_agents_scope_hears() -> None:
    async with checked() as harness:
        agent, other = agent_of(harness), agent_of(harness)
        agent.session.notify = lambda session, event: other.hook.session_event(session=session, event=event)
        with pytest.raises(InvariantError, match="session_event of agent agent-1 was told, but not in its own scope"):
            agent.session.append(START)
        with pytest.raises(InvariantError, match="in the scope of agent agent-2 was heard session_event of session"):
            other.session.append(START)
        assert len(found(harness, "scope")) == 2
