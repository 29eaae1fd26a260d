"""Cancelling and disposing, at every place: the log is closed, every call answered, and nothing is left."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.agents import Agent, AgentOptions
from dsh.decisions import Accept, Allow, Block, Continue, Retry
from dsh.errors import AgentError
from dsh.loop.calls import PARALLEL
from dsh.messages import Message, PluginSource, Text
from dsh.session import events as ev
from dsh.testing import (
    Reply,
    ScriptedModel,
    call,
    fail,
    hang,
    memory_agent,
    memory_harness,
    on_event,
    plugin_of,
    reply,
    shape,
    text,
    tool_of,
)
from dsh.tools.tool import ToolCall

OPTIONS = AgentOptions(model="scripted/model")
TWO_CALLS = reply(calls=[("c1", "work", "{}"), ("c2", "work", "{}")])


async def asleep() -> None:
    await trio.sleep_forever()


async def stuck(call: object) -> None:
    await trio.sleep_forever()


def results(agent: Agent) -> dict[str, tuple[bool, str | None]]:
    """Per call, whether it failed, and with which code."""
    found = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)]
    return {data.call_id: (data.is_error, None if data.error is None else data.error.code) for data in found}


# -- before the turn opens


async def test_cancelling_an_idle_agent_is_nothing() -> None:
    """E01."""
    async with memory_agent(text("a")) as agent:
        agent.cancel()
        result = await agent.run("go")
        assert result.reason == ev.EndReason("completed")


async def test_a_message_cancelled_before_the_driver_wakes_leaves_no_trace() -> None:
    """E02."""
    statuses: list[str] = []
    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            agent.send("go")
            nursery.start_soon(agent.when_idle)
            agent.cancel()
        assert (shape(agent.session.events), statuses) == ("", [])


async def test_a_message_cancelled_before_the_driver_first_ran_lets_waiters_go() -> None:
    """E02.  Driver, waiter and canceller begin in one batch, in any order."""
    for _ in range(20):
        async with memory_harness(text("a")) as harness:
            agent = harness.create_agent(options=OPTIONS).agent
            agent.send("go")

            async def cancel(agent: Agent = agent) -> None:
                agent.cancel()

            with trio.move_on_after(5) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(agent.when_idle)
                    nursery.start_soon(cancel)
            assert not scope.cancelled_caught


async def test_a_message_sent_behind_a_cancel_runs_alone() -> None:
    model = ScriptedModel(text("a"))
    async with memory_agent(model=model) as agent:
        agent.send("dropped")
        agent.cancel()
        agent.send("kept")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"
        assert model.requests[0].messages[0].content == (Text("kept"),)


@pytest.mark.parametrize("replacement", [False, True])
async def test_a_cancel_as_the_agent_starts_running_opens_no_turn(replacement: bool) -> None:
    """E04, E05."""
    statuses: list[str] = []

    def status(status: str) -> None:
        statuses.append(status)
        if statuses == ["running"]:
            agent.cancel()
            if replacement:
                agent.send("kept")

    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(agent_status=status))
        await agent.run("dropped")
        assert statuses == ["running", "idle"]
        assert shape(agent.session.events) == ("T+1 U S+1 H(initial) C×5 A S-1 T-(completed)" if replacement else "")


async def test_sending_and_cancelling_as_the_agent_comes_to_rest_harms_nothing() -> None:
    def status(status: str) -> None:
        if status == "idle":
            agent.send("dropped")
            agent.cancel()

    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_status=status))
        await agent.run("one")
        result = await agent.run("two")
        assert result.text == "b"
        assert agent.session.last_turn == 2


# -- cancels in listeners and hooks: where, and the log of the turn

LISTENERS = [
    (ev.TurnStart, "T+1 U T-(aborted x)"),
    (ev.UserMessage, "T+1 U T-(aborted x)"),
    (ev.StepStart, "T+1 U S+1 S-1 T-(aborted x)"),
    (ev.RequestHeader, "T+1 U S+1 H(initial) S-1 T-(aborted x)"),
    (ev.AssistantChunk, "T+1 U S+1 H(initial) C×1 S-1 T-(aborted x)"),
    (ev.AssistantMessage, "T+1 U S+1 H(initial) C×10 A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    (ev.ToolCall, "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    (ev.ToolResult, "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    (ev.StepEnd, "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR(c2) S-1 T-(aborted x)"),
    (ev.TurnEnd, "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR(c2) S-1 S+2 C×7 A S-2 T-(completed)"),
]


@pytest.mark.parametrize(("kind", "log"), LISTENERS)
async def test_cancel_in_a_listener(kind: type, log: str) -> None:
    """E06, E08."""
    async with memory_agent(TWO_CALLS, text("end"), text("fine"), plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(on_event(kind, lambda _: agent.cancel("x")))
        await agent.run("go")
        assert shape(agent.session.events) == log
        assert agent.status == "idle"
        assert (await agent.run("again")).reason == ev.EndReason("completed")


HOOKS = [
    ("agent_prompt_submit", "T+1 U T-(aborted x)"),
    ("prompt_sections", "T+1 U T-(aborted x)"),
    ("tools_register", "T+1 U T-(aborted x)"),
    ("prompt_assemble", "T+1 U T-(aborted x)"),
    ("agent_session_prefix", "T+1 U T-(aborted x)"),
    ("agent_pre_step", "T+1 U T-(aborted x)"),
    ("agent_request", "T+1 U S+1 H(initial) S-1 T-(aborted x)"),
    ("llm_stream", "T+1 U S+1 H(initial) S-1 T-(aborted x)"),
    ("agent_step_result", "T+1 U S+1 H(initial) C×10 A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("tools_pre_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("tools_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("tools_post_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("agent_turn_continuation", "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR(c2) S-1 T-(aborted x)"),
]


@pytest.mark.parametrize(("hook", "log"), HOOKS)
async def test_cancel_in_a_hook_that_waits_for_nothing(hook: str, log: str) -> None:
    async with memory_agent(TWO_CALLS, text("fine"), plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(**{hook: lambda: agent.cancel("x")}), "canceller")
        await agent.run("go")
        assert shape(agent.session.events) == log


CUT_OFF = [
    ("agent_prompt_submit", "T+1 PB T-(aborted x)"),
    ("prompt_assemble", "T+1 U T-(aborted x)"),
    ("agent_session_prefix", "T+1 U T-(aborted x)"),
    ("agent_pre_step", "T+1 U T-(aborted x)"),
    ("agent_request", "T+1 U S+1 S-1 T-(aborted x)"),
    ("llm_stream", "T+1 U S+1 H(initial) S-1 T-(aborted x)"),
    ("agent_step_result", "T+1 U S+1 H(initial) C×10 S-1 T-(aborted x)"),
    ("tools_pre_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("tools_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("tools_post_execute", "T+1 U S+1 H(initial) C×10 A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)"),
    ("agent_turn_continuation", "T+1 U S+1 H(initial) C×10 A TC(c1) TR(c1) TC(c2) TR(c2) S-1 T-(aborted x)"),
]


@pytest.mark.parametrize("end", ["cancel", "dispose"])
@pytest.mark.parametrize(("hook", "log"), CUT_OFF)
async def test_the_end_of_a_turn_in_a_hook_that_waits(hook: str, log: str, end: str) -> None:
    """E14, E15."""
    async with memory_harness(TWO_CALLS, plugins={"work": tool_of("work")}) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        agent.plugins.register(plugin_of(**{hook: asleep}), "sleeper")
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        if end == "cancel":
            agent.cancel("x")
            await agent.when_idle()
        else:
            await handle.dispose()
            log = log.replace("aborted x", "disposed")
        assert shape(agent.session.events) == log


async def test_a_prompt_whose_gate_was_cut_off_is_logged_with_the_reason() -> None:
    async with memory_agent() as agent:

        async def gate(content: tuple[Text, ...]) -> Allow:
            if content[0].text == "two":
                await trio.sleep_forever()
            return Allow()

        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        for prompt in ("one", "two", "three"):
            agent.send(prompt)
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("changed my mind")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 D(gate allow) U PB PB T-(aborted changed my mind)"
        blocked = [event.data for event in agent.session.events if isinstance(event.data, ev.PromptBlocked)]
        assert [(data.content, data.reason) for data in blocked] == [
            ((Text("two"),), "changed my mind"),
            ((Text("three"),), "changed my mind"),
        ]


async def test_a_gate_cut_off_inside_a_nursery_of_its_own_loses_no_prompt() -> None:
    async def failing_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("cleanup failed")

    async def gate() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing_late)
            nursery.start_soon(trio.sleep_forever)

    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        await agent.when_idle()
        assert "PB" in shape(agent.session.events)
        assert shape(agent.session.events).endswith("T-(aborted x)")


async def test_a_batch_that_was_blocked_and_cancelled_is_rejected() -> None:
    def gate() -> Block:
        agent.cancel()
        return Block("no")

    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 D(gate block) PB T-(rejected no)"


# -- while the model answers


async def test_a_cut_off_answer_keeps_the_text_that_was_seen() -> None:
    """E09, E12."""
    async with memory_agent(hang("so far"), text("b")) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        agent.cancel("y")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 A~ S-1 T-(aborted x)"
        assert agent.session.derive_messages()[-1] == Message("assistant", "so far")
        (kept,) = (event for event in agent.session.events if isinstance(event.data, ev.AssistantMessage))
        assert kept.source_event_seqs == (4, 5)
        assert (await agent.run("again")).turn == 2


async def test_a_cut_off_answer_drops_unfinished_calls_and_reasoning() -> None:
    whole = reply("text", reasoning="thought", calls=[("c1", "work", '{"a": 1}')])
    part = Reply(whole.chunks[:-5], hangs=True)
    async with memory_agent(part) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
        assert agent.session.derive_messages()[-1] == Message("assistant", "text")


async def test_a_cut_off_answer_without_text_leaves_no_message() -> None:
    async with memory_agent(hang("")) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 S-1 T-(aborted cancelled)"


async def test_a_model_that_never_waits_can_be_cancelled() -> None:
    steps = 0

    def pre_step() -> None:
        nonlocal steps
        steps += 1

    model = ScriptedModel(otherwise=call("nothing"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_pre_step=pre_step))
        agent.send("go")
        while steps < 5:
            await trio.lowlevel.checkpoint()
        agent.cancel()
        await agent.when_idle()
        assert shape(agent.session.events).endswith("T-(aborted cancelled)")


async def test_a_cancel_during_the_wait_before_a_retry(autojump_clock: trio.testing.MockClock) -> None:
    async with memory_agent(fail(after="so"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_request_error=lambda: Retry(after=3600)), "retry")
        agent.send("go")
        await trio.sleep(1)
        agent.cancel("x")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 D(retry retry) A~ S-1 T-(aborted x)"


async def test_an_error_on_the_way_out_of_a_cancelled_turn_is_no_failure() -> None:
    async def request() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("cleanup failed")

    errors: list[object] = []
    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(agent_request=request, agent_error=lambda error: errors.append(error)), "bad")
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        await agent.when_idle()
        assert shape(agent.session.events).endswith("S+1 D(bad raised) S-1 T-(aborted x)")
        assert errors == []


# -- while tools run


async def test_open_calls_are_settled_by_what_became_of_them() -> None:
    """The first call was running, the second had not begun."""
    async with memory_agent(TWO_CALLS, plugins={"work": tool_of("work", stuck)}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        await agent.when_idle()
        assert shape(agent.session.events).endswith("A TC(c1) TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)")
        assert results(agent) == {"c1": (True, "ABORTED"), "c2": (True, "ABORTED_BEFORE_DISPATCH")}


async def test_a_call_that_its_gate_still_held_had_no_effect() -> None:
    async with memory_agent(TWO_CALLS, plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(tools_pre_execute=asleep))
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        await agent.when_idle()
        assert results(agent)["c1"] == (True, "ABORTED_BEFORE_DISPATCH")


async def test_a_tool_that_cancels_and_returns_has_its_result_logged() -> None:
    def work(call: object) -> str:
        agent.cancel("x")
        agent.inject("note", PluginSource("work"))
        return "done"

    async with memory_agent(TWO_CALLS, plugins={"work": tool_of("work", work)}) as agent:
        await agent.run("go")
        assert shape(agent.session.events).endswith("TC(c1) CX TR(c1) TC(c2) TR!(c2) S-1 T-(aborted x)")
        assert results(agent)["c1"] == (False, None)


async def test_a_tool_that_raises_while_it_is_cancelled_ends_the_turn_aborted() -> None:
    async def work(call: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asleep)
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("cleanup failed")

    errors: list[object] = []
    async with memory_agent(TWO_CALLS, text("b"), plugins={"work": tool_of("work", work)}) as agent:
        agent.plugins.register(plugin_of(agent_error=lambda error: errors.append(error)))
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("x")
        await agent.when_idle()
        assert shape(agent.session.events).endswith("TR!(c1) TC(c2) TR!(c2) S-1 T-(aborted x)")
        assert errors == []
        assert (await agent.run("again")).text == "b"


@pytest.mark.parametrize("end", ["cancel", "dispose"])
async def test_the_end_of_calls_beside_each_other(end: str) -> None:
    async def work(call: ToolCall) -> str:
        if call.id == "c2":
            return "done"
        return await trio.sleep_forever()

    calls = reply(calls=[(f"c{n}", "work", "{}") for n in range(1, PARALLEL + 5)])
    async with memory_harness(calls, plugins={"work": tool_of("work", work, parallel=True)}) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        if end == "cancel":
            handle.agent.cancel()
            await handle.agent.when_idle()
        else:
            await handle.dispose()
        codes = [code for _, code in results(handle.agent).values()]
        # What had ended, had ended: one that hangs does not cost the others their results.
        assert codes == ["ABORTED", None] + ["ABORTED"] * (PARALLEL - 1) + ["ABORTED_BEFORE_DISPATCH"] * 3


async def test_contexts_of_results_are_dropped_with_the_turn() -> None:
    async with memory_agent(TWO_CALLS, plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(tools_post_execute=lambda: Accept(context="note")), "notes")
        agent.plugins.register(
            on_event(ev.ToolResult, lambda e: agent.cancel() if e.data.call_id == "c2" else None, every=True)
        )
        await agent.run("go")
        assert "CX" not in shape(agent.session.events)
        assert results(agent) == {"c1": (False, None), "c2": (False, None)}


# -- after the step


async def test_a_cancelled_continuation_makes_no_step_and_leaves_no_message() -> None:
    """E11."""

    def continuation() -> Continue:
        agent.cancel("x")
        return Continue("more")

    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=continuation), "more")
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 D(more continue) T-(aborted x)"
        assert agent.session.last_turn == 1


async def test_a_cancel_during_the_flush_drops_what_was_queued_before() -> None:
    async def flush() -> None:
        if agent.session.last_turn == 1:
            agent.send("dropped")
            agent.cancel()
            agent.send("kept")
        await trio.lowlevel.checkpoint()

    model = ScriptedModel(text("a"), text("b"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(session_flush=flush))
        await agent.run("go")
        assert shape(agent.session.events).count("T-(completed)") == 2
        assert model.requests[1].messages[-1].content == (Text("kept"),)


# -- run


async def test_cancelling_run_cancels_the_turn_and_waits_for_its_end() -> None:
    async with memory_agent(hang(), text("b")) as agent:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.run, "go")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert shape(agent.session.events).endswith("A~ S-1 T-(aborted cancelled)")
        assert agent.status == "idle"
        assert (await agent.run("again")).text == "b"


async def test_run_with_a_deadline(autojump_clock: trio.testing.MockClock) -> None:
    async with memory_agent(hang()) as agent:
        with trio.move_on_after(10):
            await agent.run("go")
        assert agent.status == "idle"


async def test_a_run_cancelled_before_it_opened_tells_so() -> None:
    async with memory_agent() as agent:
        agent.plugins.register(plugin_of(agent_queued=lambda: agent.cancel()))
        result = await agent.run("go")
        assert (result.reason, result.turn, result.text) == (None, 0, "")


# -- dispose


async def test_disposing_an_idle_agent_logs_nothing() -> None:
    statuses: list[str] = []
    async with memory_harness() as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        await handle.dispose()
        await handle.dispose()
        assert (shape(handle.agent.session.events), statuses) == ("", ["disposed"])


async def test_disposing_drops_what_is_queued() -> None:
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.send("dropped")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.dispose)
        assert shape(handle.agent.session.events).endswith("T-(disposed)") or not handle.agent.session.events


async def test_disposing_while_the_model_answers_keeps_what_was_seen() -> None:
    statuses: list[str] = []
    async with memory_harness(hang("so far")) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.send("never")
        await handle.dispose()
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 A~ S-1 T-(disposed)"
        assert statuses == ["running", "disposed"]
        assert harness.agents.list() == []


async def test_between_steps_a_cancel_is_stronger_than_disposal() -> None:
    async with memory_harness(text("a")) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent

        async def continuation() -> None:
            agent.cancel("x")
            await handle.dispose()

        agent.plugins.register(plugin_of(agent_turn_continuation=continuation))
        agent.send("go")
        await agent.when_idle()
        assert shape(agent.session.events).endswith("S-1 T-(aborted x)")
        assert agent.status == "disposed"


@pytest.mark.parametrize("waits", range(6))
async def test_disposal_between_two_turns_harms_nothing(waits: int) -> None:
    """The agent's end may begin in the moment between the flush and the next turn."""
    warnings: list[str] = []
    async with memory_harness(text("a"), hang(), warnings=warnings) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent

        def at_end(event: ev.Event) -> None:
            agent.send("more")
            harness.start_soon(handle.dispose)

        async def flush() -> None:
            for _ in range(waits):
                await trio.lowlevel.checkpoint()

        agent.plugins.register(on_event(ev.TurnEnd, at_end))
        agent.plugins.register(plugin_of(session_flush=flush))
        agent.send("go")
        await agent.when_idle()
        first = "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"
        log = shape(agent.session.events)
        assert log == first or (log.startswith(f"{first} T+2") and log.endswith("T-(disposed)"))
    assert warnings == []


