"""Closing what a crash left open."""

from __future__ import annotations

from typing import Any

import pytest

from dsh.messages import USER, Text, ToolCallBlock
from dsh.session import Event, Session, interrupted_turn_closers
from dsh.session.events import (
    AssistantMessage,
    EndReason,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)

START = TurnStart(1, Trigger("message", USER))
ASK = UserMessage((Text("hi"),), USER)
STEP = StepStart(1, 1)
CALLS = AssistantMessage(1, 1, (ToolCallBlock("a", "n", "{}"), ToolCallBlock("b", "n", "{}")))
CALL_A = ToolCall(1, 1, "a", "n", "{}")
DONE_A = ToolResult(1, 1, "a", (Text("x"),), False)
END_STEP = StepEnd(1, 1)
CUT = TurnEnd(1, EndReason("interrupted"))


def log(*datas: Any) -> list[Event]:
    return [
        Event(n, 100 + n, data, None, "append" if getattr(data, "surface", False) else None)
        for n, data in enumerate(datas)
    ]


def summary(events: list[Event]) -> list[Any]:
    """Closers in short: type, and for a result its call, code and sources."""
    return [_short(event) for event in events]


def _short(event: Event) -> Any:
    data = event.data
    if not isinstance(data, ToolResult):
        return event.type
    return (data.call_id, data.error and data.error.code, event.source_event_seqs)


@pytest.mark.parametrize(
    ("events", "closers"),
    [
        ([], []),
        ([START, TurnEnd(1, EndReason("completed"))], []),
        ([START], ["turn/end"]),
        ([START, ASK], ["turn/end"]),
        ([START, ASK, STEP], ["step/end", "turn/end"]),
        (
            [START, ASK, STEP, CALLS],
            [("a", "TOOL_NOT_STARTED", None), ("b", "TOOL_NOT_STARTED", None), "step/end", "turn/end"],
        ),
        (
            [START, ASK, STEP, CALLS, CALL_A],
            [("a", "TOOL_OUTCOME_UNKNOWN", (4,)), ("b", "TOOL_NOT_STARTED", None), "step/end", "turn/end"],
        ),
        ([START, ASK, STEP, CALLS, CALL_A, DONE_A], [("b", "TOOL_NOT_STARTED", None), "step/end", "turn/end"]),
        ([START, ASK, STEP, CALLS, CALL_A, END_STEP], ["turn/end"]),
        ([START, ASK, STEP, CALL_A], ["step/end", "turn/end"]),
        ([START, ASK, STEP, CALLS, END_STEP, CUT, TurnStart(2, Trigger("message", USER))], ["turn/end"]),
    ],
)
def test_what_is_open_is_closed_in_order(events: list[Any], closers: list[Any]) -> None:
    """H08."""
    assert summary(interrupted_turn_closers(log(*events))) == closers


def test_closers_go_on_where_the_log_ends() -> None:
    events = log(START, ASK, STEP, CALLS, CALL_A)

    closers = interrupted_turn_closers(events)

    assert [event.seq for event in closers] == [5, 6, 7, 8]
    assert {event.time for event in closers} == {104}
    assert [event.surface_op for event in closers] == ["append", "append", None, None]
    assert closers[-1].data == CUT
    assert closers[0].data.is_error
    assert interrupted_turn_closers([*events, *closers]) == []
    session = Session("a", [*events, *closers])
    assert (session.open_turn, session.open_step) == (None, None)
    assert len(session.derive_messages()) == 4


def test_every_beginning_of_a_log_can_be_closed() -> None:
    whole = log(START, ASK, STEP, CALLS, CALL_A, DONE_A, END_STEP, CUT, TurnStart(2, Trigger("message", USER)))
    for length in range(len(whole) + 1):
        events = whole[:length]
        closed = [*events, *interrupted_turn_closers(events)]
        assert interrupted_turn_closers(closed) == []
        assert Session("a", closed).open_turn is None
