"""A session: the log of one conversation, and what follows from it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..errors import CorruptSession
from ..messages import Message, ToolCallBlock
from ..stash import Stash
from .codec import SURFACE, Codec, default_codec
from .events import (
    AssistantMessage,
    Event,
    Header,
    Replace,
    RequestHeader,
    RequestHeaderDelta,
    StepEnd,
    StepStart,
    SurfaceOp,
    TurnEnd,
    TurnStart,
)
from .header import fold
from .lines import EventLog
from .store import SessionHeader
from .surface import Surface, event_message

__all__ = ["Notify", "Session"]

Notify: TypeAlias = "Callable[[Session, Event], None]"


class Session:
    """The log of one conversation.  It only grows, and nothing in it changes.

    Args:
        id: any text; storage encodes it.
        seed: the first events, which nobody is notified of.
        header: made up if not given.
        codec: knows the event classes; by default, those of the core.

    Raises:
        CorruptSession: the seed is not numbered from 0 without a gap, or replaces what is not there.

    Attributes:
        notify: called for every event appended, once it is in the log; None while nobody listens.
        open_turn, open_step: the numbers of what is open now, else None.
        last_turn: the number of the last turn that began, 0 if none did.
        call_ids: the ids of all calls the model ever made here.
        surface: the seqs of the events that the model sees.
        stash: plugins' own state about this session.
    """

    def __init__(
        self, id: str, seed: Sequence[Event] = (), header: SessionHeader | None = None, *, codec: Codec | None = None
    ) -> None:
        self.id = id
        self.codec = codec or default_codec()
        self.header = header or SessionHeader(id, _now())
        self.notify: Notify | None = None
        self.open_turn: int | None = None
        self.open_step: int | None = None
        self.last_turn = 0
        self.call_ids: set[str] = set()
        self.surface = Surface()
        self.stash = Stash()
        self._header_events: list[Event] = []
        self._request_header: Header | None = None
        self._messages: list[Message] = []
        self._message_seqs: list[int] = []
        self._derived = (0, 0)  # the surface's generation, and how many of its nodes are derived
        self._waiting: deque[Event] = deque()
        self._lines: dict[int, bytes] = {}  # of the events that wait
        self._notifying = False
        self._events = self._seeded(seed)

    def _seeded(self, seed: Sequence[Event]) -> EventLog:
        log = seed.copy() if isinstance(seed, EventLog) else EventLog(self._checked(seed), self.codec)
        for event in log.made():
            self._fold(event)
        return log

    def _checked(self, seed: Sequence[Event]) -> list[Event]:
        for index, event in enumerate(seed):
            if event.seq != index:
                raise CorruptSession(f"a seed is contiguous from 0: event {event.seq} stands at {index}")
            if event.surface_op is None and event.data.__class__ in SURFACE:
                raise CorruptSession(f"event {index} of the seed, {event.type}: surface_op is missing")
            self.codec.encode(event)
        return list(seed)

    # -- reading

    @property
    def events(self) -> EventLog:
        """The log; a live view that nobody can change."""
        return self._events

    def derive_messages(self) -> list[Message]:
        """The conversation as the model sees it, in a list of the caller's own.

        The messages are the same objects as last time, as far as they are the same messages.
        """
        surface, (generation, count) = self.surface, self._derived
        if surface.generation != generation:
            known = dict(zip(self._message_seqs, self._messages, strict=True))
            self._messages, self._message_seqs, count = [], [], 0
        else:
            known = {}
        if count != len(surface):
            for seq in surface.since(count):
                message = known.get(seq) or event_message(self._events[seq])
                if message is not None:
                    self._messages.append(message)
                    self._message_seqs.append(seq)
            self._derived = (surface.generation, len(surface))
        return self._messages.copy()

    @property
    def has_header(self) -> bool:
        """Whether the header of a request was ever logged."""
        return bool(self._header_events) or self._request_header is not None

    def request_header(self) -> Header | None:
        """The header of the next request if nothing changes; None before the first.

        Raises:
            CorruptSession: an event of the log changes a header that is not there.
        """
        while self._header_events:
            event = self._header_events[0]
            self._request_header = fold(self._request_header, event.data, event.seq)
            del self._header_events[0]
        return self._request_header

    # -- writing

    def append(self, data: Any, *, replace: Replace | None = None, sources: Sequence[int] | None = None) -> Event:
        """Add an event and notify whoever listens, all without a checkpoint.

        An append made by a listener is in the log when it returns; listeners hear of it after they all
        have heard of this event, before this call returns.

        Args:
            data: an instance of an event class.
            replace: the part of the surface that this event takes the place of; without it, an event
                that the model sees stands at the end.
            sources: the seqs of the events that this one was made from; only if the model sees it.

        Returns:
            the event, as it stands in the log.

        Raises:
            NotJson: `data` cannot be serialized as JSON.  Nothing was logged.
            ValueError: replace or sources do not fit.  Nothing was logged.
            BaseException: what listeners raised, several as an ExceptionGroup.  The event is logged, and
                everyone has heard of it.
        """
        cls = data.__class__
        operation: SurfaceOp | None = None
        if cls in SURFACE:
            operation = "append" if replace is None else replace
            if replace is not None:
                self._refuse_bad(replace)
        elif replace is not None or sources is not None:
            kind = getattr(data, "type", cls.__name__)
            raise ValueError(f"{kind}: the model does not see it, so it takes neither replace nor sources")
        if sources is not None and not {*map(type, sources)} <= {int}:
            raise ValueError(f"{data.type}: sources are the seqs of events, which are integers")
        data = self.codec.imported(data)
        seq = len(self._events._items)
        event = Event(seq, _now(), data, None if sources is None else tuple(sources), operation)
        line = self.codec.encode(event)
        self._events._items.append(event)
        self._fold(event)
        if self.notify is not None:
            self._waiting.append(event)
            self._lines[seq] = line
            if not self._notifying:
                self._notify_all()
        return event

    @contextmanager
    def together(self) -> Iterator[None]:
        """Have listeners hear of all events appended in this block at its end, one after another; for many at once.

        Whoever stores them can then write them in one go.  Nothing may be awaited in the block.

        Raises:
            BaseException: what listeners raised, as `append` does.
        """
        if self._notifying:
            yield
            return
        self._notifying = True
        try:
            yield
        finally:
            self._notifying = False
            if self._waiting:
                self._notify_all()

    def lines_from(self, event: Event) -> list[bytes]:
        """The lines of `event`, which listeners are hearing of, and of those that they will hear of next."""
        made = self._lines
        return [made.get(seq) or self._events.line(seq) for seq in range(event.seq, len(self._events._items))]

    def _refuse_bad(self, replace: Replace) -> None:
        try:
            self.surface.span(replace)
        except CorruptSession as error:
            raise ValueError(str(error)) from None

    def _notify_all(self) -> None:
        errors: list[BaseException] = []
        self._notifying = True
        try:
            while self._waiting:
                event = self._waiting.popleft()
                notify = self.notify
                if notify is None:
                    self._waiting.clear()
                    break
                try:
                    notify(self, event)
                except BaseException as error:
                    errors.append(error)
        finally:
            self._notifying = False
            self._lines.clear()
        if not errors:
            return
        try:
            if len(errors) > 1:
                raise BaseExceptionGroup("several listeners of session events failed", errors)
            raise errors[0]
        finally:
            del errors  # their tracebacks hold this frame

    def _fold(self, event: Event) -> None:
        """Keep what is known of the log up to date with its last event."""
        keep = _FOLDS.get(event.data.__class__)
        if keep is not None:
            keep(self, event)

    def __repr__(self) -> str:
        return f"<Session {self.id!r} of {len(self._events)} events>"


def _turn_start(session: Session, event: Event) -> None:
    session.open_turn = session.last_turn = event.data.turn
    session.open_step = None


def _turn_end(session: Session, _: Event) -> None:
    session.open_turn = session.open_step = None


def _step_start(session: Session, event: Event) -> None:
    session.open_step = event.data.step


def _step_end(session: Session, _: Event) -> None:
    session.open_step = None


def _surface(session: Session, event: Event) -> None:
    session.surface.apply(event)


def _assistant(session: Session, event: Event) -> None:
    session.surface.apply(event)
    for block in event.data.content:
        if isinstance(block, ToolCallBlock):
            session.call_ids.add(block.id)


def _header(session: Session, event: Event) -> None:
    if isinstance(event.data, RequestHeader):
        session._header_events.clear()  # it takes the place of all before, even of those that fit nothing
    session._header_events.append(event)


_FOLDS: dict[type[Any], Callable[[Session, Event], None]] = {
    **dict.fromkeys(SURFACE, _surface),
    AssistantMessage: _assistant,
    TurnStart: _turn_start,
    TurnEnd: _turn_end,
    StepStart: _step_start,
    StepEnd: _step_end,
    RequestHeader: _header,
    RequestHeaderDelta: _header,
}


def _now() -> int:
    return time.time_ns() // 1_000_000
