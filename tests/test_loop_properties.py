"""Whatever a model answers, and whatever plugins do in between: what always holds.

A scenario is a script for the model, faults at hooks and events, and what somebody outside does
meanwhile.  However it goes, the log keeps its rules, the agent comes to rest, the next message is
answered, and every request can be made again from the log.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh.agents import Agent, AgentHandle, AgentOptions
from dsh.decisions import Continue, NextStep, Retry
from dsh.errors import AgentError
from dsh.llm.adapter import Request
from dsh.messages import CallConfig, PluginSource, ToolCallBlock
from dsh.prompt import Prefix, Sections
from dsh.session import events as ev
from dsh.session.header import canonical
from dsh.session.rebuild import rebuild_request
from dsh.testing import Reply, ScriptedModel, cut, fail, hang, memory_harness, plugin_of, reply, text, tool_of
from dsh.testing.grammar import problems
from dsh.tools.tool import ToolCall

HOOKS = (
    *("agent_prompt_submit", "agent_session_prefix", "agent_pre_step", "agent_request", "llm_stream"),
    *("agent_step_result", "agent_turn_continuation", "agent_request_error", "prompt_assemble", "session_flush"),
    *("tools_pre_execute", "tools_execute", "tools_post_execute"),
)
CALLED = (
    *("agent_queued", "agent_status", "agent_error", "prompt_sections", "prompt_variables", "tools_register"),
    *("agent_session_start", "agent_disposed"),
)
EVENTS = tuple(kind.type for kind in ev.VOCABULARY if kind is not ev.TodoWrite)
ACTIONS = ("raise", "cancel", "steer", "send", "inject", "dispose")


@frozen
class Fault:
    """At the `nth` call of a hook, or append of an event: wait a little, then do something."""

    where: str
    nth: int
    action: str
    waits: bool


calls = st.lists(
    st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["work", "beside", "nobody", "sleep"]), st.just("{}")),
    min_size=1,
    max_size=4,
)
replies = st.one_of(
    st.sampled_from(["", "x", "two words"]).map(text),
    calls.map(lambda given: reply("so", calls=given)),
    st.sampled_from([cut("part"), reply(calls=[("c", "work", "{}")], finish="max-tokens")]),
    st.sampled_from([fail(), fail(after="half"), hang(), hang(""), Reply(()), reply("r", calls=[("j", "work", "{")])]),
)
places = st.one_of(st.sampled_from(HOOKS), st.sampled_from(CALLED), st.sampled_from(EVENTS))
faults = st.builds(
    Fault,
    places,
    st.integers(1, 3),
    st.sampled_from(ACTIONS),
    st.booleans(),
)
outside = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(ACTIONS[1:])), max_size=3)
decisions = st.fixed_dictionaries(
    {
        "agent_request_error": st.lists(st.sampled_from([None, Retry(), NextStep()]), max_size=3),
        "agent_turn_continuation": st.lists(st.sampled_from([None, Continue(), Continue("go on")]), max_size=2),
    }
)


class Trouble:
    """The plugins that make a scenario's faults happen."""

    def __init__(self, faults: list[Fault], decisions: dict[str, list[Any]]) -> None:
        self.faults = faults
        self.decisions = {hook: iter(answers) for hook, answers in decisions.items()}
        self.counts: dict[str, int] = {}
        self.active = True
        self.agent: Agent | None = None
        self.handle: AgentHandle | None = None
        self.disposes = False

    def act(self, action: str) -> None:
        agent = self.agent
        if action == "raise":
            raise RuntimeError("trouble")
        if agent is None or agent.status == "disposed":
            return
        if action == "cancel":
            agent.cancel("trouble")
        elif action == "inject":
            agent.inject("note", PluginSource("trouble"))
        elif action == "dispose":
            if self.handle is not None:
                self.disposes = True
                agent.harness.start_soon(self.handle.dispose)
        else:
            getattr(agent, action)("more")

    def due(self, where: str) -> list[Fault]:
        if not self.active:
            return []
        self.counts[where] = count = self.counts.get(where, 0) + 1
        return [fault for fault in self.faults if (fault.where, fault.nth) == (where, count)]

    def awaited(self, hook: str) -> Callable[[], Any]:
        async def implementation() -> Any:
            for fault in self.due(hook):
                if fault.waits:
                    await trio.sleep(1)
                self.act(fault.action)
            return next(self.decisions[hook], None) if self.active and hook in self.decisions else None

        return implementation

    def called(self, hook: str) -> Callable[[], None]:
        def implementation() -> None:
            for fault in self.due(hook):
                self.act(fault.action)

        return implementation

    def plugin(self) -> object:
        hooks: dict[str, Callable[..., Any]] = {hook: self.awaited(hook) for hook in HOOKS}
        hooks.update({hook: self.called(hook) for hook in CALLED})

        def session_event(event: ev.Event) -> None:
            for fault in self.due(event.type):
                self.act(fault.action)

        return plugin_of(**hooks, session_event=session_event)


