"""A turn, from a message to the end of its log: steps, batches, answers of every kind."""

from __future__ import annotations

import trio
import trio.testing
from attrs import evolve

from dsh.agents import Agent, AgentOptions
from dsh.llm.chunks import Finish
from dsh.messages import CallConfig, FinishReason, PluginSource, Text, TokenUsage, ToolResultBlock, UserSource
from dsh.session import events as ev
from dsh.testing import Reply, ScriptedModel, call, hang, memory_agent, on_event, plugin_of, reply, shape, text, tool_of
from dsh.tools.tool import ToolCall, ToolResult

NOTHING = Reply(())


def echo_tool(seen: list[object]) -> object:
    def echo(call: ToolCall) -> str:
        seen.append(call.arguments)
        return "done"

    return tool_of("echo", echo)


def data_of(agent: Agent, kind: type) -> list[ev.Event]:
    return [event for event in agent.session.events if isinstance(event.data, kind)]


async def test_a_message_makes_a_turn_of_one_step() -> None:
    """A01."""
    async with memory_agent(text("hi")) as agent:
        result = await agent.run("hello")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×6 A S-1 T-(completed)"
        assert agent.session.events[0].data.trigger == ev.Trigger("message", UserSource())

        (answer,) = data_of(agent, ev.AssistantMessage)
        assert answer.data.usage == TokenUsage(10, 2)
        chunks = data_of(agent, ev.AssistantChunk)
        assert answer.source_event_seqs == tuple(event.seq for event in chunks)

        assert (result.text, result.reason, result.turn) == ("hi", ev.EndReason("completed"), 1)
        assert result.usage == TokenUsage(10, 2)


async def test_the_history_is_what_was_said() -> None:
    """A02."""
    async with memory_agent(text("hi")) as agent:
        await agent.run("hello")
        messages = agent.session.derive_messages()
        assert [(m.role, m.content) for m in messages] == [("user", (Text("hello"),)), ("assistant", (Text("hi"),))]


async def test_a_call_makes_another_step() -> None:
    """A03."""
    seen: list[object] = []
    model = ScriptedModel(call("echo", {"x": 1}), text("ok"))
    async with memory_agent(model=model, plugins={"echo": echo_tool(seen)}) as agent:
        result = await agent.run("go")
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) C×6 A TC(c1) TR(c1) S-1 S+2 C×6 A S-2 T-(completed)"
        )
        assert seen == [{"x": 1}]
        assert result.usage == TokenUsage(20, 7)
        assert model.requests[1].messages[-1].content == (ToolResultBlock("c1", (Text("done"),), False),)
        (called,) = data_of(agent, ev.ToolCall)
        (answered,) = data_of(agent, ev.ToolResult)
        assert answered.source_event_seqs == (called.seq,)


async def test_messages_of_one_frame_make_one_turn() -> None:
    """A04."""
    async with memory_agent(text("hi")) as agent:
        agent.send("one", PluginSource("first"))
        agent.send("two")
        await agent.when_idle()
        assert shape(agent.session.events) == "T+1 U U S+1 H(initial) C×6 A S-1 T-(completed)"
        assert agent.session.events[0].data.trigger.source == PluginSource("first")


async def test_a_message_during_a_turn_makes_the_next_one() -> None:
    """A05."""
    statuses: list[str] = []
    async with memory_agent(text("a"), text("b")) as agent:
        agent.plugins.register(plugin_of(agent_status=lambda status: statuses.append(status)))
        agent.plugins.register(on_event(ev.AssistantChunk, lambda _: agent.send("more")))
        await agent.run("go")
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) C×5 A S-1 T-(completed) T+2 U S+1 C×5 A S-1 T-(completed)"
        )
        assert statuses == ["running", "idle"]


async def test_an_empty_answer_leaves_no_message() -> None:
    """A07."""
    async with memory_agent(NOTHING) as agent:
        result = await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) S-1 T-(completed)"
        assert result.text == ""


async def test_an_answer_of_a_finish_alone_leaves_no_message() -> None:
    """A08."""
    async with memory_agent(Reply([Finish(FinishReason("stop"))])) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×1 S-1 T-(completed)"


async def test_usage_without_content_has_an_empty_message() -> None:
    async with memory_agent(reply()) as agent:
        await agent.run("go")
        (answer,) = data_of(agent, ev.AssistantMessage)
        assert (answer.data.content, answer.data.usage) == ((), TokenUsage(10, 0))
        assert len(agent.session.derive_messages()) == 1


async def test_a_finish_of_an_unknown_kind_is_an_ordinary_end() -> None:
    async with memory_agent(reply("x", finish="content-pause")) as agent:
        result = await agent.run("go")
        assert result.reason == ev.EndReason("completed")


