"""Why something happened: the decisions of plugins that the log has of a call, a prompt, a request or a turn."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from .errors import ConfigError
from .jsonvalue import dumps
from .messages import ToolCallBlock, text_of
from .session import events as ev

if TYPE_CHECKING:
    from .harness import Harness
    from .hooks import PluginManager

__all__ = [
    "Explanation",
    "Place",
    "explain_call",
    "explain_event",
    "explain_turn",
    "last_denial",
    "lines_about",
    "place_of",
]

SHORT = 200


@frozen
class Explanation:
    """What was decided about one thing.

    Attributes:
        what: the thing, in words: a call with its arguments, a prompt, a request, the end of a turn.
        outcome: what became of it.
        turn, step: where it stands; the step is 0 outside of one.
        decisions: of plugins, in the order in which they were made.
        more: other events that belong to it, such as a question to a person and the answer.
    """

    what: str
    outcome: str
    turn: int
    step: int
    decisions: tuple[ev.HookDecision, ...]
    more: tuple[ev.Event, ...] = field(factory=tuple)


@frozen
class Place:
    """Where an implementation stands; `version` is that of the plugin now."""

    file: str
    line: int
    version: str


def last_denial(events: Sequence[ev.Event]) -> int | None:
    """Where the last event stands by which something was refused: a call's error result that a plugin's decision led
    to, or a blocked prompt; None if nothing was.
    """
    denied = {
        event.data.call_id
        for event in events
        if isinstance(event.data, ev.HookDecision) and event.data.verdict in ("deny", "block", "late", "raised")
    }
    for index in range(len(events) - 1, -1, -1):
        data = events[index].data
        if isinstance(data, ev.PromptBlocked):
            return index
        if isinstance(data, ev.ToolResult) and data.is_error and data.call_id in denied:
            return index
    return None


def explain_event(events: Sequence[ev.Event], index: int) -> Explanation:
    """Why the event that stands at `index` is as it is.

    Args:
        events: a log, or as much of it as matters; pieces of answers may be left out.

    Raises:
        ConfigError: nobody decides about events of its kind.
    """
    event, data = events[index], events[index].data
    match data:
        case ev.ToolCall() | ev.ToolResult():
            return explain_call(events, data.call_id)
        case ev.HookDecision(call_id=str(call_id)):
            return explain_call(events, call_id)
        case ev.UserMessage() | ev.PromptBlocked() | ev.ContextMessage():
            return _prompt(events, index)
        case ev.AssistantMessage() | ev.AssistantChunk() | ev.RequestHeader() | ev.RequestHeaderDelta():
            return _request(events, index)
        case _:
            turn = getattr(data, "turn", None)
            if isinstance(turn, int):
                return _end(events, turn)
    raise ConfigError(f"the event {event.seq}, {event.type}, is nothing that plugins decide about", code="USAGE")


def explain_call(events: Sequence[ev.Event], call_id: str) -> Explanation:
    """Why a call ran, or did not.

    Raises:
        ConfigError: the session has no call of that id.
    """
    named = arguments = None
    outcome, place = "it has no result", (0, 0)
    decisions: list[ev.HookDecision] = []
    more: list[ev.Event] = []
    for event in events:
        data = event.data
        if isinstance(data, ev.AssistantMessage):
            for block in data.content:
                if isinstance(block, ToolCallBlock) and block.id == call_id:
                    named, arguments, place = block.name, block.arguments, (data.turn, data.step)
        elif isinstance(data, ev.ToolResult) and data.call_id == call_id:
            text = text_of(data.content)
            said = text.removeprefix("Error: ") if data.is_error else text
            outcome = f"{'an error' if data.is_error else 'a result'}: {_short(said)}"
        elif isinstance(data, ev.HookDecision):
            if data.call_id == call_id:
                decisions.append(data)
        elif not isinstance(data, ev.ToolCall) and _call_of(data) == call_id:
            more.append(event)
    if named is None:
        raise ConfigError(f"the session has no call {call_id!r}", code="USAGE")
    what = f"the call of {named} {_short(arguments or '{}')}"
    return Explanation(what, outcome, *place, tuple(decisions), tuple(more))


def explain_turn(events: Sequence[ev.Event], turn: int) -> list[Explanation]:
    """Everything that plugins took part in during a turn, in order: its prompts, requests, calls and its end.

    Raises:
        ConfigError: the session has no such turn.
    """
    starts = {event.data.turn: index for index, event in enumerate(events) if isinstance(event.data, ev.TurnStart)}
    if turn not in starts:
        raise ConfigError(f"the session has no turn {turn}; its turns are 1 to {max(starts, default=0)}", code="USAGE")
    start = starts[turn]
    end = next((n for n in range(start, len(events)) if isinstance(events[n].data, ev.TurnEnd)), len(events))
    own = events[start : end + 1]
    found: list[Explanation] = []
    for index, event in enumerate(own):
        data = event.data
        if isinstance(data, ev.UserMessage | ev.PromptBlocked):
            found.append(_prompt(own, index))
        elif isinstance(data, ev.StepStart):
            found.append(_request(own, index))
        elif isinstance(data, ev.AssistantMessage):
            found += [explain_call(own, block.id) for block in data.content if isinstance(block, ToolCallBlock)]
    return [*(one for one in found if one.decisions or one.more), _end(own, turn)]


def _prompt(events: Sequence[ev.Event], index: int) -> Explanation:
    decisions: list[ev.HookDecision] = []
    for at in range(index - 1, -1, -1):
        data = events[at].data
        if isinstance(data, ev.UserMessage | ev.PromptBlocked | ev.TurnStart):
            break
        if isinstance(data, ev.HookDecision) and data.hook == "agent_prompt_submit":
            decisions.insert(0, data)
    data = events[index].data
    blocked = isinstance(data, ev.PromptBlocked)
    outcome = f"it was blocked: {getattr(data, 'reason', '')}" if blocked else "it reached the model"
    turn, _ = _place(events, index)
    return Explanation(
        f"the prompt {_short(text_of(getattr(data, 'content', ())))!r}", outcome, turn, 0, tuple(decisions)
    )


_OF_REQUESTS = frozenset({"agent_request", "agent_request_error", "agent_step_result", "llm_stream"})


def _request(events: Sequence[ev.Event], index: int) -> Explanation:
    turn, step = _place(events, index)
    decisions: list[ev.HookDecision] = []
    more: list[ev.Event] = []
    outcome = "no answer"
    for event in events:
        data = event.data
        if isinstance(data, ev.HookDecision) and (data.turn, data.step) == (turn, step) and data.hook in _OF_REQUESTS:
            decisions.append(data)
        elif isinstance(data, ev.AssistantMessage) and (data.turn, data.step) == (turn, step):
            outcome = _answer(data)
        elif _is_plugins(data) and _numbers(data) == (turn, step) and _call_of(data) is None:
            more.append(event)
    return Explanation(f"the request of step {step}", outcome, turn, step, tuple(decisions), tuple(more))


def _answer(message: ev.AssistantMessage) -> str:
    text = _short(text_of(message.content))
    calls = [block.name for block in message.content if isinstance(block, ToolCallBlock)]
    said = [f"the answer {text!r}"] if text or not calls else []
    return " and ".join([*said, *([f"calls of {', '.join(calls)}"] if calls else [])])


def _end(events: Sequence[ev.Event], turn: int) -> Explanation:
    decisions: list[ev.HookDecision] = []
    more: list[ev.Event] = []
    outcome = "it has not ended"
    for event in events:
        data = event.data
        if isinstance(data, ev.HookDecision) and (data.hook, data.turn) == ("agent_turn_continuation", turn):
            decisions.append(data)
        elif isinstance(data, ev.TurnEnd) and data.turn == turn:
            reason = data.reason
            outcome = reason.kind + "".join(f": {text}" for text in (reason.message or reason.reason,) if text)
        elif _is_plugins(data) and _numbers(data) == (turn, 0) and _call_of(data) is None:
            more.append(event)
    return Explanation(f"the end of turn {turn}", outcome, turn, 0, tuple(decisions), tuple(more))


def _is_plugins(data: Any) -> bool:
    """Whether the event is of a type that a plugin brought."""
    return isinstance(data, ev.OtherData) or type(data).__module__ != ev.__name__


def _numbers(data: Any) -> tuple[int, int]:
    """The turn and the step that a plugin's event says it belongs to; 0 where it says none."""
    record = data.data if isinstance(data, ev.OtherData) else None
    turn, step = (
        record.get(name) if isinstance(record, dict) else getattr(data, name, None) for name in ("turn", "step")
    )
    return (turn if isinstance(turn, int) else 0), (step if isinstance(step, int) else 0)


