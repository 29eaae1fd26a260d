"""What the model sees of a log: an ordered part of its events, and the messages they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from attrs import frozen

from ..errors import CorruptSession
from ..jsonvalue import dumps
from ..messages import Message, MessageSource, Text, ToolCallBlock, ToolResultBlock
from .events import AssistantMessage, ContextMessage, Event, Replace, SteeringMessage, ToolResult, UserMessage

__all__ = ["Node", "Surface", "derive", "event_message", "pairing_balanced"]


@frozen
class Node:
    """A place on the surface: the event's seq and its neighbours', None at the ends."""

    seq: int
    prev: int | None
    next: int | None


class Surface:
    """The seqs of the events that make up the model's history, in its order.

    After a replacement this is not the order of the log: the new event stands where the old ones stood.

    Attributes:
        generation: grows with every replacement; as long as it is the same, the surface only grew at its end.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._seqs: list[int] = []
        self.generation = 0
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Take the next event of the log into account; one that the model does not see changes nothing.

        Raises:
            CorruptSession: it replaces what is not there; the surface stays as it was.
        """
        if event.surface_op == "append":
            self._seqs.append(event.seq)
        elif event.surface_op is not None:
            start, end = self.span(event.surface_op)
            self._seqs[start : end + 1] = [event.seq]
            self.generation += 1

    def span(self, replace: Replace) -> tuple[int, int]:
        """The positions of the first and the last node that `replace` takes away.

        Raises:
            CorruptSession: one of them is not on the surface, or they are in the wrong order.
        """
        start, end = self.position(replace.start), self.position(replace.end)
        if start > end:
            raise CorruptSession(f"cannot replace {replace.start} to {replace.end}: the first stands after the second")
        return start, end

    def position(self, seq: int) -> int:
        """Where the event stands, from 0.

        Raises:
            CorruptSession: it is not on the surface.
        """
        try:
            return self._seqs.index(seq)
        except ValueError:
            raise CorruptSession(f"event {seq} is not on the surface of the log") from None

    @property
    def seqs(self) -> tuple[int, ...]:
        """All of it; a copy."""
        return tuple(self._seqs)

    def since(self, position: int) -> list[int]:
        """The seqs from `position` on; a copy."""
        return self._seqs[position:]

    def node(self, seq: int) -> Node:
        """The event's place and its neighbours.

        Raises:
            CorruptSession: it is not on the surface.
        """
        position = self.position(seq)
        return self._node(position)

    def nodes(self) -> list[Node]:
        """Every place, in order."""
        return [self._node(position) for position in range(len(self._seqs))]

    def _node(self, position: int) -> Node:
        seqs = self._seqs
        return Node(
            seqs[position],
            seqs[position - 1] if position else None,
            seqs[position + 1] if position + 1 < len(seqs) else None,
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self._seqs)

    def __len__(self) -> int:
        return len(self._seqs)

    def __contains__(self, seq: object) -> bool:
        return seq in self._seqs


def event_message(event: Event) -> Message | None:
    """The message that `event` stands for, if the model sees it at all."""
    data = event.data
    project = _PROJECTIONS.get(data.__class__)
    return None if project is None else project(data)


def _user(data: UserMessage) -> Message:
    return Message("user", data.content)


def _assistant(data: AssistantMessage) -> Message | None:
    return Message("assistant", data.content) if data.content else None


def _result(data: ToolResult) -> Message:
    return Message("user", (ToolResultBlock(data.call_id, data.content, data.is_error),))


def _context(data: ContextMessage) -> Message:
    return Message("user", (*_opening("context", data.source), *data.content, Text("</context>")))


def _steering(data: SteeringMessage) -> Message:
    return Message("user", (*_opening("steering", data.source), *data.content, Text("</steering>")))


def _opening(tag: str, source: MessageSource) -> tuple[Text]:
    return (Text(f"<{tag} source={dumps(source.kind).decode()}>"),)


_PROJECTIONS: dict[type, Callable[..., Message | None]] = {
    UserMessage: _user,
    AssistantMessage: _assistant,
    ToolResult: _result,
    ContextMessage: _context,
    SteeringMessage: _steering,
}


def derive(events: Sequence[Event]) -> list[Message]:
    """The messages of a log, or of its beginning, made from scratch.

    Raises:
        CorruptSession: an event replaces what is not there.
    """
    projected = (event_message(events[seq]) for seq in Surface(events))
    return [message for message in projected if message is not None]


def pairing_balanced(seqs: Iterable[int], events: Sequence[Event], before: int | None = None) -> bool:
    """Whether every call is answered on the part of a surface that ends before the event `before`.

    Args:
        seqs: the surface.
        events: the log.
        before: a seq; None, or one that is not on the surface, means all of it.

    Raises:
        CorruptSession: a result stands there without a call.
    """
    depth = 0
    for seq in seqs:
        if seq == before:
            break
        data = events[seq].data
        if isinstance(data, AssistantMessage):
            depth += sum(isinstance(block, ToolCallBlock) for block in data.content)
        elif isinstance(data, ToolResult):
            depth -= 1
        if depth < 0:
            raise CorruptSession(f"event {seq} is the result of a call that is not on the surface of the log")
    return depth == 0
