"""What must not grow: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from dsh.llm.chunks import Chunk
from dsh.messages import Message
from dsh.session import events as ev
from dsh.session.log import Session
from dsh.testing import ScriptedModel, call, memory_agent, plugin_of, text, tool_of


async def test_a_message_is_made_once_however_often_it_is_sent() -> None:
    """Adapters keep a message's bytes beside it, so it has to be the same object."""
    model = ScriptedModel(*[call("work", id=f"c{n}") for n in range(20)], text("ok"), text("again"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        await agent.run("more")
        assert len(model.requests) == 22
        for before, after in pairwise(model.requests):
            assert all(one is other for one, other in zip(before.messages, after.messages, strict=False))
            assert len(after.messages) > len(before.messages)
        made: dict[int, Message] = {id(m): m for request in model.requests for m in request.messages}
        assert len(made) == len(model.requests[-1].messages)


async def test_the_system_prompt_and_tools_stay_the_same_objects() -> None:
    model = ScriptedModel(call("work"), text("ok"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        first, second = model.requests
        assert first.system == second.system


async def test_a_turn_is_flushed_once() -> None:
    flushed: list[int] = []

    def flush(session: Session) -> None:
        flushed.append(len(session.events))

    model = ScriptedModel(call("work", id="a"), call("work", id="b"), text("ok"), text("again"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(session_flush=flush))
        await agent.run("go")
        first = len(agent.session.events)
        await agent.run("more")
        assert flushed == [first, len(agent.session.events)]


def noting(calls: list[str], hook: str) -> Callable[[], None]:
    return lambda: calls.append(hook)


@pytest.mark.parametrize("length", [1, 500])
async def test_the_number_of_hook_calls_does_not_depend_on_the_deltas(length: int) -> None:
    calls: list[str] = []
    hooks = [
        *("agent_prompt_submit", "agent_pre_step", "agent_request", "llm_stream", "agent_step_result"),
        *("agent_turn_continuation", "prompt_assemble", "session_flush"),
    ]
    async with memory_agent(text("x" * length), invariants=False) as agent:
        for hook in hooks:
            agent.plugins.register(plugin_of(**{hook: noting(calls, hook)}))
        before = len(agent.harness.plugins.settings.ring)
        await agent.run("go")
        assert sorted(calls) == sorted(hooks)
        assert len(agent.harness.plugins.settings.ring) - before <= len(hooks) + 2


async def test_without_a_listener_no_event_is_handed_to_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    async with memory_agent(text("x" * 50), invariants=False) as agent:
        hook = agent.hook.session_event
        await agent.run("go")
        assert agent.hook.session_event is hook
        assert agent.harness.plugins.implementations("session_event") == []


async def test_every_delta_is_logged_and_heard_in_order() -> None:
    heard: list[Chunk] = []
    sent = text("some words")

    def listen(event: ev.Event) -> None:
        if isinstance(event.data, ev.AssistantChunk):
            heard.append(event.data.chunk)

    async with memory_agent(sent) as agent:
        agent.plugins.register(plugin_of(session_event=listen))
        await agent.run("go")
        assert tuple(heard) == sent.chunks


async def test_a_step_reads_no_more_of_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are read from the log once, when they become messages."""
    reads = 0
    model = ScriptedModel(*[call("work", id=f"c{n}") for n in range(60)], otherwise=text("ok"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}, invariants=False) as agent:
        events = type(agent.session.events)
        original = events._event

        def counted(self: object, seq: int) -> ev.Event:
            nonlocal reads
            reads += 1
            return original(self, seq)  # type: ignore[arg-type]  # it is one

        monkeypatch.setattr(events, "_event", counted)
        counts: list[int] = []
        agent.plugins.register(plugin_of(agent_pre_step=lambda: counts.append(reads)))
        agent.send("go")
        await agent.when_idle()
        steps = [after - before for before, after in pairwise(counts)]
        assert max(steps[30:]) <= max(steps[2:10])
