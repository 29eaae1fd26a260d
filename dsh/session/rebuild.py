"""A model request, made again from the log."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CorruptSession
from ..messages import Message
from .events import (
    AssistantChunk,
    AssistantMessage,
    Event,
    Header,
    RequestHeader,
    RequestHeaderDelta,
    StepEnd,
    StepStart,
)
from .header import fold, fold_all
from .surface import derive

__all__ = ["rebuild_request"]


def rebuild_request(events: Sequence[Event], turn: int, step: int) -> tuple[Header, list[Message]]:
    """The request of a step: its header, and all its messages with the prefix in front.

    Args:
        events: the log.
        turn, step: numbers of the step.

    Raises:
        ValueError: there is no such step, or it asked no model.
        CorruptSession: the log contradicts itself.
    """
    start = _step_start(events, turn, step)
    before = events[:start]
    header = fold_all(before)
    asked = False
    for seq in range(start + 1, len(events)):
        event = events[seq]
        if isinstance(event.data, RequestHeader | RequestHeaderDelta):
            header = fold(header, event.data, event.seq)
        if isinstance(event.data, AssistantChunk | AssistantMessage):
            asked = True
        if asked or isinstance(event.data, StepEnd):
            break
    if header is None:
        if asked:
            raise CorruptSession(f"the log has no request header for step {step} of turn {turn}")
        raise ValueError(f"step {step} of turn {turn} ended before a model was asked")
    return header, [*(header.message_prefix or ()), *derive(before)]


def _step_start(events: Sequence[Event], turn: int, step: int) -> int:
    for event in events:
        if isinstance(event.data, StepStart) and event.data.turn == turn and event.data.step == step:
            return event.seq
    raise ValueError(f"the log has no step {step} of turn {turn}")