async def test_meta_is_logged_and_never_sent() -> None:
    """A11."""
    look = tool_of("look", lambda _: ToolResult("seen", meta={"rows": [1]}))
    model = ScriptedModel(call("look"), text("ok"))
    async with memory_agent(model=model, plugins={"look": look}) as agent:
        await agent.run("go")
        (result,) = data_of(agent, ev.ToolResult)
        assert result.data.meta == {"rows": [1]}
        assert "rows" not in repr(model.requests[1].messages)


async def test_an_agent_without_a_model_says_so() -> None:
    """A13."""
    async with memory_agent(text("x"), options=AgentOptions()) as agent:
        result = await agent.run("go")
        assert shape(agent.session.events) == "T+1 U S+1 S-1 T-(error 1)"
        assert result.reason is not None
        assert "has no model" in str(result.reason.message)
        assert "agent_request" in str(result.reason.message)
        assert result.reason.code == "NO_MODEL"


async def test_a_plugin_may_choose_the_model() -> None:
    """A14."""

    def agent_request(config: CallConfig) -> CallConfig:
        return evolve(config, model="scripted/model")

    async with memory_agent(
        text("x"), options=AgentOptions(), plugins={"chooser": plugin_of(agent_request=agent_request)}
    ) as agent:
        result = await agent.run("go")
        assert result.text == "x"
        (header,) = data_of(agent, ev.RequestHeader)
        assert header.data.header.config.model == "scripted/model"


async def test_calls_run_one_after_another() -> None:
    """A16."""
    calls = [(f"c{n}", "echo", {"n": n}) for n in range(3)]
    seen: list[object] = []
    async with memory_agent(reply(calls=calls), text("ok"), plugins={"echo": echo_tool(seen)}) as agent:
        await agent.run("go")
        assert "A TC(c0) TR(c0) TC(c1) TR(c1) TC(c2) TR(c2) S-1" in shape(agent.session.events)
        assert seen == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_reasoning_is_part_of_the_history() -> None:
    async with memory_agent(reply("x", reasoning="hm")) as agent:
        await agent.run("go")
        assert [block.type for block in agent.session.derive_messages()[1].content] == ["reasoning", "text"]


async def test_turns_and_requests_go_on_from_each_other() -> None:
    model = ScriptedModel(text("a"), text("b"))
    async with memory_agent(model=model) as agent:
        await agent.run("one")
        result = await agent.run("two")
        assert (result.turn, result.text) == (2, "b")
        first, second = model.requests
        assert second.messages[: len(first.messages)] == first.messages
        assert len(second.messages) == 3
        assert first.session_id == agent.session.id


async def test_the_hooks_of_a_turn_come_in_this_order() -> None:
    heard: list[str] = []

    def hear(name: str) -> None:
        heard.append(name)

    recorder = plugin_of(
        agent_queued=lambda: hear("queued"),
        agent_status=lambda status: hear(status),
        agent_prompt_submit=lambda: hear("prompt-submit"),
        agent_session_prefix=lambda: hear("session-prefix"),
        agent_pre_step=lambda: hear("pre-step"),
        agent_request=lambda: hear("request"),
        llm_stream=lambda: hear("stream"),
        agent_step_result=lambda: hear("step-result"),
        agent_turn_continuation=lambda: hear("continuation"),
        prompt_assemble=lambda: hear("assemble"),
        session_flush=lambda: hear("flush"),
        session_event=lambda event: None if event.type == "assistant/chunk" else hear(event.type),
    )
    async with memory_agent(text("x")) as agent:
        agent.plugins.register(recorder)
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
    assert heard[: heard.index("idle") + 1] == [
        *("queued", "running", "turn/start", "prompt-submit", "user/message"),
        *("assemble", "session-prefix", "pre-step", "step/start", "request", "request/header", "stream"),
        *("step-result", "assistant/message", "step/end", "continuation", "turn/end", "flush", "idle"),
    ]


async def test_a_model_that_hangs_holds_nobody_else(autojump_clock: trio.testing.MockClock) -> None:
    async with memory_agent(hang()) as agent:
        agent.send("go")
        await trio.sleep(1000)
        assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2"
        assert agent.status == "running"


async def test_run_tells_of_its_own_turn_only() -> None:
    async with memory_agent(text("a"), text("b")) as agent:
        await agent.run("one")
        result = await agent.run("two")
        assert (result.text, result.turn, result.usage) == ("b", 2, TokenUsage(10, 1))


async def test_two_agents_do_not_meet() -> None:
    async with memory_agent(hang(), text("b")) as first:
        second = first.harness.create_agent(options=AgentOptions(model="scripted/model")).agent
        first.send("go")
        await trio.testing.wait_all_tasks_blocked()
        result = await second.run("go")
        assert result.text == "b"
        assert first.status == "running"
        first.cancel()
        await first.when_idle()
        assert shape(second.session.events) == "T+1 U S+1 H(initial) C×5 A S-1 T-(completed)"
