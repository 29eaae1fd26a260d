"""Logs as sequences of events, and as lines of text.

Most lines of a log are pieces of streamed answers, which are hardly ever looked at again.  An
`EventLog` keeps such a line as it is and makes the event when somebody asks for it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

import orjson
from attrs import frozen

from ..errors import CorruptSession
from ..jsonvalue import Json, loads
from .codec import FOLDED
from .events import Event, RequestHeader, RequestHeaderDelta, ToolResult, TurnEnd
from .store import SessionHeader
from .surface import Surface

if TYPE_CHECKING:
    from .codec import Codec

__all__ = ["EventLog", "ParsedLog", "is_foreign", "parse_log"]

_DIGITS_MATTER = frozenset((RequestHeader.type, RequestHeaderDelta.type))
"""The types with JSON of somebody else's in them, whose integers may be long."""
_FOLDED = frozenset(cls.type for cls in FOLDED)
"""The types that a session looks at when it is loaded; all others stay lines at first."""
_STRETCH = 4096
"""So many lines are read between two pauses."""


class EventLog(Sequence[Event]):
    """Events in the order of the log; each is the same object whenever it is asked for.

    Args:
        items: events, or the lines of events that stand at their place and fit.
        codec: reads the lines.

    Raises, when an event is asked for:
        CorruptSession: its line is no event, or a session is made from it and its data do not fit its type.
    """

    __slots__ = ("_codec", "_items")

    def __init__(self, items: Iterable[Event | bytes], codec: Codec) -> None:
        self._items = list(items)
        self._codec = codec

    def copy(self) -> EventLog:
        """The same events in a log of its own."""
        return EventLog(self._items, self._codec)

    def head(self, length: int) -> EventLog:
        """The first `length` events in a log of their own."""
        return EventLog(self._items[:length], self._codec)

    def extended(self, events: Iterable[Event]) -> EventLog:
        """These events and more in a log of its own."""
        return EventLog((*self._items, *events), self._codec)

    def made(self) -> Iterator[Event]:
        """The events that exist already; none that a session folds is missing."""
        return (item for item in self._items if item.__class__ is not bytes)  # type: ignore[misc]  # what is left

    def line(self, seq: int) -> bytes:
        """The line of an event, without the newline."""
        item = self._items[seq]
        return item if isinstance(item, bytes) else self._codec.encode(item)

    def peek(self, seq: int) -> Event | bytes:
        """An event if it has been made already, else its line: for who looks for events of one type in a long log."""
        return self._items[seq]

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """The lines from `start` on."""
        return (self.line(seq) for seq in range(start, len(self._items)))

    def begins_with(self, other: EventLog) -> bool:
        """Whether all events of `other` are the first of these, to the letter."""
        if len(self) < len(other):
            return False
        pairs = zip(self._items, other._items, strict=False)
        return all(mine is theirs or self.line(n) == other.line(n) for n, (mine, theirs) in enumerate(pairs))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Event]:
        # By index, because the log may grow meanwhile.
        seq = 0
        while seq < len(self._items):
            yield self._event(seq)
            seq += 1

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self._event(seq) for seq in range(*index.indices(len(self._items)))]
        return self._event(index)

    def _event(self, seq: int) -> Event:
        item = self._items[seq]
        if isinstance(item, bytes):
            try:
                item = self._codec.read(item)
            except CorruptSession as error:
                raise CorruptSession(f"event {seq % len(self._items)} of the log: {error}") from None
            self._items[seq] = item
        return item

    def __repr__(self) -> str:
        return f"<EventLog of {len(self._items)} events>"


@frozen
class ParsedLog:
    """What is good of a log's text.

    Attributes:
        size: how many bytes of the text that is; what follows was never completely written.
    """

    header: SessionHeader
    events: EventLog
    size: int


def parse_log(text: bytes, codec: Codec, name: str, pause: Callable[[], None] = lambda: None) -> ParsedLog:
    """Read a log: a header line, then a line for each event.

    Only lines that end in a newline count.  A record without a number is no event of this version; it is
    passed over, and stays where it is.  What cannot be read behind the last end of a turn was
    being written when the program died, and is left out.

    Args:
        text: the whole of it.
        name: where it is from, for errors.
        pause: called every now and then; what it raises ends the reading.

    Raises:
        CorruptSession: the header is missing or wrong, an event's data do not fit its type, an event
            replaces what is not there, or something before the last end of a turn cannot be read.
            The message names the line.
    """
    lines = text.split(b"\n")
    lines.pop()  # what no newline ends
    if not lines:
        raise CorruptSession(f"{name} has no complete header line; there is nothing in it to load")
    try:
        header = codec.decode_header(lines[0])
    except CorruptSession as error:
        raise CorruptSession(f"{name}, line 1: {error}") from None
    events, size = _parse_events(lines, codec, name, pause)
    return ParsedLog(header, EventLog(events, codec), len(lines[0]) + 1 + size)


def _parse_events(
    lines: list[bytes], codec: Codec, name: str, pause: Callable[[], None]
) -> tuple[list[Event | bytes], int]:
    """The events of a log's lines, and how many bytes they are."""
    items: list[Event | bytes] = []
    surface = Surface()
    size = seq = 0
    collecting = gc.isenabled()
    gc.disable()  # nothing here is garbage, and looking for it among so many objects takes half of the time
    try:
        for number, line in enumerate(lines[1:], 2):
            if not number % _STRETCH:
                pause()
            record = _record(line, seq)
            if record is None and not is_foreign(line):
                _refuse_hole(lines, number - 1, seq, name)
                break
            size += len(line) + 1
            if record is None:
                continue
            seq += 1
            if record["type"] not in _FOLDED:
                items.append(line)
                continue
            try:
                if record["type"] in _DIGITS_MATTER or (record["type"] == ToolResult.type and "meta" in record["data"]):
                    record = loads(line)
                event = codec.event(record, line)
                surface.apply(event)
                items.append(event)
            except (CorruptSession, TypeError) as error:
                raise CorruptSession(f"{name}, line {number}: {error}") from None
    finally:
        if collecting:
            gc.enable()
    return items, size


def _record(line: bytes, seq: int | None) -> Json | None:
    """The parsed line if it is an event, and the one with this seq."""
    try:
        record = orjson.loads(line)
        if record["time"].__class__ is float:  # so it has long integers
            record = loads(line)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        try:
            record = loads(line)
        except ValueError:
            return None
    try:
        number, kind = record["seq"], record["type"]
        if kind.__class__ is str and number.__class__ is int and "data" in record and record["time"].__class__ is int:
            return record if seq is None or number == seq else None
    except (KeyError, TypeError):
        pass
    return None


def is_foreign(line: bytes) -> bool:
    """Whether this is a whole record of something else than an event: a later version may add such."""
    try:
        record = loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and isinstance(record.get("type"), str) and "seq" not in record


def _refuse_hole(lines: list[bytes], hole: int, seq: int, name: str) -> None:
    """What is behind the last end of a turn may be cut off; nothing before it."""
    for line in lines[hole:]:
        record = _record(line, None)
        if record is not None and record["type"] == TurnEnd.type:
            raise CorruptSession(
                f"{name}, line {hole + 1}: this is not the event {seq} of the log, and whole turns follow it. "
                "The file was damaged or changed; restore it from a copy, or delete it."
            )
