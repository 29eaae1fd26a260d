"""What plugins can decide in a turn: prompts, requests, answers, and whether it goes on."""

from __future__ import annotations

import pytest
import trio
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from dsh.decisions import Allow, Block, Continue, Stop
from dsh.llm.adapter import Request
from dsh.llm.chunks import ChunkStream
from dsh.messages import USER, CallConfig, HookContext, Message, PluginSource, Text, ToolCallBlock
from dsh.session import events as ev
from dsh.testing import Reply, ScriptedModel, call, memory_agent, plugin_of, reply, shape, text, tool_of, wrapper_of

SOURCE = PluginSource("notes")


async def test_a_gate_may_replace_a_prompt() -> None:
    """C01."""
    model = ScriptedModel(text("a"))
    gate = plugin_of(agent_prompt_submit=lambda: Allow(content="clean"))
    async with memory_agent(model=model, plugins={"gate": gate}) as agent:
        await agent.run("dirty")
        assert model.requests[0].messages[0].content == (Text("clean"),)
        assert "dirty" not in repr(list(agent.session.events))


async def test_context_of_a_prompt_stands_behind_it() -> None:
    """C02."""
    seen: list[int] = []
    gate = plugin_of(
        agent_prompt_submit=lambda: Allow(context=HookContext("note", SOURCE)),
        agent_pre_step=lambda agent: seen.append(len(agent.session.derive_messages())),
    )
    async with memory_agent(text("a"), plugins={"gate": gate}) as agent:
        await agent.run("go")
        assert shape(agent.session.events) == "T+1 D(gate allow) U CX S+1 H(initial) C×5 A S-1 T-(completed)"
        assert seen == [2]
        (context,) = (e for e in agent.session.events if isinstance(e.data, ev.ContextMessage))
        assert context.data.source == SOURCE


async def test_context_without_a_source_names_the_plugin() -> None:
    gate = plugin_of(agent_prompt_submit=lambda: Allow(context="note"))
    async with memory_agent(text("a"), plugins={"gate": gate}) as agent:
        await agent.run("go")
        (context,) = (e for e in agent.session.events if isinstance(e.data, ev.ContextMessage))
        assert context.data.source == PluginSource("gate")


