"""What a command prints: the end of a stream in memory, all of it in a file once it grows too long."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from dsh_shell.spill import Spill

__all__ = ["Delta", "Window", "incomplete_suffix", "readable"]


def readable(data: bytes | bytearray) -> str:
    """`data` as text: what is not UTF-8, and NUL, becomes U+FFFD."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


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


@frozen
class Delta:
    """What a stream brought since it was last read; `lossy` when a part of that is no longer in memory."""

    text: str
    lossy: bool


@define(eq=False)
class Window:
    """The last `limit` bytes of a stream."""

    limit: int
    _open_spill: Callable[[], Spill]
    total: int = 0
    _tail: bytearray = field(factory=bytearray)
    _spill: Spill | None = None
    _read: int = 0

    @property
    def truncated(self) -> bool:
        """Whether the stream was longer than the window."""
        return self.total > self.limit

    @property
    def spill_path(self) -> str | None:
        """The file with the whole stream, if it was truncated and the file could be written."""
        return None if self._spill is None else self._spill.path

    @property
    def spill_complete(self) -> bool:
        """Whether the file holds the stream from its first byte to its last."""
        return self._spill is not None and self._spill.path is not None and self._spill.written == self.total

    def feed(self, data: bytes | bytearray) -> None:
        """Take what the stream brought."""
        self.total += len(data)
        if self._spill is None and self.truncated:
            self._spill = self._open_spill()
            self._spill.write(self._tail)
        if self._spill is not None:
            self._spill.write(data)
        self._tail += data
        if len(self._tail) > self.limit:
            del self._tail[: len(self._tail) - self.limit]

    def text(self) -> str:
        """The window, whole characters only."""
        return readable(self._tail[_broken_prefix(self._tail) :] if self.truncated else self._tail)

    def read(self, *, final: bool) -> Delta:
        """What came since the last call.  Unless `final`, a character that is not complete yet waits for the next."""
        start = self.total - len(self._tail)
        lossy = self._read < start
        data = self._tail[max(self._read - start, 0) :]
        if lossy:
            data = data[_broken_prefix(data) :]
        held = 0 if final else incomplete_suffix(data)
        self._read = self.total - held
        return Delta(readable(data[: len(data) - held]), lossy)

    def skip(self) -> None:
        """Count all that came so far as read."""
        self._read = self.total

    def close(self) -> None:
        """The stream has ended; its file is complete."""
        if self._spill is not None:
            self._spill.close()
