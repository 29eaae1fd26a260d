"""Server-sent events out of bytes, wherever the network cut them."""

from __future__ import annotations

__all__ = ["MAX_EVENT", "ErrorData", "EventTooLong", "SseParser"]

MAX_EVENT = 64 * 1024 * 1024
"""Bytes that one event may have before it is taken for an attack or a fault."""

_BOM = b"\xef\xbb\xbf"


class ErrorData(bytes):
    """The data of an event that calls itself an error."""

    __slots__ = ()


class EventTooLong(ValueError):
    """An event does not end within `MAX_EVENT` bytes."""


class SseParser:
    """Turns the bytes of an event stream into the data of its events.

    Lines may end in LF, CR or CRLF and reads may end anywhere, also inside a character: nothing is
    decoded here.  Comments and the fields ``id`` and ``retry`` are skipped.  A field ``error``, which
    some llama.cpp servers send in place of ``data``, counts as data.
    """

    __slots__ = ("_held", "_parts", "_skip_lf", "_started")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._skip_lf = False
        self._started = False

    def feed(self, data: bytes) -> list[bytes]:
        """The data of every event that `data` completes, in order; empty events are left out.

        Raises:
            EventTooLong: the event that is open has too many bytes.
        """
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in data:
            # Joining only when a line ends keeps one long event linear in its length.
            self._parts.append(data)
            self._held += len(data)
            if self._held > MAX_EVENT:
                raise EventTooLong(f"an event of the stream has more than {MAX_EVENT} bytes")
            return []
        if self._held:
            self._parts.append(data)
            data = b"".join(self._parts)
        events = data.split(b"\n\n")
        rest = events.pop()
        self._parts = [rest]
        self._held = len(rest)
        if self._held > MAX_EVENT:
            raise EventTooLong(f"an event of the stream has more than {MAX_EVENT} bytes")
        found = []
        for event in events:
            plain = event.startswith(b"data: ") and b"\n" not in event
            if payload := event[6:] if plain else self._fields(event):
                found.append(payload)
        if events:
            self._started = True
        return found

    def flush(self) -> bytes | None:
        """The data of an event that the end of the stream left open, if there is any."""
        rest = b"".join(self._parts)
        self._parts, self._held = [], 0
        return self._fields(rest) or None

    def _fields(self, event: bytes) -> bytes:
        if not self._started:
            self._started = True
            event = event.removeprefix(_BOM)
        lines: list[bytes] = []
        failed = False
        for line in event.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                lines.append(value)
            elif name == b"error":
                failed = True
                lines.append(value)
            elif name == b"event":
                failed = value == b"error"
        payload = b"\n".join(lines)
        return ErrorData(payload) if failed else payload