async def test_a_blocked_prompt_leaves_the_others_alone() -> None:
    """C04."""

    def gate(content: tuple[Text, ...]) -> Block | None:
        return Block("not that") if content[0].text == "bad" else None

    model = ScriptedModel(text("a"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        agent.send("bad")
        agent.send("good")
        await agent.when_idle()
        assert shape(agent.session.events) == ("T+1 D(gate block) PB U S+1 H(initial) C×5 A S-1 T-(completed)")
        assert len(model.requests[0].messages) == 1
        (blocked,) = (e.data for e in agent.session.events if isinstance(e.data, ev.PromptBlocked))
        assert (blocked.content, blocked.source, blocked.reason) == ((Text("bad"),), USER, "not that")


async def test_a_turn_without_an_admitted_prompt_is_rejected_for_the_last_reason() -> None:
    """C05."""

    def gate(content: tuple[Text, ...]) -> Block:
        return Block(f"no {content[0].text}")

    model = ScriptedModel()
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        agent.send("one")
        agent.send("two")
        await agent.when_idle()
        assert shape(agent.session.events) == ("T+1 D(gate block) PB D(gate block) PB T-(rejected no two)")
        assert model.requests == []


async def test_a_raising_gate_blocks_its_prompt_alone() -> None:
    """D02."""
    asked = 0

    def gate() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("broken")

    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(agent_prompt_submit=gate), "gate")
        agent.send("one")
        agent.send("two")
        await agent.when_idle()
        assert shape(agent.session.events) == ("T+1 D(gate raised) PB U S+1 H(initial) C×5 A S-1 T-(completed)")
        (blocked,) = (e.data for e in agent.session.events if isinstance(e.data, ev.PromptBlocked))
        assert "gate" in blocked.reason
        assert "broken" in blocked.reason


async def test_an_answer_may_be_rewritten_before_it_is_logged() -> None:
    """C07.  What the model said is in the chunks alone; the call that was added is run."""
    calls: list[str] = []
    answers = iter(["secret"])

    def step_result(message: Message) -> Message | None:
        if next(answers, None) is None:
            return None
        return Message("assistant", (Text("public"), ToolCallBlock("mine", "work", "{}")))

    tool = tool_of("work", lambda call: calls.append(call.id))
    rewriter = plugin_of(agent_step_result=step_result)
    model = ScriptedModel(text("secret"), text("ok"))
    async with memory_agent(model=model, plugins={"rewriter": rewriter, "tool": tool}) as agent:
        await agent.run("go")
        assert "D(rewriter answered) A TC(mine) TR(mine) S-1 S+2" in shape(agent.session.events)
        assert calls == ["mine"]
        assert "secret" not in repr(model.requests[1].messages)


async def test_a_wrapper_may_adjust_an_answer() -> None:
    def step_result():  # type: ignore[no-untyped-def]  # a wrapper
        message = yield
        return evolve(message, content=(Text("adjusted"),))

    async with memory_agent(text("x")) as agent:
        agent.plugins.register(wrapper_of(agent_step_result=step_result))
        assert (await agent.run("go")).text == "adjusted"


async def test_content_added_to_an_empty_answer_has_no_sources() -> None:
    """C08."""
    adder = plugin_of(agent_step_result=lambda: Message("assistant", "added"))
    async with memory_agent(Reply(()), plugins={"adder": adder}) as agent:
        await agent.run("go")
        (answer,) = (e for e in agent.session.events if isinstance(e.data, ev.AssistantMessage))
        assert answer.surface_op == "append"
        assert answer.source_event_seqs is None


async def test_a_continuation_makes_steps() -> None:
    """C10."""
    model = ScriptedModel(text("a"), text("b"), text("c"))
    asked: list[object] = []

    def continuation(decision: object) -> Continue | None:
        asked.append(decision)
        return Continue() if len(asked) < 3 else None

    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=continuation))
        await agent.run("go")
        assert len(model.requests) == 3
        assert asked == [Stop(), Stop(), Stop()]
        assert agent.session.last_turn == 1


async def test_the_reason_of_a_continuation_is_said_to_the_model() -> None:
    model = ScriptedModel(text("a"), text("b"))
    answers = iter([Continue(HookContext("tests fail", SOURCE))])
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=lambda: next(answers, None)))
        await agent.run("go")
        assert "S-1 D(" in shape(agent.session.events)
        assert "ST S+2" in shape(agent.session.events)
        assert Text("tests fail") in model.requests[1].messages[-1].content


async def test_a_continuation_may_stop_a_turn_with_results() -> None:
    model = ScriptedModel(call("nothing"))
    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_turn_continuation=lambda: Stop()), "stopper")
        await agent.run("go")
        assert shape(agent.session.events).endswith("TC(c1) TR!(c1) S-1 D(stopper stop) T-(completed)")


async def test_pre_step_sees_the_prompt_and_what_it_adds_is_in_the_request() -> None:
    """C11."""
    model = ScriptedModel(call("nothing"), text("ok"))
    seen: list[tuple[int, int, str, object]] = []

    def pre_step(turn: int, step: int, system: str, prefix: object) -> None:
        seen.append((turn, step, system, prefix))
        if step == 1:
            agent.inject("note", SOURCE)

    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_pre_step=pre_step))
        await agent.run("go")
        assert shape(agent.session.events).startswith("T+1 U CX S+1 H(initial)")
        assert [entry[:2] for entry in seen] == [(1, 1), (1, 2)]
        assert [entry[2] for entry in seen] == [request.system for request in model.requests]
        assert [len(request.messages) for request in model.requests] == [2, 4]


async def test_a_request_cannot_be_changed_by_who_sees_it() -> None:
    """C13."""

    def stream(request: Request) -> None:
        request.messages += (Message("user", "smuggled"),)  # type: ignore[misc]  # that is the point

    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(llm_stream=stream))
        result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.kind == "error"
        with pytest.raises(FrozenInstanceError):
            stream(Request("m", ()))


