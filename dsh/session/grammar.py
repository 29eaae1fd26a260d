"""What every log promises: turns and steps nest and count, sources are earlier events, every call is answered once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import define, field

from ..errors import CorruptSession
from ..messages import ToolCallBlock
from . import events as ev
from .surface import Surface

__all__ = ["LogGrammar", "problems"]

REPAIRED = frozenset({"TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN", "interrupted"})
"""Codes of results that repair put into the log of a program that died."""


def problems(events: Iterable[ev.Event], *, since: int = 0) -> list[str]:
    """What is wrong with a complete log; an empty list if nothing is.

    Args:
        since: problems of earlier events are left out, as those of a seed.
    """
    grammar = LogGrammar()
    found = [(event.seq, text) for event in events for text in grammar.take(event)]
    found += [(grammar.count, text) for text in grammar.end()]
    return [f"event {seq}: {text}" for seq, text in found if seq >= since]


@define
class LogGrammar:
    """The state of a log, event by event.

    Attributes:
        count: how many events there were.
        turn, step: the numbers of what is open.
        answered: the open step has its message.
        wanted: the calls of the open step without a result, each with whether its ``tool/call`` is there.
        results: the call that each result in the log answers.
    """

    count: int = 0
    turn: int | None = None
    step: int | None = None
    last_turn: int = 0
    last_step: int = 0
    headers: int = 0
    chunks: int = 0
    answered: bool = False
    ids: set[str] = field(factory=set)
    wanted: dict[str, bool] = field(factory=dict)
    results: dict[int, str] = field(factory=dict)
    surface: Surface = field(factory=Surface)

    def take(self, event: ev.Event) -> list[str]:
        """The problems of the next event."""
        return list(self._take(event))

    def _take(self, event: ev.Event) -> Iterator[str]:
        if event.seq != self.count:
            yield f"stands at {self.count}"
        self.count += 1
        gone: list[int] = []
        yield from self._envelope(event, gone)
        data = event.data
        match data:
            case ev.UserMessage() | ev.ToolResult() if isinstance(event.surface_op, ev.Replace):
                yield from self._in_turn(event)
                yield from self._stand_in(data, gone)
            case ev.TurnStart():
                yield from self._turn_start(data)
            case ev.TurnEnd():
                yield from self._turn_end(data)
            case ev.StepStart():
                yield from self._step_start(data)
            case ev.StepEnd():
                yield from self._in_step(event)
                yield from self._step_end()
            case ev.UserMessage() | ev.PromptBlocked():
                yield from self._in_turn(event)
                if self.last_step:
                    yield f"{event.type} behind the first step"
            case ev.RequestHeader() | ev.RequestHeaderDelta():
                yield from self._header(event)
            case ev.AssistantChunk() | ev.AssistantMessage() | ev.ToolCall() | ev.ToolResult():
                yield from self._in_step(event)
                yield from self._answer(data)
                if isinstance(data, ev.ToolResult):
                    self.results[event.seq] = data.call_id
            case ev.SteeringMessage(turn=turn) if turn != self.turn:
                yield f"steering/message of turn {turn} in turn {self.turn}"
            case _:
                yield from self._in_turn(event)

    def end(self) -> Iterator[str]:
        """The problems of a log that ends here."""
        if self.turn is not None:
            yield f"the log ends in turn {self.turn}"

    def _envelope(self, event: ev.Event, gone: list[int]) -> Iterator[str]:
        visible = getattr(type(event.data), "surface", False)
        if visible and event.surface_op is None:
            yield f"{event.type} without a surface operation"
        if not visible and (event.surface_op is not None or event.source_event_seqs is not None):
            yield f"{event.type} with a surface operation or sources, though no model sees it"
        sources = event.source_event_seqs
        if sources is not None and (not sources or len(set(sources)) < len(sources) or max(sources) >= event.seq):
            yield f"{event.type} with the sources {sources}"
        yield from self._replacement(event, gone)

    def _replacement(self, event: ev.Event, gone: list[int]) -> Iterator[str]:
        """The problems of what an event does to the surface; what it takes away is added to `gone`."""
        operation = event.surface_op
        try:
            if isinstance(operation, ev.Replace):
                first, last = self.surface.span(operation)
                gone += self.surface.seqs[first : last + 1]
                unnamed = {*gone} - {*(event.source_event_seqs or ())}
                if unnamed:
                    yield f"{event.type} replaces the events {sorted(unnamed)}, which are not among its sources"
            self.surface.apply(event)
        except CorruptSession as error:
            yield f"{event.type}: {error}"

    def _stand_in(self, data: ev.UserMessage | ev.ToolResult, gone: list[int]) -> Iterator[str]:
        """The problems of a summary, or of a shortened result; either may stand anywhere in a turn."""
        if isinstance(data, ev.ToolResult):
            if [self.results.get(seq) for seq in gone] != [data.call_id]:
                yield f"a result of the call {data.call_id!r} takes the place of something else"
            self.results[self.count - 1] = data.call_id

    def _in_turn(self, event: ev.Event) -> Iterator[str]:
        if self.turn is None:
            yield f"{event.type} outside of a turn"

    def _in_step(self, event: ev.Event) -> Iterator[str]:
        where = event.data.turn, event.data.step
        if where != (self.turn, self.step):
            yield f"{event.type} of turn and step {where}, where {(self.turn, self.step)} is open"

    def _turn_start(self, data: ev.TurnStart) -> Iterator[str]:
        if self.turn is not None:
            yield f"turn {data.turn} starts in turn {self.turn}"
        if data.turn != self.last_turn + 1:
            yield f"turn {data.turn} follows turn {self.last_turn}"
        self.turn = self.last_turn = data.turn
        self.step, self.last_step = None, 0

    def _turn_end(self, data: ev.TurnEnd) -> Iterator[str]:
        if data.turn != self.turn:
            yield f"turn {data.turn} ends, where {self.turn} is open"
        if self.step is not None:
            yield f"turn {data.turn} ends in step {self.step}"
        self.turn = self.step = None

    def _step_start(self, data: ev.StepStart) -> Iterator[str]:
        if data.turn != self.turn or self.step is not None:
            yield f"step {data.step} of turn {data.turn} starts in {(self.turn, self.step)}"
        if data.step != self.last_step + 1:
            yield f"step {data.step} follows step {self.last_step}"
        self.step = self.last_step = data.step
        self.headers = self.chunks = 0
        self.answered = False
        self.wanted.clear()

    def _step_end(self) -> Iterator[str]:
        for call_id, called in self.wanted.items():
            yield f"the call {call_id!r} has no {'result' if called else 'tool/call'} when its step ends"
        self.step = None
        self.wanted.clear()

    def _header(self, event: ev.Event) -> Iterator[str]:
        if self.step is None:
            yield f"{event.type} outside of a step"
        if self.headers:
            yield f"a second {event.type} in one step"
        if self.chunks or self.answered:
            yield f"{event.type} behind the answer's beginning"
        self.headers += 1

    def _answer(self, data: ev.AssistantChunk | ev.AssistantMessage | ev.ToolCall | ev.ToolResult) -> Iterator[str]:
        match data:
            case ev.AssistantChunk():
                self.chunks += 1
                if self.answered:
                    yield "a chunk behind its message"
            case ev.AssistantMessage():
                if self.answered:
                    yield "a second message in one step"
                self.answered = True
                for block in data.content:
                    if isinstance(block, ToolCallBlock):
                        if block.id in self.ids:
                            yield f"the call id {block.id!r} is used again"
                        self.ids.add(block.id)
                        self.wanted[block.id] = False
            case ev.ToolCall(call_id=call_id):
                if self.wanted.get(call_id) is not False:
                    yield f"the call {call_id!r} is not in the step's message, or was begun before"
                self.wanted[call_id] = True
            case ev.ToolResult(call_id=call_id):
                called = self.wanted.pop(call_id, None)
                repaired = data.error is not None and data.error.code in REPAIRED
                if called is None or not (called or repaired):
                    yield f"a result of the call {call_id!r}, which was not begun or is answered already"
