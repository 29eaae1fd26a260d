"""Closing a log that a crash left open."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from ..messages import Text, ToolCallBlock
from .events import (
    AssistantMessage,
    EndReason,
    ErrorInfo,
    Event,
    OtherData,
    StepEnd,
    StepStart,
    SurfaceOp,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
)

__all__ = ["interrupted_turn_closers"]

_NOT_STARTED = "The program ended before this call was started; nothing was done."
_OUTCOME_UNKNOWN = (
    "The program ended while this call ran, and its result was lost. What it did, wholly or in part, is done; "
    "look before doing it again."
)


@define
class _Pending:
    """A call without a result; `seq` is that of its ``tool/call``, where it came to one that can be read."""

    step: int
    seq: int | None = None
    started: bool = False


@define
class _Tail:
    """What is still open at the end of a log."""

    turn: int
    step: int | None = None
    calls: dict[str, _Pending] = field(factory=dict)


def interrupted_turn_closers(events: Sequence[Event]) -> list[Event]:
    """The events that close the last turn of `events`; none if it is closed.

    Each call without a result gets one: ``TOOL_NOT_STARTED`` if the log has no ``tool/call`` of it, else
    ``TOOL_OUTCOME_UNKNOWN``.  They are numbered onward from the log and carry the time of its last event.
    """
    tail = _tail(events)
    if tail is None:
        return []
    closers: list[Event] = []
    time = events[-1].time

    def close(data: object, sources: tuple[int, ...] | None = None) -> None:
        surface: SurfaceOp | None = "append" if isinstance(data, ToolResult) else None
        closers.append(Event(len(events) + len(closers), time, data, sources, surface))

    for call_id, call in tail.calls.items():
        close(_lost_result(tail.turn, call_id, call), None if call.seq is None else (call.seq,))
    if tail.step is not None:
        close(StepEnd(tail.turn, tail.step))
    close(TurnEnd(tail.turn, EndReason("interrupted")))
    return closers


def _lost_result(turn: int, call_id: str, call: _Pending) -> ToolResult:
    started = call.started
    return ToolResult(
        turn,
        call.step,
        call_id,
        (Text(_OUTCOME_UNKNOWN if started else _NOT_STARTED),),
        True,
        ErrorInfo("InterruptedError", "TOOL_OUTCOME_UNKNOWN" if started else "TOOL_NOT_STARTED"),
    )


def _tail(events: Sequence[Event]) -> _Tail | None:
    tail: _Tail | None = None
    for seq in range(_last_turn_start(events), len(events)):
        data = events[seq].data
        if isinstance(data, TurnStart):
            tail = _Tail(data.turn)
        elif tail is None:
            continue
        elif isinstance(data, TurnEnd):
            tail = None
        elif isinstance(data, StepStart):
            tail.step = data.step
        elif isinstance(data, StepEnd):
            tail.step = None
            tail.calls.clear()
        elif isinstance(data, AssistantMessage):
            for block in data.content:
                if isinstance(block, ToolCallBlock):
                    tail.calls.setdefault(block.id, _Pending(data.step))
        elif isinstance(data, ToolCall):
            if data.call_id in tail.calls:
                tail.calls[data.call_id] = _Pending(data.step, seq, True)
        elif isinstance(data, OtherData) and data.type == ToolCall.type:
            for call in tail.calls.values():  # it cannot be read: any of them may be meant
                call.started = True
        elif isinstance(data, ToolResult):
            tail.calls.pop(data.call_id, None)
    return tail


def _last_turn_start(events: Sequence[Event]) -> int:
    """Nothing before it can be open; looking for it from the end spares a long log."""
    for seq in range(len(events) - 1, -1, -1):
        data = events[seq].data
        if isinstance(data, TurnStart):
            return seq
        if isinstance(data, TurnEnd):
            return seq + 1
    return 0