@pytest.mark.parametrize("where", ["agent_prompt_submit", "agent_pre_step", "agent_request", "tools_execute"])
async def test_an_agent_may_be_disposed_from_inside_its_own_turn(where: str) -> None:
    """The wait is cut off by the end that it began: no deadlock."""
    async with memory_harness(call("work"), plugins={"work": tool_of("work")}) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        cut_off: list[str] = []

        async def end() -> None:
            try:
                await handle.dispose()
            except trio.Cancelled:
                cut_off.append(where)
                raise

        agent.plugins.register(plugin_of(**{where: end}))
        agent.send("go")
        await agent.when_idle()
        assert cut_off == [where]
        assert shape(agent.session.events).endswith("T-(disposed)")


async def test_an_agent_may_be_disposed_by_a_task_that_a_tool_started() -> None:
    async with memory_harness(call("end"), text("never")) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent

        async def end(call: object) -> None:
            agent.start_soon(handle.dispose)
            await trio.sleep_forever()

        agent.plugins.register(tool_of("end", end))
        agent.send("go")
        await agent.when_idle()
        await handle.dispose()
        assert shape(agent.session.events).endswith("TC(c1) TR!(c1) S-1 T-(disposed)")
        assert harness.agents.list() == []


async def test_an_agent_disposed_in_its_own_flush_is_waited_for_with_a_bound(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A flush that waits for the end of the agent, which waits for the flush."""
    warnings: list[str] = []
    async with memory_harness(text("a"), warnings=warnings) as harness:
        handle = harness.create_agent(options=OPTIONS)

        async def flush() -> None:
            await handle.dispose()

        handle.agent.plugins.register(plugin_of(session_flush=flush))
        handle.agent.send("go")
        await handle.agent.when_idle()
        await handle.dispose()
        assert shape(handle.agent.session.events).endswith("T-(completed)")
        assert any("flushing took longer" in warning for warning in warnings)


async def test_a_flush_is_finished_although_the_agent_is_disposed() -> None:
    flushed: list[int] = []
    gate = trio.Event()

    async def flush() -> None:
        await gate.wait()
        flushed.append(len(agent.session.events))

    async with memory_harness(text("a")) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        agent.plugins.register(plugin_of(session_flush=flush))
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.dispose)
            await trio.testing.wait_all_tasks_blocked()
            assert flushed == []
            gate.set()
        assert flushed == [len(agent.session.events)]


async def test_an_agent_that_does_not_end_is_left_behind_with_a_warning(
    autojump_clock: trio.testing.MockClock,
) -> None:
    warnings: list[str] = []
    release = trio.Event()

    async def stubborn(call: object) -> str:
        with trio.CancelScope(shield=True):
            await release.wait()
        return "late"

    async with memory_harness(call("stubborn"), warnings=warnings, check_logs=False) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.plugins.register(tool_of("stubborn", stubborn))
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        await handle.dispose()
        assert any("did not end within" in warning for warning in warnings)
        assert harness.agents.list() == []
        release.set()


async def test_a_status_listener_that_raises_does_not_stop_the_end() -> None:
    """E18."""

    def status() -> None:
        raise RuntimeError("no")

    async with memory_harness() as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.plugins.register(plugin_of(agent_status=status))
        await handle.dispose()
        assert harness.agents.list() == []


async def test_who_waits_for_rest_is_let_go_when_the_driver_has_ended() -> None:
    """E17."""
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        seen: list[str] = []

        async def wait() -> None:
            await agent.when_idle()
            seen.append(shape(agent.session.events)[-12:])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await handle.dispose()
        assert seen == ["T-(disposed)"]


async def test_run_of_an_agent_that_is_disposed_tells_so() -> None:
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        reasons: list[object] = []

        async def go() -> None:
            reasons.append((await handle.agent.run("go")).reason)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(go)
            await trio.testing.wait_all_tasks_blocked()
            await handle.dispose()
        assert reasons == [ev.EndReason("disposed")]


async def test_cancelling_the_wait_for_the_end_does_not_stop_it() -> None:
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await handle.dispose()
        await handle.agent.when_idle()
        await handle.dispose()
        assert shape(handle.agent.session.events).endswith("T-(disposed)")


async def test_a_disposed_agent_gets_no_children() -> None:
    async with memory_harness() as harness:
        handle = harness.create_agent(options=OPTIONS)
        await handle.dispose()
        with pytest.raises(AgentError, match="disposed"):
            harness.create_agent(parent=handle.agent)
