"""Requests that fail: tried again, given up, or left for another step."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.decisions import GiveUp, NextStep, Retry
from dsh.errors import LlmError
from dsh.llm.chunks import BlockStart, Finish, TextDelta
from dsh.messages import FinishReason, Message, PluginSource, Text, TokenUsage
from dsh.session import events as ev
from dsh.testing import Reply, ScriptedModel, call, fail, memory_agent, on_event, plugin_of, reply, shape, text, tool_of


async def test_a_failure_that_nobody_answers_ends_the_turn() -> None:
    async with memory_agent(fail("overloaded", code="SERVER")) as agent:
        result = await agent.run("go")
        assert result.reason == ev.EndReason("error", step=1, message="overloaded", code="SERVER")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) S-1 T-(error 1)"


async def test_a_failed_request_may_be_sent_again(autojump_clock: trio.testing.MockClock) -> None:
    asked: list[tuple[int, int, str, int]] = []

    def retry(turn: int, step: int, error: Exception, attempt: int) -> Retry:
        asked.append((turn, step, str(error), attempt))
        return Retry(after=30)

    model = ScriptedModel(fail("one"), fail("two"), text("x"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_request_error=retry), "retry")
        started = trio.current_time()
        result = await agent.run("go")
        assert result.text == "x"
        assert asked == [(1, 1, "one", 1), (1, 1, "two", 2)]
        assert trio.current_time() - started == pytest.approx(60)
        assert model.requests[0] is model.requests[1]
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) D(retry retry) D(retry retry) C×5 A S-1 T-(completed)"
        )


async def test_the_answer_of_the_last_attempt_is_the_answer() -> None:
    """Chunks of the attempts before stay in the log, but are no source of it."""
    model = ScriptedModel(fail(after="half"), text("whole"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda: Retry()), "retry")
        result = await agent.run("go")
        assert result.text == "whole"
        (answer,) = (e for e in agent.session.events if isinstance(e.data, ev.AssistantMessage))
        assert answer.source_event_seqs is not None
        sources = [agent.session.events[seq].data.chunk for seq in answer.source_event_seqs]
        assert sources == list(text("whole").chunks)


async def test_another_step_takes_the_boundary_anew() -> None:
    """This is how a conversation that is too long is shortened: pre-step hooks run again."""
    heard: list[str] = []
    failed = False

    def on_error() -> NextStep:
        nonlocal failed
        failed = True
        return NextStep()

    def pre_step(step: int) -> None:
        heard.append(f"pre-step {step}")
        if failed:
            (first,) = agent.session.surface.seqs
            summary = ev.ContextMessage((Text("short"),), PluginSource("shorten"))
            agent.session.append(summary, replace=ev.Replace(first, first), sources=[first])

    model = ScriptedModel(fail("too long", after="half"), text("x"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(
            plugin_of(
                agent_request_error=on_error,
                agent_pre_step=pre_step,
                agent_turn_continuation=lambda: heard.append("continuation"),
            ),
            "shorten",
        )
        await agent.run("long")
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) C×2 D(shorten nextstep) S-1 CX S+2 C×5 A S-2 T-(completed)"
        )
        assert heard == ["pre-step 1", "pre-step 2", "continuation"]
        assert Message("user", "long") in model.requests[0].messages
        (summary,) = model.requests[1].messages
        assert summary.content[1] == Text("short")


async def test_giving_up_ends_the_turn_with_the_error() -> None:
    async with memory_agent(fail("no")) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda: GiveUp()), "quitter")
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.message == "no"


async def test_a_hook_that_fails_over_a_failure_speaks_for_itself() -> None:
    def broken() -> None:
        raise RuntimeError("mine")

    async with memory_agent(fail("theirs")) as agent:
        agent.plugins.register(plugin_of(agent_request_error=broken))
        result = await agent.run("go")
        assert result.reason is not None
        assert (result.reason.message or "").startswith("mine (raised by")


async def test_a_hook_that_answers_nonsense_is_told_so() -> None:
    async with memory_agent(fail("theirs")) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda: "again"))
        result = await agent.run("go")
        assert result.reason is not None
        assert "Retry or NextStep or GiveUp" in str(result.reason.message)


async def test_text_that_was_seen_before_the_failure_is_kept() -> None:
    async with memory_agent(fail("cut off", after="half an answer"), text("x")) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 A~ S-1 T-(error 1)"
        assert agent.session.derive_messages()[-1] == Message("assistant", "half an answer")
        assert (await agent.run("again")).text == "x"


async def test_calls_of_an_answer_that_failed_do_not_run() -> None:
    ran: list[object] = []
    chunks = reply("text", calls=[("c1", "work", "{}")]).chunks[:-1]
    async with memory_agent(Reply(chunks, error=LlmError("late"))) as agent:
        agent.plugins.register(tool_of("work", ran.append))
        await agent.run("go")
        assert agent.session.derive_messages()[-1] == Message("assistant", "text")
        assert ran == []


@pytest.mark.parametrize(("kind", "code"), [("error", "CONTENT_FILTER"), ("aborted", "ABORTED")])
async def test_a_finish_may_be_a_failure(kind: str, code: str) -> None:
    finish = FinishReason(kind, "refused", "CONTENT_FILTER" if kind == "error" else None)
    heard: list[tuple[str, str]] = []
    async with memory_agent(reply("some text", finish=finish)) as agent:

        def listen(error: LlmError) -> None:
            heard.append((error.message, error.code))

        agent.plugins.register(plugin_of(agent_request_error=listen))
        result = await agent.run("go")
        assert result.reason == ev.EndReason("error", step=1, message="refused", code=code)
        assert heard == [("refused", code)]
        (kept,) = (e.data for e in agent.session.events if isinstance(e.data, ev.AssistantMessage))
        assert (kept.interrupted, kept.usage) == (True, TokenUsage(10, 9))


async def test_a_stream_that_ends_without_a_finish_is_an_answer() -> None:
    async with memory_agent(Reply([BlockStart(0, "text"), TextDelta(0, "x")])) as agent:
        result = await agent.run("go")
        assert (result.text, result.reason) == ("x", ev.EndReason("completed"))


async def test_an_unfinished_block_of_an_unknown_type_is_a_failure() -> None:
    async with memory_agent(Reply([BlockStart(0, "hologram"), Finish(FinishReason("stop"))])) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.code == "MALFORMED_RESPONSE"


async def test_an_error_wrapped_by_an_adapters_nursery_is_unwrapped() -> None:
    heard: list[Exception] = []
    wrapped = Reply((), error=ExceptionGroup("in a nursery", [ExceptionGroup("inside", [LlmError("bare")])]))
    async with memory_agent(wrapped) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda error: heard.append(error)))
        result = await agent.run("go")
        assert isinstance(heard[0], LlmError)
        assert result.reason == ev.EndReason("error", step=1, message="bare", code="LLM")


async def test_a_listener_on_the_end_of_a_step_left_behind_is_heard() -> None:
    def broken(event: ev.Event) -> None:
        raise RuntimeError("no")

    async with memory_agent(fail("theirs"), text("never")) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda: NextStep()), "next")
        agent.plugins.register(on_event(ev.StepEnd, broken))
        result = await agent.run("go")
        assert result.reason is not None
        assert (result.reason.kind, result.reason.step) == ("error", 1)
        assert (result.reason.message or "").startswith("no (raised by")


async def test_a_request_that_always_fails_can_be_cancelled() -> None:
    attempts: list[int] = []

    def retry(attempt: int) -> Retry:
        attempts.append(attempt)
        return Retry()

    async with memory_agent(model=ScriptedModel(otherwise=fail())) as agent:
        agent.plugins.register(plugin_of(agent_request_error=retry), "retry")
        agent.send("go")
        while len(attempts) < 5:
            await trio.lowlevel.checkpoint()
        agent.cancel()
        await agent.when_idle()
        assert shape(agent.session.events).endswith("S-1 T-(aborted cancelled)")


async def test_a_failure_behind_a_tool_leaves_its_result() -> None:
    async with memory_agent(call("work"), fail("no"), plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        assert shape(agent.session.events).endswith("TC(c1) TR(c1) S-1 S+2 S-2 T-(error 2)")