def _place(events: Sequence[ev.Event], index: int) -> tuple[int, int]:
    """The turn and the step that the event at `index` stands in; 0 is none."""
    step = 0
    for at in range(index, -1, -1):
        data = events[at].data
        if isinstance(data, ev.StepStart):
            step = step or data.step
        elif isinstance(data, ev.TurnStart):
            return data.turn, step
    return 0, step


def _call_of(data: Any) -> str | None:
    """The call that an event of a plugin's own belongs to."""
    if isinstance(data, ev.OtherData):
        record = data.data
        found = record.get("callId") if isinstance(record, dict) else None
    else:
        found = getattr(data, "call_id", None)
    return found if isinstance(found, str) else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else line[: SHORT - 1] + "…"


def place_of(plugins: PluginManager, decision: ev.HookDecision) -> Place | None:
    """Where the implementation of a decision stands in the program as it is now; None if it is not loaded."""
    if decision.hook not in plugins.specs:
        return None
    for implementation in plugins.implementations(decision.hook):
        if implementation.plugin_name == decision.plugin:
            function = inspect.unwrap(implementation.function)
            code = getattr(function, "__code__", None)
            if code is None:
                return None
            return Place(code.co_filename, code.co_firstlineno, plugins.version_of(decision.plugin))
    return None


