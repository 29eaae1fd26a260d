"""The beginning of a stored session, for another one to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import SessionError
from .codec import Codec
from .events import TurnEnd
from .lines import EventLog, parse_log
from .store import StoredSession

__all__ = ["fork_seed", "lines_of"]


def lines_of(stored: StoredSession, codec: Codec) -> Iterator[bytes]:
    """The lines of a stored session's events, as they are stored if its store can tell."""
    lines: Callable[[], Iterator[bytes]] | None = getattr(stored.events, "lines", None)
    return map(codec.encode, stored.events) if lines is None else lines()


def fork_seed(stored: StoredSession, codec: Codec, *, turn: int | None = None, seq: int | None = None) -> EventLog:
    """The events up to the end of a turn; by default, of the last one that has ended.

    Args:
        stored: the session, as ``session_read`` gives it; its last turn may be open.
        turn: the number of the turn to end with.
        seq: the event to end with, which must be the end of a turn.

    Raises:
        SessionError: there is no such end of a turn; the code is ``INVALID_BOUNDARY`` or ``OPEN_TURN``.
        CorruptSession: the log is damaged before its last end of a turn.
    """
    id = stored.header.id
    text = b"\n".join((codec.encode_header(stored.header), *lines_of(stored, codec), b""))
    events = parse_log(text, codec, stored.path or f"session {id}").events
    ends = {event.data.turn: event.seq for event in events.made() if isinstance(event.data, TurnEnd)}
    if not ends:
        raise SessionError(
            f"no turn of the session {id} has ended, so there is nothing to fork; resuming it (-r) closes its turn",
            code="OPEN_TURN",
        )
    if turn is None and seq is None:
        return events.head(max(ends.values()) + 1)
    if turn is not None and turn not in ends:
        raise SessionError(
            f"the session {id} has no turn {turn} that has ended; there are {min(ends)} to {max(ends)}",
            code="INVALID_BOUNDARY",
        )
    if turn is None and seq not in ends.values():
        near = [end for end in ends.values() if seq is not None and end >= seq]
        hint = f"; the next turn ends at event {min(near)}" if near else f"; the last turn ends at {max(ends.values())}"
        raise SessionError(f"event {seq} of the session {id} is not the end of a turn{hint}", code="INVALID_BOUNDARY")
    end = seq if turn is None else ends[turn]
    return events.head((end or 0) + 1)
