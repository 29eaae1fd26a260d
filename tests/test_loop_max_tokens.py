"""Answers that the token limit cut off: kept, but none of their calls is run."""

from __future__ import annotations

from attrs import evolve

from dsh.decisions import Continue
from dsh.llm.chunks import Usage
from dsh.messages import Message, Text, ToolCallBlock
from dsh.session import events as ev
from dsh.testing import Reply, ScriptedModel, cut, memory_agent, on_event, plugin_of, reply, shape, text, tool_of

CUT_CALL = reply(calls=[("c1", "work", "{}")], finish="max-tokens")


async def test_a_cut_answer_ends_the_turn_so() -> None:
    """F01."""
    async with memory_agent(cut("x")) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 T-(max-tokens)"


async def test_a_cut_step_marks_the_whole_turn_and_no_other() -> None:
    """F02."""
    model = ScriptedModel(cut("part"), text("end"), text("next"))
    answers = iter([Continue()])
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=lambda: next(answers, None)), "more")
        first = await agent.run("go")
        assert first.reason == ev.EndReason("max-tokens")
        assert Message("assistant", "part") in model.requests[1].messages
        assert (await agent.run("again")).reason == ev.EndReason("completed")


async def test_a_call_that_was_cut_off_does_not_run() -> None:
    """F04."""
    ran: list[object] = []
    async with memory_agent(CUT_CALL, plugins={"work": tool_of("work", ran.append)}) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×6 A S-1 T-(max-tokens)"
        (answer,) = (e.data for e in agent.session.events if isinstance(e.data, ev.AssistantMessage))
        assert answer.content == ()
        assert len(agent.session.derive_messages()) == 1
        assert ran == []


async def test_a_call_that_was_cut_off_without_usage_leaves_no_message() -> None:
    """F05."""
    chunks = tuple(chunk for chunk in CUT_CALL.chunks if not isinstance(chunk, Usage))
    async with memory_agent(Reply(chunks)) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 S-1 T-(max-tokens)"


async def test_nobody_may_add_a_call_to_a_cut_answer() -> None:
    seen: list[Message] = []

    def step_result(message: Message) -> Message:
        seen.append(message)
        return evolve(message, content=(*message.content, ToolCallBlock("mine", "work", "{}")))

    answer = reply("x", calls=[("c1", "work", "{}")], finish="max-tokens")
    async with memory_agent(answer, plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(agent_step_result=step_result), "adder")
        await agent.run("go")
        assert seen == [Message("assistant", "x")]
        assert "TC" not in shape(agent.session.events)
        assert agent.session.derive_messages()[-1].content == (Text("x"),)


async def test_steering_keeps_a_cut_turn_going() -> None:
    async with memory_agent(cut("x"), text("y")) as agent:
        agent.plugins.register(on_event(ev.AssistantMessage, lambda _: agent.steer("go on")))
        await agent.run("go")
        assert shape(agent.session.events).endswith("ST S-1 S+2 C×5 A S-2 T-(max-tokens)")


async def test_an_error_or_a_cancel_is_stronger() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    async with memory_agent(cut("x"), cut("y")) as agent:
        agent.plugins.register(on_event(ev.StepEnd, lambda _: fail()))
        reason = (await agent.run("go")).reason
        assert reason is not None
        assert (reason.kind, reason.step) == ("error", 1)
        assert (reason.message or "").startswith("no (raised by")
        agent.plugins.register(on_event(ev.StepEnd, lambda _: agent.cancel("x")))
        assert (await agent.run("go")).reason == ev.EndReason("aborted", reason="x")