def lines_about(harness: Harness, found: Explanation) -> Iterator[str]:
    """An explanation for a person."""
    where = f"turn {found.turn}" + (f", step {found.step}" if found.step else "")
    yield f"{found.what} ({where})"
    yield f"  -> {found.outcome}"
    if not found.decisions and not found.more:
        yield "  no plugin decided anything here; what dsh does by itself, holds"
    for number, decision in enumerate(found.decisions, 1):
        yield f"  {number}. {_head(decision)}"
        if decision.reason:
            yield f"     {' '.join(decision.reason.split())}"
        yield f"     {_where(harness, decision)}"
    for event in found.more:
        yield f"  {event.type} (event {event.seq}): {_told(harness, event)}"


_KNOWN = frozenset({"turn", "step", "callId", "id", "lineage"})


def _told(harness: Harness, event: ev.Event) -> str:
    """What a plugin's event says, but for where it stands, which is known."""
    notice = getattr(event.data, "notice", None)
    if isinstance(notice, str) and notice:
        return _short(notice)
    record = harness.codec.to_json(event.data)
    if not isinstance(record, dict):
        return _short(dumps(record).decode())
    kept = {key: value for key, value in record.items() if key not in _KNOWN and value not in (None, "", [])}
    return _short(", ".join(f"{key}: {_value(value)}" for key, value in kept.items()))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return dumps(value).decode()


def _head(decision: ev.HookDecision) -> str:
    changed = f" ({', '.join(decision.changed)})" if decision.changed else ""
    plugin = f"{decision.plugin} {decision.version or '(no version)'}"
    return f"{decision.hook}  {plugin}  {decision.verdict}{changed}  {decision.ms:.2f} ms"


def _where(harness: Harness, decision: ev.HookDecision) -> str:
    place = place_of(harness.plugins, decision)
    if place is None:
        return f"the plugin {decision.plugin} is not loaded now, so its file and line are not known; -e loads one"
    now = f", in version {place.version} now" if place.version != decision.version else ""
    path = os.path.relpath(place.file)
    return f"{place.file if path.startswith('..') else path}:{place.line}{now}"
