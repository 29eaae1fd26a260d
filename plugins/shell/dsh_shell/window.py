"""What a command prints: the beginning and the end in memory, all of it in a file once it grows too long."""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field, frozen

from dsh_shell.spill import Outputs, Spill

__all__ = ["Cut", "Limits", "Piece", "Window", "incomplete_suffix", "is_binary", "readable"]

_NEVER_TEXT: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")
BINARY: Final = 0.1
"""The share of bytes that no text has, from which on something is no text."""


def readable(data: bytes | bytearray) -> str:
    """`data` as text: what is not UTF-8, and NUL, becomes U+FFFD."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


def is_binary(data: bytes) -> bool:
    """Whether it is hardly text: many NULs, control characters and bytes that are no UTF-8."""
    broken = len(data) - len(data.decode("utf-8", "ignore").encode())
    return bool(data) and len(_NEVER_TEXT.findall(data)) + broken > BINARY * len(data)


def incomplete_suffix(data: bytes | bytearray) -> int:
    """How many bytes at the end of `data` begin a UTF-8 character that more bytes may finish."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if 0xC2 <= byte <= 0xDF else 3 if byte & 0xF0 == 0xE0 else 4 if 0xF0 <= byte <= 0xF4 else 1
        return back if length > back else 0
    return 0


def _broken_prefix(data: bytes | bytearray) -> int:
    """How many bytes at the start of `data` belong to a character whose first byte is cut off."""
    for index in range(min(3, len(data))):
        if data[index] & 0xC0 != 0x80:
            return index
    return min(3, len(data))


def _lines(newlines: int, last: bytes) -> int:
    """The lines of a part with so many line ends; one that the part's end leaves open counts."""
    return newlines + (bool(last) and last != b"\n")


