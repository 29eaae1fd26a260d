"""The check of logs finds what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from dsh.messages import USER, CallConfig, Text, TokenUsage, ToolCallBlock
from dsh.session import events as ev
from dsh.session import parse_log
from dsh.session.codec import default_codec
from dsh.session.grammar import problems
from dsh.session.log import Session
from dsh.testing import call, memory_agent, memory_harness, text, tool_of

RECORDED = Path(__file__).parents[1] / "../shared/recorded"
START = ev.TurnStart(1, ev.Trigger("message", USER))
END = ev.TurnEnd(1, ev.EndReason("completed"))
STEP, STEPPED = ev.StepStart(1, 1), ev.StepEnd(1, 1)
HEADER = ev.RequestHeader(ev.Header(CallConfig("m")), "initial")
USER_MESSAGE = ev.UserMessage((Text("x"),), USER)
CALLING = ev.AssistantMessage(1, 1, (ToolCallBlock("c", "work", "{}"),), TokenUsage())
CALL = ev.ToolCall(1, 1, "c", "work", "{}")
RESULT = ev.ToolResult(1, 1, "c", (Text("x"),), False)


def found(*data: Any) -> list[str]:
    session = Session("s")
    for item in data:
        session.append(item)
    return problems(session.events)


def test_a_whole_log_has_no_problems() -> None:
    assert found() == []
    assert found(START, USER_MESSAGE, STEP, HEADER, CALLING, CALL, RESULT, STEPPED, END) == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([START], "event 1: the log ends in turn 1"),
        ([END], "event 0: turn 1 ends, where None is open"),
        ([START, START], "event 1: turn 1 starts in turn 1"),
        ([ev.TurnStart(2, START.trigger), ev.TurnEnd(2, END.reason)], "event 0: turn 2 follows turn 0"),
        ([START, STEP, END], "event 2: turn 1 ends in step 1"),
        ([START, ev.StepStart(1, 2)], "event 1: step 2 follows step 0"),
        ([STEP], "event 0: step 1 of turn 1 starts in (None, None)"),
        ([START, STEP, ev.StepEnd(1, 2)], "event 2: step/end of turn and step (1, 2), where (1, 1) is open"),
        ([USER_MESSAGE], "event 0: user/message outside of a turn"),
        ([START, STEP, STEPPED, USER_MESSAGE], "event 3: user/message behind the first step"),
        ([START, HEADER], "event 1: request/header outside of a step"),
        ([START, STEP, HEADER, HEADER], "event 3: a second request/header in one step"),
        ([START, STEP, CALLING, HEADER], "event 3: request/header behind the answer's beginning"),
        ([START, STEP, CALLING, CALLING], "event 3: a second message in one step"),
        ([START, STEP, CALLING, STEPPED], "event 3: the call 'c' has no tool/call when its step ends"),
        ([START, STEP, CALLING, CALL, STEPPED], "event 4: the call 'c' has no result when its step ends"),
        ([START, STEP, CALL], "event 2: the call 'c' is not in the step's message, or was begun before"),
        ([START, STEP, CALLING, CALL, CALL], "event 4: the call 'c' is not in the step's message, or was begun before"),
        ([START, STEP, RESULT], "event 2: a result of the call 'c', which was not begun or is answered already"),
        (
            [START, STEP, CALLING, CALL, RESULT, RESULT],
            "event 5: a result of the call 'c', which was not begun or is answered already",
        ),
        ([START, ev.SteeringMessage(2, (), USER)], "event 1: steering/message of turn 2 in turn 1"),
        ([ev.TodoWrite(())], "event 0: todo/write outside of a turn"),
    ],
)
def test_a_problem_is_told_with_its_place(data: list[Any], problem: str) -> None:
    assert problem in found(*data)


def test_a_repaired_result_needs_no_call() -> None:
    lost = ev.ToolResult(1, 1, "c", (), True, ev.ErrorInfo("InterruptedError", "TOOL_NOT_STARTED"))
    assert found(START, STEP, CALLING, lost, STEPPED, END) == []


def test_the_envelope_is_checked() -> None:
    bare = ev.Event(1, 0, USER_MESSAGE)
    start = ev.Event(0, 0, START, (0,))
    text_ = "; ".join(problems([start, bare, ev.Event(5, 0, END)]))
    assert "event 0: turn/start with a surface operation or sources" in text_
    assert "event 1: user/message without a surface operation" in text_
    assert "event 5: stands at 2" in text_


def test_sources_come_before_and_once() -> None:
    session = Session("s")
    session.append(START)
    session.append(USER_MESSAGE, sources=[0, 0])
    assert "user/message with the sources (0, 0)" in "; ".join(problems(session.events))


def test_a_replacement_names_what_it_replaces() -> None:
    session = Session("s")
    for item in (START, USER_MESSAGE, USER_MESSAGE):
        session.append(item)
    session.append(USER_MESSAGE, replace=ev.Replace(1, 2), sources=[2])
    session.append(USER_MESSAGE, replace=ev.Replace(3, 3), sources=[3])
    assert (
        problems(session.events)[0] == "event 3: user/message replaces the events [1], which are not among its sources"
    )
    assert len(problems(session.events)) == 2  # the other is that the turn is open


@pytest.mark.parametrize(("start", "end"), [(1, 7), (0, 1), (2, 1)])
def test_a_replacement_stands_where_something_stood(start: int, end: int) -> None:
    message = ev.Event(1, 0, USER_MESSAGE, None, "append")
    wrong = ev.Event(3, 0, USER_MESSAGE, (0, 1, 2), ev.Replace(start, end))
    (found, _) = problems([ev.Event(0, 0, START), message, evolve(message, seq=2), wrong])
    assert found.startswith("event 3: user/message: ")


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not here")
def test_recorded_sessions_have_no_problems() -> None:
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        log = parse_log(path.read_bytes(), default_codec(), path.name)
        assert problems(log.events) == [], path


def test_problems_of_a_seed_may_be_left_out() -> None:
    session = Session("s")
    for item in (START, STEP, CALLING, STEPPED, END):
        session.append(item)
    assert problems(session.events, since=4) == []


async def test_a_test_fails_that_leaves_a_broken_log() -> None:
    with pytest.raises(AssertionError, match="todo/write outside of a turn"):
        async with memory_agent(invariants=False) as agent:
            agent.session.append(ev.TodoWrite(()))
    async with memory_agent(check_logs=False, invariants=False) as agent:
        agent.session.append(ev.TodoWrite(()))


async def test_a_seed_is_not_this_programs_fault() -> None:
    async with memory_harness(call("work"), text("ok"), plugins={"work": tool_of("work")}) as harness:
        session = Session("s")
        for item in (START, STEP, CALLING, STEPPED, END):
            session.append(item)
        harness.create_agent(seed=list(session.events))


def replaced(data: Any, start: int, end: int) -> list[str]:
    """The problems of a log in which `data` takes the place of what stands from `start` to `end`, between two steps."""
    session = Session("s")
    for item in (START, USER_MESSAGE, STEP, HEADER, CALLING, CALL, RESULT, STEPPED):
        session.append(item)
    sources = [seq for seq in session.surface if start <= seq <= end]
    session.append(data, replace=ev.Replace(start, end), sources=sources)
    session.append(END)
    return problems(session.events)


def test_a_summary_and_a_shortened_result_may_stand_anywhere_in_a_turn() -> None:
    assert replaced(USER_MESSAGE, 1, 6) == []
    assert replaced(evolve(RESULT, content=(Text("shorter"),)), 6, 6) == []


@pytest.mark.parametrize(("start", "end"), [(1, 1), (4, 6), (1, 6)])
def test_a_result_takes_the_place_of_its_own_kind_alone(start: int, end: int) -> None:
    assert replaced(RESULT, start, end) == ["event 8: a result of the call 'c' takes the place of something else"]


def test_a_result_of_another_call_does_not_stand_in() -> None:
    assert replaced(evolve(RESULT, call_id="d"), 6, 6) == [
        "event 8: a result of the call 'd' takes the place of something else"
    ]
