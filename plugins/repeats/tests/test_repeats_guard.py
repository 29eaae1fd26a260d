"""Turns that go round in circles: the model is told, then the turn ends; work that gets on is left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dsh_repeats
import pytest
from dsh_repeats.count import Circles, Outcome, RepeatsConfig, outcomes
from dsh_repeats.events import RepeatsNoticed
from hypothesis import given
from hypothesis import strategies as st

from dsh import Agent, Continue, Stop, Tool, ToolError
from dsh.config import Config
from dsh.llm.scripted import Reply
from dsh.messages import text_of
from dsh.session.events import SteeringMessage, TurnEnd
from dsh.testing import call, memory_agent, plugin_of, reply, text


def tool(*answers: str, failing: bool = False) -> object:
    """A plugin with the tool ``do``; of its answers the last one stays."""
    left = list(answers)

    def execute(arguments: Any, call: Any) -> str:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if failing:
            raise ToolError(answer, code="NO")
        return answer

    schema = {"type": "object", "properties": {"x": {}}}
    return plugin_of(tools_register=lambda tools: tools.add(Tool("do", "Does it.", schema, execute)))


def do(number: int, **arguments: Any) -> Reply:
    return call("do", arguments, id=f"c{number}")


async def run(
    replies: Sequence[Reply], *, tables: dict[str, Any] | None = None, **plugins: object
) -> tuple[list[RepeatsNoticed], list[str], TurnEnd]:
    """What was noticed, what the model was told, and how the turn ended."""
    config = Config(tables={"repeats": tables or {}})
    async with memory_agent(*replies, plugins={"repeats": dsh_repeats, **plugins}, config=config) as agent:
        await agent.run("go")
        events = [event.data for event in agent.session.events]
    noticed = [data for data in events if isinstance(data, RepeatsNoticed)]
    told = [text_of(data.content) for data in events if isinstance(data, SteeringMessage)]
    end = events[-1]
    assert isinstance(end, TurnEnd)
    return noticed, told, end


async def test_a_call_that_fails_again_and_again() -> None:
    """Rows T12 and L03 are of this kind: the same bad call, until the limit."""
    noticed, told, end = await run([do(n, x=1) for n in range(20)], doing=tool("no such file", failing=True))

    assert [(data.kind, data.action, data.count, data.step) for data in noticed] == [
        ("failing-call", "reminder", 3, 3),
        ("failing-call", "stop", 6, 6),
    ]
    (word,) = told
    assert "The last 3 calls of do had the same arguments and all failed" in word
    assert (end.reason.kind, end.reason.code) == ("error", "LOOP")
    assert "the same call of do failed 6 times in a row" in (end.reason.message or "")
    assert "`failing_stop` in [repeats]" in (end.reason.message or "")


async def test_a_call_that_does_not_exist_counts() -> None:
    noticed, _, end = await run([call("nothing", {}, id=f"c{n}") for n in range(20)])
    assert [data.action for data in noticed] == ["reminder", "stop"]
    assert end.reason.code == "LOOP"


async def test_a_call_that_is_denied_counts() -> None:
    from dsh import Deny

    guard = plugin_of(tools_pre_execute=lambda call: Deny("no"))
    noticed, _, _ = await run([do(n) for n in range(20)], doing=tool("done"), guard=guard)
    assert [(data.kind, data.action) for data in noticed] == [("failing-call", "reminder"), ("failing-call", "stop")]


async def test_keys_in_another_order_are_the_same_call() -> None:
    replies = [
        call("do", '{"x": 1, "y": {"b": 1, "a": 2}}' if n % 2 else '{"y":{"a":2,"b":1},"x":1}', id=f"c{n}")
        for n in range(9)
    ]
    noticed, _, _ = await run(replies, doing=tool("no", failing=True))
    assert noticed[-1].action == "stop"


async def test_another_call_in_between_begins_anew() -> None:
    replies = [do(n, x=n % 3 == 2) for n in range(12)]
    noticed, _, _ = await run([*replies, text("done")], doing=tool(*(str(n) for n in range(20)), failing=True))
    assert noticed == []


async def test_the_same_result_again_and_again() -> None:
    noticed, told, end = await run([do(n, x=1) for n in range(20)], doing=tool("the same"))

    assert [(data.kind, data.action, data.count) for data in noticed] == [
        ("same-result", "reminder", 4),
        ("same-result", "stop", 8),
    ]
    assert len(told) == 1
    assert end.reason.code == "LOOP"


async def test_a_circle_of_different_calls_is_seen() -> None:
    noticed, _, end = await run([do(n, x=n % 3) for n in range(60)], doing=tool("the same"))
    assert noticed[-1].action == "stop"
    assert noticed[-1].step == 22  # the eighth time round
    assert end.reason.code == "LOOP"


async def test_polling_that_gets_on_is_left_alone() -> None:
    noticed, _, end = await run(
        [*(do(n, x="status") for n in range(20)), text("done")], doing=tool(*(f"{n} %" for n in range(30)))
    )
    assert (noticed, end.reason.kind) == ([], "completed")


async def test_several_in_one_step_count() -> None:
    many = reply(calls=[(f"c{n}", "do", {"x": 1}) for n in range(4)])
    noticed, told, _ = await run([many, text("done")], doing=tool("same"))
    assert [(data.kind, data.count) for data in noticed] == [("same-result", 4)]
    assert len(told) == 1


async def test_tools_that_are_ignored_are_transparent() -> None:
    plan = plugin_of(
        tools_register=lambda tools: tools.add(Tool("plan", "Plans.", {"type": "object"}, lambda a, c: "ok"))
    )
    replies = [do(n, x=1) if n % 2 else call("plan", {}, id=f"p{n}") for n in range(40)]
    noticed, _, end = await run(replies, tables={"ignore": ["plan"]}, doing=tool("no", failing=True), planning=plan)
    assert {data.tool for data in noticed} == {"do"}
    assert end.reason.code == "LOOP"


async def test_a_plugin_that_always_continues() -> None:
    def agent_turn_continuation(decision: Any) -> Any:
        return Continue("not yet") if isinstance(decision, Stop) else None

    noticed, told, end = await run(
        [text("done") for _ in range(40)], stubborn=plugin_of(agent_turn_continuation=agent_turn_continuation)
    )
    assert [(data.kind, data.action, data.count) for data in noticed] == [
        ("continuation", "reminder", 6),
        ("continuation", "stop", 11),
    ]
    assert ["You had finished 6 times" in words for words in told] == [False] * 5 + [True] + [False] * 4
    assert all(words.startswith("not yet") for words in told)
    assert end.reason.code == "LOOP"
    assert "`continuations`" in (end.reason.message or "")


async def test_limits_of_zero_turn_the_rules_off() -> None:
    off = dict.fromkeys(("failing_remind", "failing_stop", "same_remind", "same_stop", "continuations"), 0)
    noticed, _, end = await run(
        [*(do(n, x=1) for n in range(30)), text("done")], tables=off, doing=tool("no", failing=True)
    )
    assert (noticed, end.reason.kind) == ([], "completed")


async def test_a_new_prompt_begins_anew() -> None:
    replies = [reply for n in range(4) for reply in (do(2 * n, x=1), do(2 * n + 1, x=1), text("done"))]
    plugins = {"repeats": dsh_repeats, "doing": tool("no", failing=True)}
    async with memory_agent(*replies, plugins=plugins) as agent:
        for _ in range(4):
            await agent.run("go")
        assert not [event for event in agent.session.events if isinstance(event.data, RepeatsNoticed)]


async def test_the_reminder_joins_another_plugin_s_reason() -> None:
    def agent_turn_continuation(agent: Agent, decision: Any) -> Any:
        return Continue("hurry") if isinstance(decision, Continue) else None

    _, told, _ = await run(
        [*(do(n, x=1) for n in range(3)), text("done")],
        doing=tool("no", failing=True),
        hurried=plugin_of(agent_turn_continuation=agent_turn_continuation),
    )
    assert "hurry" in told[-1]
    assert "all failed" in told[-1]


def working(*calls: tuple[str, dict[str, Any]]) -> list[Reply]:
    return [call(name, arguments, id=f"c{n}") for n, (name, arguments) in enumerate(calls)]


def tools(**effects: Any) -> object:
    """A plugin with tools that always say the same, each with its effect."""
    schema = {"type": "object", "properties": {"x": {}}}
    made = [Tool(name, "Does.", schema, lambda a, c: "1 failed", effect=effect) for name, effect in effects.items()]
    return plugin_of(tools_register=lambda tools: tools.add(*made))


WORK = tools(bash="execute", edit="write", read="read", bash_output="none")


async def test_the_same_failing_test_after_each_of_many_edits_is_work() -> None:
    calls = [("edit", {"x": n // 2}) if n % 2 else ("bash", {"x": "pytest"}) for n in range(60)]
    noticed, told, end = await run([*working(*calls), text("done")], work=WORK)
    assert (noticed, told, end.reason.kind) == ([], [], "completed")


async def test_the_same_edits_to_and_fro_are_none() -> None:
    calls = [("edit", {"x": n % 4}) if n % 2 else ("bash", {"x": "pytest"}) for n in range(60)]
    noticed, _, end = await run([*working(*calls), text("done")], work=WORK)
    assert [data.action for data in noticed][-1] == "stop"
    assert end.reason.code == "LOOP"


async def test_the_same_test_with_only_reading_between_is_none() -> None:
    calls = [("read", {"x": n}) if n % 2 else ("bash", {"x": "pytest"}) for n in range(60)]
    noticed, _, _ = await run([*working(*calls), text("done")], work=WORK)
    assert [(data.action, data.count, data.tool) for data in noticed] == [
        ("reminder", 4, "bash"),
        ("stop", 8, "bash"),
    ]


async def test_other_commands_between_buy_time_and_no_more() -> None:
    """They may have changed something, as `sed -i` does; or not, as `echo`."""
    calls = [("bash", {"x": f"sed -i {n}"}) if n % 2 else ("bash", {"x": "pytest"}) for n in range(99)]
    noticed, _, _ = await run([*working(*calls), text("done")], work=WORK)
    assert [(data.action, data.count) for data in noticed] == [("reminder", 12), ("stop", 24)]


async def test_waiting_for_something_is_no_circle_for_a_while() -> None:
    calls = [("bash_output", {"x": 1}) if n % 2 else ("bash", {"x": "sleep 5"}) for n in range(40)]
    noticed, _, end = await run([*working(*calls), text("done")], work=WORK)
    assert [data.action for data in noticed] == ["reminder", "reminder"]
    assert end.reason.kind == "completed"


async def test_many_equal_calls_at_once_do_not_end_a_turn_unwarned() -> None:
    many = [reply(calls=[(f"c{n}-{k}", "do", {"x": 1}) for k in range(20)]) for n in range(3)]
    noticed, told, end = await run([*many, text("done")], doing=tool("same"))
    assert [(data.action, data.count) for data in noticed] == [("reminder", 4), ("stop", 21)]
    assert len(told) == 1
    assert end.reason.code == "LOOP"


async def test_failing_calls_at_once_do_not_end_a_turn_unwarned() -> None:
    many = [reply(calls=[(f"c{n}-{k}", "do", {"x": 1}) for k in range(9)]) for n in range(2)]
    noticed, _, end = await run([*many, text("done")], doing=tool("no", failing=True))
    assert [data.action for data in noticed] == ["reminder", "stop"]
    assert end.reason.code == "LOOP"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.booleans()), max_size=60))
def test_what_never_repeats_often_is_never_stopped(done: list[tuple[str, str, bool]]) -> None:
    """A stop means that the same outcome, or the same failing call in a row, was there as often as it says."""
    config = RepeatsConfig()
    circles = Circles(config, 1)
    row: list[tuple[str, str, bool]] = []
    for name, result, failed in done:
        row.append((name, result, failed))
        for finding in circles.step([Outcome(name, name, result, failed)]):
            if finding.kind == "failing-call":
                last = row[-finding.count :]
                assert all(entry[2] and entry[0] == name for entry in last)
                assert len(last) == finding.count
                assert finding.stop == (finding.count >= config.failing_stop)
            else:
                assert row.count((name, result, failed)) >= finding.count >= config.same_remind
                assert finding.stop == (finding.count >= config.same_stop)


@pytest.mark.parametrize("kind", ["failing-call", "same-result", "continuation"])
def test_the_event_speaks(kind: str) -> None:
    notice = RepeatsNoticed(1, 2, kind, "stop", 7, "bash").notice
    assert notice.startswith("[repeats] ")
    assert "7" in notice
    assert notice.endswith("the turn ends")


def test_a_call_without_a_result_is_no_outcome() -> None:
    assert outcomes([]) == []


@pytest.mark.parametrize("name", ["failing_remind", "failing_stop", "same_remind", "same_stop", "continuations"])
def test_no_limit_is_less_than_nothing(name: str) -> None:
    limits: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=name):
        RepeatsConfig(**limits)
    limits = {name: 0}
    assert getattr(RepeatsConfig(**limits), name) == 0