async def test_history_may_be_replaced_before_a_step() -> None:
    """C14."""
    model = ScriptedModel(text("a"), text("b"))
    compacted: list[int] = []

    def pre_step(turn: int) -> None:
        if turn == 2:
            first, last = agent.session.surface.seqs[0], agent.session.surface.seqs[1]
            summary = ev.ContextMessage((Text("summary"),), SOURCE)
            agent.session.append(summary, replace=ev.Replace(first, last), sources=[first, last])
            compacted.append(first)

    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_pre_step=pre_step))
        await agent.run("one")
        await agent.run("two")
        assert compacted
        assert [m.content[0] for m in model.requests[1].messages] == [Text('<context source="plugin">'), Text("two")]
        assert "HD" not in shape(agent.session.events)


async def test_the_settings_of_a_request_stay_until_they_are_changed() -> None:
    model = ScriptedModel(text("a"), text("b"), text("c"))
    given: list[CallConfig] = []

    def agent_request(turn: int, config: CallConfig) -> CallConfig:
        given.append(config)
        return evolve(config, temperature=0.5) if turn == 2 else config

    async with memory_agent(model=model) as agent:
        agent.plugins.register(plugin_of(agent_request=agent_request))
        for prompt in ("one", "two", "three"):
            await agent.run(prompt)
        assert [config.temperature for config in given] == [None, None, 0.5]
        assert [request.temperature for request in model.requests] == [None, 0.5, 0.5]


async def test_a_stream_may_be_wrapped() -> None:
    class Counting:
        def __init__(self, inner: ChunkStream) -> None:
            self.inner = inner

        def __aiter__(self) -> Counting:
            return self

        async def __anext__(self) -> object:
            counted.append("chunk")
            return await self.inner.__anext__()

        async def aclose(self) -> None:
            counted.append("closed")
            await self.inner.aclose()

    def stream():  # type: ignore[no-untyped-def]  # a wrapper
        inner = yield
        return Counting(inner)

    counted: list[str] = []
    async with memory_agent(text("x")) as agent:
        agent.plugins.register(wrapper_of(llm_stream=stream))
        await agent.run("go")
        assert counted == ["chunk"] * 6 + ["closed"]


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("agent_request", "agent_request is answered with CallConfig, not with 'nonsense'"),
        ("agent_step_result", "agent_step_result is answered with Message, not with 'nonsense'"),
        ("agent_turn_continuation", "agent_turn_continuation is answered with Continue or Stop, not with 'nonsense'"),
        ("prompt_assemble", "prompt_assemble is answered with Assembly, not with 'nonsense'"),
    ],
)
async def test_an_answer_of_the_wrong_kind_fails_the_turn_and_says_so(hook: str, said: str) -> None:
    async with memory_agent(text("a")) as agent:
        agent.plugins.register(plugin_of(**{hook: lambda: "nonsense"}))
        result = await agent.run("go")
        assert result.reason is not None
        assert (result.reason.kind, result.reason.step, result.reason.code) == ("error", 1, "HOOK")
        assert (result.reason.message or "").startswith(f"{said} (raised by")


async def test_decisions_of_plugins_are_in_the_log() -> None:
    async def gate() -> Allow:
        await trio.lowlevel.checkpoint()
        return Allow()

    async with memory_agent(text("a"), plugins={"gate": plugin_of(agent_prompt_submit=gate)}) as agent:
        await agent.run("go")
        (decision,) = (e.data for e in agent.session.events if isinstance(e.data, ev.HookDecision))
        assert (decision.hook, decision.plugin, decision.verdict) == ("agent_prompt_submit", "gate", "allow")
        assert (decision.turn, decision.step) == (1, None)


async def test_a_call_added_by_a_rewriter_without_an_id_gets_one() -> None:
    answers = iter([Message("assistant", (ToolCallBlock("", "nothing", ""),))])
    async with memory_agent(reply("x"), text("ok")) as agent:
        agent.plugins.register(plugin_of(agent_step_result=lambda: next(answers, None)))
        await agent.run("go")
        assert "TC(call-1) TR!(call-1)" in shape(agent.session.events)
