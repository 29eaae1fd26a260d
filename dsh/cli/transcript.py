"""A session for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..messages import text_of
from ..session.events import (
    AssistantMessage,
    ContextMessage,
    Event,
    PromptBlocked,
    Replace,
    SteeringMessage,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from . import clean
from .progress import one_line

__all__ = ["transcript"]

RESULT_LINES = 12


def transcript(events: Iterable[Event]) -> Iterator[str]:
    """The lines of what was said and done; requests' settings and chunks are left out."""
    for event in events:
        data = event.data
        if isinstance(event.surface_op, Replace):
            yield from _instead(event)
            continue
        match data:
            case TurnStart():
                yield f"--- turn {data.turn}"
            case UserMessage() | SteeringMessage():
                yield from _said("user" if isinstance(data, UserMessage) else "user, meanwhile", text_of(data.content))
            case ContextMessage():
                source = getattr(data.source, "plugin", data.source.kind)
                yield from _said(f"context from {clean(source)}", text_of(data.content))
            case PromptBlocked():
                yield from _said(f"blocked ({one_line(data.reason)})", text_of(data.content))
            case AssistantMessage():
                text = text_of(data.content)
                if text.strip():
                    yield from _said("assistant, interrupted" if data.interrupted else "assistant", text)
            case ToolCall():
                yield f"[{one_line(data.name)}] {one_line(data.arguments)}"
            case ToolResult():
                lines = text_of(data.content).splitlines()
                yield from (f"  | {clean(line)}" for line in lines[:RESULT_LINES])
                if len(lines) > RESULT_LINES:
                    yield f"  | … {len(lines) - RESULT_LINES} more lines"
            case TurnEnd() if data.reason.kind != "completed":
                why = data.reason.message or data.reason.reason
                yield f"--- turn {data.turn} ended: {data.reason.kind}{f': {clean(why)}' if why else ''}"


def _instead(event: Event) -> Iterator[str]:
    """A person has read what was replaced; what the model sees in its place is only mentioned."""
    if isinstance(event.data, ToolResult):
        yield f"--- event {event.seq}: for the model, a result from before was shortened"
    else:
        many = len(event.source_event_seqs or ())
        yield f"--- event {event.seq}: for the model, a summary takes the place of {many} events from before"


def _said(who: str, text: str) -> Iterator[str]:
    yield f"{who}:"
    yield from (f"  {clean(line)}" for line in text.splitlines())
