"""A session as a story: turns, and in each what was said and done, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import attrs
from attrs import define, field, frozen

from ...jsonvalue import Json, dumps, loads
from ...messages import Block, MessageSource, OtherBlock, Reasoning, Text, TokenUsage, ToolCallBlock
from ...session import events as ev
from ...session.codec import Codec

__all__ = [
    "Call",
    "Entry",
    "Noted",
    "Said",
    "Thought",
    "Totals",
    "Turn",
    "arguments",
    "ending",
    "plain",
    "shown",
    "story",
    "totals",
]


@frozen
class Said:
    """A message. `who` is user, steering, context, blocked or assistant; `note` says what is special about it."""

    who: str
    label: str
    text: str
    time: int
    note: str | None = None


@frozen
class Thought:
    """What the model thought before it answered."""

    text: str


@define
class Call:
    """A call, and its result once there is one.

    Attributes:
        ms: how long it took, where it was begun.
    """

    id: str
    name: str
    arguments: str
    begun: int | None = None
    result: ev.ToolResult | None = None
    ms: int | None = None
    decisions: list[ev.HookDecision] = field(factory=list)


@frozen
class Noted:
    """Anything else: a short label, and folded below it what there is to know."""

    label: str
    details: str = ""


Entry: TypeAlias = "Said | Thought | Call | Noted"


@define
class Turn:
    """What happened between a turn's start and its end.

    Attributes:
        number: None for what stands outside of any turn.
        reason: why it ended; None while it is open.
    """

    number: int | None
    time: int
    entries: list[Entry] = field(factory=list)
    reason: ev.EndReason | None = None


@define
class Totals:
    """A session in numbers.

    Attributes:
        until: the time of the last event, in milliseconds since the epoch; 0 without one.
    """

    title: str = ""
    turns: int = 0
    steps: int = 0
    until: int = 0
    models: list[str] = field(factory=list)
    usage: TokenUsage = field(factory=TokenUsage)


def totals(events: Iterable[ev.Event]) -> Totals:
    """Count."""
    found = Totals()
    for event in events:
        found.until = event.time
        match event.data:
            case ev.TurnStart():
                found.turns += 1
            case ev.StepStart():
                found.steps += 1
            case ev.AssistantMessage(usage=TokenUsage() as usage):
                found.usage += usage
            case ev.UserMessage(content=content) if not found.title:
                found.title = " ".join(plain(content).split())
            case ev.RequestHeader(header=ev.Header(config=config)) | ev.RequestHeaderDelta(config=config):
                if config is not None and config.model not in found.models:
                    found.models.append(config.model)
    return found


def story(events: Iterable[ev.Event], codec: Codec) -> Iterator[Turn]:
    """The turns, each when it has ended; a turn that is still open comes last."""
    teller = _Teller(codec)
    for event in events:
        if isinstance(event.data, ev.TurnStart) and teller.turn is not None:
            yield teller.turn
            teller.turn = None
        teller.take(event)
        if isinstance(event.data, ev.TurnEnd) and teller.turn is not None:
            yield teller.turn
            teller.turn = None
    if teller.turn is not None:
        yield teller.turn


@define
class _Teller:
    """Puts events into turns."""

    codec: Codec
    turn: Turn | None = None
    calls: dict[str, Call] = field(factory=dict)

    def take(self, event: ev.Event) -> None:
        data = event.data
        if isinstance(data, ev.TurnStart):
            self.turn, self.calls = Turn(data.turn, event.time), {}
            return
        if isinstance(data, ev.StepStart | ev.StepEnd | ev.AssistantChunk):
            return
        if self.turn is None:
            self.turn, self.calls = Turn(None, event.time), {}
        if isinstance(data, ev.TurnEnd):
            self.turn.reason = data.reason
        elif not self._of_call(event):
            self.turn.entries += self._told(event)

    def _of_call(self, event: ev.Event) -> bool:
        """Whether the event belongs to a call, and is told there."""
        data = event.data
        if isinstance(data, ev.ToolResult) and isinstance(event.surface_op, ev.Replace):
            return False
        if isinstance(data, ev.ToolCall):
            self._call(data.call_id, data.name, data.arguments).begun = event.time
        elif isinstance(data, ev.ToolResult):
            call = self._call(data.call_id, "tool", "")
            call.result = data
            call.ms = None if call.begun is None else event.time - call.begun
        elif isinstance(data, ev.HookDecision) and data.call_id in self.calls:
            self.calls[data.call_id or ""].decisions.append(data)
        else:
            return False
        return True

    def _call(self, id: str, name: str, arguments: str) -> Call:
        call = self.calls.get(id)
        if call is None:
            call = self.calls[id] = Call(id, name, arguments)
            if self.turn is not None:
                self.turn.entries.append(call)
        return call

    def _told(self, event: ev.Event) -> Iterator[Entry]:
        data, note = event.data, None
        if isinstance(event.surface_op, ev.Replace):
            note = f"takes the place of events {event.surface_op.start} to {event.surface_op.end}"
        match data:
            case ev.ToolResult():
                yield Noted(f"a result from before was shortened for the model (event {event.seq})")
            case ev.UserMessage() if note is not None:
                yield Said("context", _from("Summary", data.source), plain(data.content), event.time, note)
            case ev.AssistantMessage():
                yield from self._answer(data, event.time, note)
            case ev.UserMessage():
                yield Said("user", _from("User", data.source), plain(data.content), event.time, note)
            case ev.SteeringMessage():
                yield Said("steering", _from("User, meanwhile", data.source), plain(data.content), event.time, note)
            case ev.ContextMessage():
                yield Said("context", _from("Context", data.source), plain(data.content), event.time, note)
            case ev.PromptBlocked():
                yield Said("blocked", "Blocked prompt", plain(data.content), event.time, data.reason)
            case ev.HookDecision():
                yield Noted(f"decision: {shown(data)}")
            case ev.TodoWrite():
                marks = {"completed": "x", "in_progress": "~"}
                rows = [f"[{marks.get(item.status, ' ')}] {item.content}" for item in data.todos]
                yield Noted("things to do", "\n".join(rows))
            case ev.RequestHeader(header=header):
                tools = ", ".join(tool.name for tool in header.tools or ())
                about = f"model: {header.config.model}\ntools: {tools or 'none'}\n\n{header.system or ''}"
                yield Noted(f"settings of the request ({data.reason})", about.rstrip())
            case ev.RequestHeaderDelta():
                changed = {
                    name: value for name, value in attrs.asdict(data, recurse=False).items() if value is not None
                }
                yield Noted(f"settings changed: {', '.join(sorted(changed))}", _json(self.codec.to_json(data)))
            case _:
                yield Noted(event.type, _json(loads(self.codec.encode(event)).get("data")))

    def _answer(self, data: ev.AssistantMessage, time: int, note: str | None) -> Iterator[Entry]:
        rest: list[Block] = []
        for block in data.content:
            if isinstance(block, Reasoning):
                yield Thought(block.text)
            elif isinstance(block, ToolCallBlock):
                self.calls[block.id] = Call(block.id, block.name, block.arguments)
            else:
                rest.append(block)
        text = plain(rest)
        if text.strip() or data.interrupted or note:
            yield Said("assistant", "Assistant", text, time, "interrupted" if data.interrupted else note)
        yield from (self.calls[block.id] for block in data.content if isinstance(block, ToolCallBlock))


def plain(content: Iterable[Block]) -> str:
    """The texts of blocks; blocks of kinds that have no text as JSON."""
    parts = []
    for block in content:
        if isinstance(block, Text | Reasoning):
            parts.append(block.text)
        elif isinstance(block, OtherBlock):
            parts.append(f"\n{_json(block.data)}\n")
    return "".join(parts)


def arguments(text: str) -> dict[str, str]:
    """A call's arguments, each as text a person can read; under no name if they are no JSON object."""
    try:
        values = loads(text or "{}")
    except ValueError:
        return {"": text}
    if not isinstance(values, dict):
        return {"": text}
    return {name: value if isinstance(value, str) else _json(value) for name, value in values.items()}


def shown(decision: ev.HookDecision) -> str:
    """A plugin's decision, in words."""
    version = f" {decision.version}" if decision.version else ""
    changed = f" ({', '.join(decision.changed)})" if decision.changed else ""
    reason = f": {decision.reason}" if decision.reason else ""
    return f"{decision.plugin}{version}, {decision.hook}: {decision.verdict}{changed}{reason}"


def ending(reason: ev.EndReason | None) -> str | None:
    """How a turn ended, in words; None of one that was completed."""
    if reason is None:
        return "not ended"
    if reason.kind == "completed":
        return None
    why = reason.message or reason.reason
    return f"{reason.kind}: {why}" if why else reason.kind


def _from(label: str, source: MessageSource) -> str:
    name: Any = getattr(source, "plugin", None) or (source.kind if source.kind != "user" else None)
    return f"{label} from {name}" if name else label


def _json(value: Json) -> str:
    import json

    try:
        return json.dumps(loads(dumps(value)), ensure_ascii=False, indent=2)
    except (TypeError, ValueError):
        return str(value)