class Requests:
    """A plugin that keeps every request with its turn and step."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, Request]] = []
        self.step = (0, 0)

    def plugin(self) -> object:
        def agent_request(turn: int, step: int) -> None:
            self.step = (turn, step)

        def llm_stream(request: Request) -> None:
            self.seen.append((*self.step, request))

        def sections(agent: Agent, sections: Sections) -> None:
            sections.add("turns", f"Turn\n{agent.session.last_turn // 2}\nend", 100)

        def prefix(prefix: Prefix) -> None:
            prefix.add("read this first")

        return plugin_of(
            agent_request=agent_request, llm_stream=llm_stream, prompt_sections=sections, agent_session_prefix=prefix
        )


async def sleeping(call: ToolCall) -> str:
    await trio.sleep(5)
    return "slept"


async def working(call: ToolCall) -> str:
    await trio.lowlevel.checkpoint()
    return call.id


async def play(script: list[Reply], trouble: Trouble, outside: list[tuple[int, str]], *, dispose: int | None) -> None:
    requests = Requests()
    model = ScriptedModel(*script, otherwise=text("fine"))
    plugins = {
        "requests": requests.plugin(),
        "trouble": trouble.plugin(),
        "work": tool_of("work"),
        "sleep": tool_of("sleep", sleeping),
        "beside": tool_of("beside", working, parallel=True),
    }
    warnings: list[str] = []
    async with memory_harness(model=model, plugins=plugins, warnings=warnings) as harness:
        handle = harness.create_agent(options=AgentOptions(model="scripted/model"))
        trouble.handle, trouble.agent = handle, handle.agent
        agent = handle.agent

        async def meddle() -> None:
            for wait, action in outside:
                await trio.sleep(wait)
                trouble.act(action)

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                with suppress(RuntimeError, AgentError):  # the message is queued all the same, or the agent is gone
                    agent.send("go")
            nursery.start_soon(quietly, meddle)
            await at_rest(agent)
        if trouble.disposes:
            await handle.dispose()
            with pytest.raises(AgentError):
                agent.send("too late")
            assert harness.agents.get(agent.id) is None
        elif dispose is not None:
            with suppress(RuntimeError, AgentError):
                agent.send("last")
            for _ in range(dispose):
                await trio.lowlevel.checkpoint()
            await handle.dispose()
        else:
            trouble.active = False
            await at_rest(agent)
        if trouble.disposes:
            await handle.dispose()
        elif agent.status != "disposed":
            model.clear()
            result = await agent.run("and now?")
            assert (result.text, result.reason) == ("fine", ev.EndReason("completed"))
        check(agent, requests)
    assert not any("could not be opened" in warning for warning in warnings)


async def quietly(function: Callable[[], Any]) -> None:
    with suppress(RuntimeError, AgentError):
        await function()


async def at_rest(agent: Agent) -> None:
    """Wait until the agent is idle; what hangs is cancelled after a while."""
    while True:
        with trio.move_on_after(100) as scope:
            await agent.when_idle()
        if scope.cancelled_caught:
            agent.cancel("it hung")
        elif agent.status != "running":
            return


def check(agent: Agent, requests: Requests) -> None:
    events = agent.session.events
    assert problems(events) == []
    for turn, step, request in requests.seen:
        header, messages = rebuild_request(events, turn, step)
        assert tuple(messages) == request.messages
        prefix = header.message_prefix or ()
        config = CallConfig(request.model, request.temperature, request.max_tokens, request.stop)
        assert header == canonical(ev.Header(config, request.system, request.tools, prefix))
        assert request.messages[: len(prefix)] == prefix
    for (_, _, before), (_, _, after) in pairwise(requests.seen):
        assert len(after.messages) >= len(before.messages)
        assert all(one is other for one, other in zip(before.messages, after.messages, strict=False))
    ids = [
        block.id
        for event in events
        if isinstance(event.data, ev.AssistantMessage)
        for block in event.data.content
        if isinstance(block, ToolCallBlock)
    ]
    for kind in (ev.ToolCall, ev.ToolResult):
        assert sorted(ids) == sorted(event.data.call_id for event in events if isinstance(event.data, kind))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(replies, max_size=5),
    st.lists(faults, max_size=4),
    decisions,
    outside,
    st.none() | st.integers(0, 40),
)
def test_whatever_happens_the_log_is_whole_and_the_agent_goes_on(
    script: list[Reply],
    faults: list[Fault],
    decisions: dict[str, list[Any]],
    outside: list[tuple[int, str]],
    dispose: int | None,
) -> None:
    async def run() -> None:
        await play(script, Trouble(faults, decisions), outside, dispose=dispose)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(replies, max_size=4), st.lists(faults, max_size=2), st.integers(0, 60))
def test_whenever_the_program_is_cancelled_its_logs_are_closed(
    script: list[Reply], faults: list[Fault], checkpoints: int
) -> None:
    agents: list[Agent] = []
    trouble = Trouble(faults, {})
    plugins = {
        "trouble": trouble.plugin(),
        "work": tool_of("work"),
        "sleep": tool_of("sleep", sleeping),
        "beside": tool_of("beside", working, parallel=True),
    }

    async def run() -> None:
        with trio.CancelScope() as scope:
            async with memory_harness(*script, plugins=plugins) as harness:
                agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
                trouble.agent = agent
                agents.append(agent)
                with suppress(RuntimeError):
                    agent.send("go")
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
                await trio.sleep_forever()

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert problems(agents[0].session.events) == []
    assert agents[0].status == "disposed"
