"""What a command prints: the end of a stream in memory, all of it in a file once it grows too long."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from itertools import count
from typing import Final

from attrs import define, field, frozen

__all__ = ["MAX_SPILL_BYTES", "Delta", "Spill", "SpillFolder", "Window", "incomplete_suffix", "readable"]

MAX_SPILL_BYTES: Final = 1 << 30
"""No file grows beyond this, or a command that never stops printing would fill the disk."""


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


@define(eq=False)
class Spill:
    """A file that takes a whole stream.  Its `path` is None from the first failed write on."""

    path: str | None
    _fd: int | None
    written: int = 0
    limit: int = MAX_SPILL_BYTES

    def write(self, data: bytes | bytearray) -> None:
        """Append `data`, up to the file's limit; never raises."""
        room = self.limit - self.written
        if self._fd is None or room <= 0:
            return
        rest = memoryview(data)[:room]
        try:
            while rest:
                done = os.write(self._fd, rest)
                self.written += done
                rest = rest[done:]
        except OSError:
            self.path = None
            self.close()

    def close(self) -> None:
        """Close the file; the path is withheld if that fails."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.close(fd)
        except OSError:
            self.path = None


class SpillFolder:
    """A private folder for spill files, made when the first is needed."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._numbers = count(1)

    def open(self, stream: str) -> Spill:
        """A new, empty file for ``stdout`` or ``stderr``; without a path where none can be made."""
        try:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="dsh-bash-")
            name = f"dsh-bash-{os.getpid()}-{next(self._numbers)}-{secrets.token_hex(6)}-{stream}.log"
            path = os.path.join(self._folder, name)
            return Spill(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:
            return Spill(None, None)

    def remove(self) -> None:
        """Delete the folder and all its files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


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