@frozen
class Limits:
    """How much of what a command prints is shown.

    Attributes:
        size, lines: what is longer than these, both streams together, is cut.
        head, tail: bytes of the beginning and the end of a stream that are shown then.
    """

    size: int = 50 * 1024
    lines: int = 2000
    head: int = 8 * 1024
    tail: int = 12 * 1024

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """Bytes and lines of the head, and of the tail: of both streams together never more than the limits."""
        quarter = max(self.size // 4, 1)
        return min(self.head, quarter), max(self.lines // 8, 1), min(self.tail, quarter), max(self.lines // 4, 1)


@frozen
class Cut:
    """A part of a stream without its middle, which has `left_bytes` in `left_lines`."""

    head: str
    tail: str
    left_bytes: int
    left_lines: int
    binary: bool


@frozen
class Piece:
    """What a stream brought from one reading to the next.

    Attributes:
        total, newlines: its bytes, and line ends among them.
        fresh: it begins with the stream itself.
        window: the stream.
    """

    total: int
    newlines: int
    fresh: bool
    window: Window
    _head: bytes
    _tail: bytes

    @property
    def lines(self) -> int:
        """Its lines; one that is not complete counts."""
        return _lines(self.newlines, self._tail[-1:])

    @property
    def in_memory(self) -> bool:
        """Whether `text` is all of it."""
        return len(self._tail) == self.total

    @property
    def text(self) -> str:
        """All of it; of what is too long for the memory, the end."""
        return readable(self._tail if self.in_memory else self._tail[_broken_prefix(self._tail) :])

    def cut(self) -> Cut | None:
        """It in two parts; None where it is not long enough for that."""
        head_bytes, head_lines, tail_bytes, tail_lines = self.window.limits.parts
        start = self._tail if self.in_memory else self._head
        head = _first(start, head_bytes, head_lines)
        rest = self.total - len(head)
        tail = _last(self._tail[-rest:], rest, tail_bytes, tail_lines) if rest else b""
        left = rest - len(tail)
        if left <= 0:
            return None
        place = len(self._tail) - len(tail)
        before = self._tail[place - 1 : place] if place else b"?"
        newlines = self.newlines - head.count(b"\n") - tail.count(b"\n")
        return Cut(readable(head), readable(tail), left, _lines(newlines, before), is_binary(head))


@define(eq=False)
class Window:
    """A stream: its last bytes, and what came since it was last read.

    Attributes:
        total: bytes so far, secrets masked; without what may yet turn out to begin a secret or is half a character.
    """

    limits: Limits
    _outputs: Outputs
    stream: str = "stdout"
    _owner: str | None = None
    total: int = 0
    spill: Spill | None = None
    _tail: bytearray = field(factory=bytearray)
    _held: bytes = b""
    _read: int = 0
    _newlines: int = 0
    _head: bytearray = field(factory=bytearray)
    _closed: bool = False

    def feed(self, data: bytes | bytearray) -> None:
        """Take what the stream brought."""
        data = self._held + bytes(data)
        whole = len(data) - incomplete_suffix(data)
        text, waiting = self._certain(data[:whole].decode("utf-8", "surrogateescape"))
        self._held = waiting.encode("utf-8", "surrogateescape") + data[whole:]
        self._take(self._masked(text))

    def _masked(self, text: str) -> bytes:
        return self._outputs.mask(text).encode("utf-8", "surrogateescape")

    def _certain(self, text: str) -> tuple[str, str]:
        """The text up to where a secret may begin that is not complete; and what waits for its end."""
        outputs = self._outputs
        waiting = outputs.pending(text)
        while waiting:
            ready, rest = text[:-waiting], text[-waiting:]
            if outputs.mask(ready) + outputs.mask(rest) == outputs.mask(text):
                return ready, rest
            waiting = outputs.pending(rest[1:])  # a whole secret reaches into it
        return text, ""

    def _take(self, data: bytes) -> None:
        size = self.limits.size
        self._newlines += data.count(b"\n")
        room = self.limits.parts[0] + 4 - len(self._head)
        if room > 0:
            self._head += data[:room]
        self.total += len(data)
        if self.spill is None and self.total > size:
            self.keep(data)
        elif self.spill is not None:
            self.spill.write(data)
        self._tail += data
        if len(self._tail) > size:
            del self._tail[: len(self._tail) - size]

    def keep(self, more: bytes = b"") -> Spill:
        """The file with the stream from its first byte on, made if there is none yet."""
        if self.spill is None:
            self.spill = self._outputs.open(self.stream, self._owner)
            self.spill.write(self._tail)
            self.spill.write(more)
            if self._closed:
                self.spill.close()
        return self.spill

    def text(self) -> str:
        """The end of the stream, as far as it is in memory."""
        cut = self.total > len(self._tail)
        return readable(self._tail[_broken_prefix(self._tail) :] if cut else self._tail)

    def read(self) -> Piece:
        """What came since the last call, whole characters only; until the end what may begin a secret waits."""
        new = self.total - self._read
        piece = Piece(
            total=new,
            newlines=self._newlines,
            fresh=self._read == 0,
            window=self,
            head=bytes(self._head),
            tail=bytes(self._tail[-new:] if new else b""),
        )
        self._read, self._newlines = self.total, 0
        self._head.clear()
        return piece

    def close(self) -> None:
        """The stream has ended; its file is complete."""
        self._closed = True
        held, self._held = self._held, b""
        if held:
            self._take(self._masked(held.decode("utf-8", "surrogateescape")))
        if self.spill is not None:
            self.spill.close()


def _first(data: bytes, most: int, lines: int) -> bytes:
    """The first bytes of `data`, up to the end of a line where there is one near enough."""
    part = data[:most]
    if len(part) == len(data) and part.count(b"\n") <= lines:
        return part
    place = -1
    for _ in range(lines):
        found = part.find(b"\n", place + 1)
        if found < 0:
            break
        place = found
    if part.count(b"\n") >= lines or place + 1 > len(part) // 2:
        return part[: place + 1]
    return part[: len(part) - incomplete_suffix(part)]


def _last(data: bytes, whole: int, most: int, lines: int) -> bytes:
    """The last bytes of `data`, the end of `whole` bytes; from the beginning of a line if one is near enough."""
    part = data[-most:]
    body = part.removesuffix(b"\n")
    place = len(body)
    for _ in range(lines):
        place = body.rfind(b"\n", 0, place)
        if place < 0:
            break
    if place >= 0:
        return part[place + 1 :]
    if len(part) < whole and data[-len(part) - 1 : -len(part)] != b"\n":
        start = part.find(b"\n") + 1
        if 0 < start < len(part) // 2 and start < len(part):
            return part[start:]
        return part[_broken_prefix(part) :]
    return part
