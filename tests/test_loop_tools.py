"""The calls of an answer: judged, run and logged in the model's order, whatever they do."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.decisions import Accept, Allow, Ask, Block, Deny
from dsh.errors import ToolError
from dsh.jsonvalue import loads
from dsh.llm.chunks import Finish
from dsh.loop.calls import PARALLEL
from dsh.messages import FinishReason, Message, PluginSource, Text, ToolCallBlock
from dsh.session import events as ev
from dsh.session.log import Session
from dsh.testing import (
    Reply,
    ScriptedModel,
    call,
    memory_agent,
    on_event,
    plugin_of,
    reply,
    shape,
    text,
    tool_of,
    wrapper_of,
)
from dsh.tools.tool import Tool, ToolCall, ToolResult, Tools


def results(session: Session) -> list[ev.ToolResult]:
    return [event.data for event in session.events if isinstance(event.data, ev.ToolResult)]


def said(result: ev.ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


async def one_result(plugin: object, *plugins: object, reply: Reply | None = None) -> ev.ToolResult:
    """The result of one call, in a turn that goes on."""
    given = {f"p{n}": plugin for n, plugin in enumerate((plugin, *plugins))}
    async with memory_agent(reply or call("work"), text("ok"), plugins=given) as agent:
        result = await agent.run("go")
        assert result.reason == ev.EndReason("completed")
        (found,) = results(agent.session)
        return found


async def test_an_unknown_tool_is_an_error_that_names_those_there_are() -> None:
    """J01."""
    result = await one_result(tool_of("works"))
    assert result.error == ev.ErrorInfo("ToolNotFoundError", "UNKNOWN_TOOL")
    assert "Did you mean works?" in said(result)


async def test_a_tool_that_raises_says_why() -> None:
    """J02."""

    def broken(call: ToolCall) -> None:
        raise ValueError("too bad")

    result = await one_result(tool_of("work", broken))
    assert (said(result), result.is_error, result.error) == ("Error: too bad", True, None)


async def test_an_error_of_dsh_carries_its_name_and_code() -> None:
    """J02."""

    def broken(call: ToolCall) -> None:
        raise ToolError("no such file", code="NOT_FOUND")

    result = await one_result(tool_of("work", broken))
    assert result.error == ev.ErrorInfo("ToolError", "NOT_FOUND")


async def test_a_tool_that_returns_nonsense_says_so() -> None:
    result = await one_result(tool_of("work", lambda call: 3))
    assert result.is_error
    assert "returned what is no result" in said(result)


async def test_meta_that_is_no_json_is_an_error_of_the_tool() -> None:
    result = await one_result(tool_of("work", lambda call: ToolResult("x", meta={"set": {1}})))
    assert result.is_error
    assert "JSON" in said(result)


async def test_all_that_is_wrong_with_arguments_is_said_at_once_and_the_tool_does_not_run() -> None:
    """J03."""
    ran: list[object] = []
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"type": "string", "enum": ["r", "w"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path", "mode"],
    }

    def work(arguments: object, call: ToolCall) -> str:
        ran.append(arguments)
        return "done"

    tool = Tool("work", "Work.", schema, work)
    result = await one_result(
        plugin_of(tools_register=lambda tools: tools.add(tool)), reply=call("work", {"mode": "x", "tags": ["a", 1]})
    )
    assert result.error == ev.ErrorInfo("ToolArgsError", "INVALID_ARGS")
    for part in ("path", "mode", "tags[1]"):
        assert part in said(result)
    assert ran == []


@pytest.mark.parametrize("raw", ["", "  \n", "null", "{}"])
async def test_no_arguments_are_an_empty_object(raw: str) -> None:
    """A10."""
    seen: list[object] = []
    async with memory_agent(call("work", raw), text("ok")) as agent:
        agent.plugins.register(tool_of("work", lambda call: seen.append(call.arguments)))
        await agent.run("go")
        assert seen == [{}]
        (logged,) = (e.data for e in agent.session.events if isinstance(e.data, ev.ToolCall))
        assert logged.arguments == raw


@pytest.mark.parametrize("raw", ["not json", '{"a": 1', "[1]", '"text"', "3", '{"a": NaN}'])
async def test_broken_arguments_never_run(raw: str) -> None:
    """A10."""
    ran: list[object] = []
    judged: list[object] = []
    async with memory_agent(call("work", raw), text("ok")) as agent:
        agent.plugins.register(tool_of("work", ran.append))
        agent.plugins.register(plugin_of(tools_pre_execute=lambda call: judged.append(call)))
        await agent.run("go")
        (result,) = results(agent.session)
        assert result.error == ev.ErrorInfo("ToolArgsError", "INVALID_ARGS")
        assert raw in said(result)
        assert (ran, judged) == ([], [])
        (logged,) = (e.data for e in agent.session.events if isinstance(e.data, ev.ToolCall))
        assert logged.arguments == raw


# -- the hooks around a tool


async def test_a_denied_call_does_not_run_and_the_model_reads_why() -> None:
    ran: list[object] = []
    result = await one_result(tool_of("work", ran.append), plugin_of(tools_pre_execute=lambda: Deny("not that")))
    assert (said(result), result.is_error, result.error) == ("Error: not that", True, None)
    assert ran == []


async def test_a_question_that_nobody_answers_is_a_denial() -> None:
    ran: list[object] = []
    result = await one_result(tool_of("work", ran.append), plugin_of(tools_pre_execute=lambda: Ask("really?")))
    assert result.error == ev.ErrorInfo("ToolError", "APPROVAL_UNANSWERED")
    assert "really?" in said(result)
    assert ran == []


async def test_an_approver_may_answer_it() -> None:
    def approve():  # type: ignore[no-untyped-def]  # a wrapper
        verdict = yield
        return Allow() if isinstance(verdict, Ask) else verdict

    result = await one_result(
        tool_of("work"), plugin_of(tools_pre_execute=lambda: Ask()), wrapper_of(tools_pre_execute=approve)
    )
    assert said(result) == "done"


async def test_a_plugin_may_run_a_call_elsewhere() -> None:
    ran: list[object] = []
    result = await one_result(
        tool_of("work", ran.append), plugin_of(tools_execute=lambda call: ToolResult(f"replayed {call.id}"))
    )
    assert said(result) == "replayed c1"
    assert ran == []


async def test_a_plugin_that_answers_nonsense_makes_an_error_result() -> None:
    result = await one_result(tool_of("work"), plugin_of(tools_execute=lambda: "nonsense"))
    assert result.error == ev.ErrorInfo("HookError", "HOOK")


async def test_accepted_content_keeps_what_the_result_was() -> None:
    """J05."""

    def broken(call: ToolCall) -> None:
        raise ToolError("secret path", code="NOT_FOUND")

    result = await one_result(tool_of("work", broken), plugin_of(tools_post_execute=lambda: Accept(content="hidden")))
    assert (said(result), result.is_error) == ("hidden", True)
    assert result.error == ev.ErrorInfo("ToolError", "NOT_FOUND")


async def test_a_reviewer_cannot_change_the_result_that_it_is_shown() -> None:
    """J06."""
    heard: list[type[BaseException]] = []

    def post(result: ToolResult) -> None:
        for name, value in (("is_error", True), ("content", ()), ("call_id", "other")):
            try:
                setattr(result, name, value)
            except AttributeError as error:
                heard.append(type(error))

    async with memory_agent(
        call("work"), text("ok"), plugins={"work": tool_of("work"), "post": plugin_of(tools_post_execute=post)}
    ) as agent:
        await agent.run("go")
        (result,) = (event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult))
    assert len(heard) == 3
    assert (result.call_id, result.is_error, said(result)) == ("c1", False, "done")


async def test_a_withheld_result_is_an_error_without_error_or_meta() -> None:
    """J05."""
    result = await one_result(
        tool_of("work", lambda call: ToolResult("x", meta=[1])), plugin_of(tools_post_execute=lambda: Block("withheld"))
    )
    assert (said(result), result.is_error, result.error, result.meta) == ("withheld", True, None, None)


async def test_contexts_follow_all_results_in_the_order_of_the_calls() -> None:
    def post(call: ToolCall) -> Accept | Block:
        return Accept(context=f"about {call.id}") if call.id == "c1" else Block("no", context=f"about {call.id}")

    calls = reply(calls=[("c1", "work", "{}"), ("c2", "work", "{}")])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work")}) as agent:
        agent.plugins.register(plugin_of(tools_post_execute=post), "notes")
        await agent.run("go")
        assert "TR(c1) TC(c2) D(notes block) TR!(c2) CX CX S-1" in shape(agent.session.events)
        contexts = [e.data for e in agent.session.events if isinstance(e.data, ev.ContextMessage)]
        assert [context.content for context in contexts] == [(Text("about c1"),), (Text("about c2"),)]
        assert contexts[0].source == PluginSource("notes")


async def test_a_denied_call_is_reviewed_too() -> None:
    reviewed: list[bool] = []
    await one_result(
        tool_of("work"),
        plugin_of(
            tools_pre_execute=lambda: Deny("no"), tools_post_execute=lambda result: reviewed.append(result.is_error)
        ),
    )
    assert reviewed == [True]


async def test_the_call_that_hooks_see_is_whole() -> None:
    seen: list[tuple[object, ...]] = []

    def pre(call: ToolCall) -> None:
        assert call.agent is not None
        seen.append((call.id, call.name, call.arguments, call.agent.id, call.turn, call.step))

    await one_result(tool_of("work"), plugin_of(tools_pre_execute=pre), reply=call("work", {"a": [1]}))
    assert seen == [("c1", "work", {"a": [1]}, "agent-1", 1, 1)]


async def test_arguments_cannot_be_changed_by_who_sees_them() -> None:
    def pre(call: ToolCall) -> None:
        call.arguments["a"] = 2  # type: ignore[index]  # that is the point

    result = await one_result(tool_of("work"), plugin_of(tools_pre_execute=pre), reply=call("work", {"a": 1}))
    assert "cannot be changed" in said(result)


async def test_a_tool_offered_to_one_agent_hides_that_of_all() -> None:
    async with memory_agent(call("work"), text("ok"), plugins={"work": tool_of("work", lambda _: "all")}) as agent:
        agent.plugins.register(tool_of("work", lambda _: "mine"))
        await agent.run("go")
        assert said(results(agent.session)[0]) == "mine"


async def test_two_tools_of_one_name_are_an_error_that_names_both_plugins() -> None:
    async with memory_agent(plugins={"one": tool_of("work"), "two": tool_of("work")}) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert "one and two" in str(result.reason.message)


# -- calls beside each other


async def test_calls_run_beside_each_other_and_are_logged_in_order(autojump_clock: trio.testing.MockClock) -> None:
    """The last ends first; it all takes as long as the slowest."""
    running = most = 0
    ended: list[str] = []

    async def work(call: ToolCall) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(10 - int(call.id[1:]))
        running -= 1
        ended.append(call.id)
        return call.id

    calls = reply(calls=[(f"c{n}", "work", "{}") for n in range(1, 5)])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work", work, parallel=True)}) as agent:
        started = trio.current_time()
        await agent.run("go")
        assert trio.current_time() - started == pytest.approx(9)
        assert most == 4
        assert ended == ["c4", "c3", "c2", "c1"]
        assert "A TC(c1) TC(c2) TC(c3) TC(c4) TR(c1) TR(c2) TR(c3) TR(c4) S-1" in shape(agent.session.events)


async def test_no_more_than_so_many_run_at_once(autojump_clock: trio.testing.MockClock) -> None:
    running = most = 0
    began: list[str] = []

    async def work(call: ToolCall) -> None:
        nonlocal running, most
        began.append(call.id)
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1

    ids = [f"c{n}" for n in range(3 * PARALLEL)]
    calls = reply(calls=[(id, "work", "{}") for id in ids])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work", work, parallel=True)}) as agent:
        await agent.run("go")
        assert most == PARALLEL
        assert set(began[:PARALLEL]) == set(ids[:PARALLEL])


async def test_only_neighbours_that_may_run_beside_each_other(autojump_clock: trio.testing.MockClock) -> None:
    began: list[tuple[str, float]] = []
    start = trio.current_time()

    async def work(call: ToolCall) -> None:
        began.append((call.id, trio.current_time() - start))
        await trio.sleep(1)

    plugins = {"beside": tool_of("beside", work, parallel=True), "alone": tool_of("alone", work)}
    names = ["beside", "beside", "alone", "beside", "unknown", "beside"]
    calls = reply(calls=[(f"c{n}", name, "{}") for n, name in enumerate(names)])
    async with memory_agent(calls, text("ok"), plugins=plugins) as agent:
        await agent.run("go")
        assert sorted(began) == [("c0", 0.0), ("c1", 0.0), ("c2", 1.0), ("c3", 2.0), ("c5", 3.0)]


async def test_gates_reviews_and_contexts_keep_the_models_order(autojump_clock: trio.testing.MockClock) -> None:
    """A call that must run alone is a barrier: what is before it is reviewed, what is behind it not even judged."""
    steps: list[str] = []
    alone = False

    async def work(call: ToolCall) -> str:
        nonlocal alone
        assert not alone
        alone = call.name == "alone"
        await trio.sleep(5 - int(call.id[1:]))  # the first of each group ends last
        alone = False
        steps.append(f"ran {call.id}")
        return call.id

    def gate(call: ToolCall) -> Allow:
        steps.append(f"gate {call.id}")
        return Allow(context=f"gate {call.id}")

    def post(call: ToolCall) -> Accept:
        steps.append(f"review {call.id}")
        return Accept(context=f"review {call.id}")

    names = ["beside", "beside", "alone", "beside", "beside"]
    calls = reply(calls=[(f"c{n}", name, "{}") for n, name in enumerate(names)])
    plugins = {
        "beside": tool_of("beside", work, parallel=True),
        "alone": tool_of("alone", work),
        "judge": plugin_of(tools_pre_execute=gate, tools_post_execute=post),
    }
    async with memory_agent(calls, text("ok"), plugins=plugins) as agent:
        await agent.run("go")
        contexts = [event.data for event in agent.session.events if isinstance(event.data, ev.ContextMessage)]
        answers = [result.call_id for result in results(agent.session)]
    groups = [["c0", "c1"], ["c2"], ["c3", "c4"]]
    assert steps == [
        f"{what} {call}"
        for group in groups
        for what, order in (("gate", group), ("ran", group[::-1]), ("review", group))
        for call in order
    ]
    assert answers == ["c0", "c1", "c2", "c3", "c4"]
    said_of = [f"{what} {call}" for call in answers for what in ("gate", "review")]
    assert [block.text for context in contexts for block in context.content if isinstance(block, Text)] == said_of


async def test_a_denial_waits_its_turn_like_a_result() -> None:
    def gate(call: ToolCall) -> Deny | None:
        return Deny("no") if call.id == "c2" else None

    calls = reply(calls=[(f"c{n}", "work", "{}") for n in range(1, 4)])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work", parallel=True)}) as agent:
        agent.plugins.register(plugin_of(tools_pre_execute=gate), "gate")
        await agent.run("go")
        assert "TC(c1) TC(c2) D(gate deny) TC(c3) TR(c1) TR!(c2) TR(c3) S-1" in shape(agent.session.events)


async def test_one_that_fails_does_not_stop_the_others() -> None:
    async def work(call: ToolCall) -> str:
        await trio.lowlevel.checkpoint()
        if call.id == "c1":
            raise ValueError("mine")
        return "done"

    calls = reply(calls=[(f"c{n}", "work", "{}") for n in range(1, 4)])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work", work, parallel=True)}) as agent:
        await agent.run("go")
        assert [result.is_error for result in results(agent.session)] == [True, False, False]


async def test_siblings_are_cancelled_and_settled_when_the_driver_fails() -> None:
    cancelled: list[str] = []

    async def work(call: ToolCall) -> str:
        if call.id == "c1":
            return "done"
        try:
            return await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.append(call.id)
            raise

    def fail(event: ev.Event) -> None:
        raise RuntimeError("no")

    calls = reply(calls=[(f"c{n}", "work", "{}") for n in range(1, 4)])
    async with memory_agent(calls, plugins={"work": tool_of("work", work, parallel=True)}) as agent:
        agent.plugins.register(on_event(ev.ToolResult, fail))
        result = await agent.run("go")
        assert result.reason is not None
        assert (result.reason.kind, result.reason.step) == ("error", 1)
        assert (result.reason.message or "").startswith("no (raised by")
        assert sorted(cancelled) == ["c2", "c3"]
        assert shape(agent.session.events).endswith("TR(c1) TR!(c2) TR!(c3) S-1 T-(error 1)")
        assert [r.error and r.error.code for r in results(agent.session)] == [None, "ABORTED", "ABORTED"]
        assert "the turn failed" in said(results(agent.session)[1])


# -- ids


async def test_an_id_that_was_used_before_is_replaced() -> None:
    model = ScriptedModel(call("work"), call("work"), text("ok"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        assert [result.call_id for result in results(agent.session)] == ["c1", "c1-2"]


async def test_ids_are_unique_within_an_answer() -> None:
    calls = reply(calls=[("x", "work", "{}"), ("x", "work", "{}"), ("", "work", "{}"), ("x-2", "work", "{}")])
    async with memory_agent(calls, text("ok"), plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        assert [result.call_id for result in results(agent.session)] == ["x", "x-2", "call-1", "x-2-2"]


async def test_ids_are_unique_beyond_a_seed() -> None:
    model = ScriptedModel(call("work"), text("ok"), call("work"), text("ok"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        await agent.run("one")
        seeded = agent.harness.create_agent(options=agent.options, seed=list(agent.session.events)).agent
        await seeded.run("two")
        assert [result.call_id for result in results(seeded.session)] == ["c1", "c1-2"]


async def test_an_answer_of_deltas_without_an_id_has_one() -> None:
    chunks = [c for c in call("work", "{}", id="").chunks if c.type not in ("block-end", "finish")]
    async with memory_agent(Reply([*chunks, Finish(FinishReason("tool-calls"))]), text("ok")) as agent:
        agent.plugins.register(tool_of("work"))
        await agent.run("go")
        assert [result.call_id for result in results(agent.session)] == ["call-0"]


async def test_the_history_shows_the_ids_that_the_results_have() -> None:
    model = ScriptedModel(call("work", id=""), text("ok"))
    async with memory_agent(model=model, plugins={"work": tool_of("work")}) as agent:
        await agent.run("go")
        (block,) = model.requests[1].messages[1].content
        assert isinstance(block, ToolCallBlock)
        assert block.id == "call-1"


async def test_schemas_hold_what_the_model_needs_and_no_more() -> None:
    """J09."""

    def register(tools: Tools) -> None:
        tools.add(Tool("work", "Work.", {"type": "object"}, lambda a, c: "x", present_call=lambda a: None))

    model = ScriptedModel(text("ok"))
    async with memory_agent(model=model, plugins={"work": plugin_of(tools_register=register)}) as agent:
        await agent.run("go")
        (schema,) = model.requests[0].tools or ()
        assert (schema.name, schema.description, schema.parameters) == ("work", "Work.", {"type": "object"})


async def test_a_message_with_only_broken_calls_goes_on() -> None:
    async with memory_agent(call("work", "{"), text("sorry")) as agent:
        agent.plugins.register(tool_of("work"))
        assert (await agent.run("go")).text == "sorry"
        message = agent.session.derive_messages()[1]
        assert message == Message("assistant", ToolCallBlock("c1", "work", "{"))
        with pytest.raises(ValueError, match=r"."):
            loads("{")


@pytest.mark.parametrize("depth", [500, 2000, 100_000])
async def test_arguments_nested_too_deeply_do_not_run(depth: int) -> None:
    """Neither this turn nor the next one fails over them."""
    deep = '{"x": ' + "[" * depth + "]" * depth + "}"
    async with memory_agent(
        call("work", deep), text("I see"), text("and on"), plugins={"tool": tool_of("work")}
    ) as agent:
        first = await agent.run("go")
        second = await agent.run("go on")
        assert (first.text, second.text) == ("I see", "and on")
        (result,) = results(agent.session)
        if depth > 500:
            assert result.is_error
            assert "nested too deeply" in said(result)
