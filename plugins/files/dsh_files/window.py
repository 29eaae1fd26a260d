"""The part of a file that one call of ``read`` shows, found in bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from .config import FilesConfig

__all__ = ["NotText", "Window", "cut_bytes", "take"]

Ending: TypeAlias = Literal["end", "lines", "bytes"]
BOM = codecs.BOM_UTF8


class NotText(ValueError):
    """The bytes are no UTF-8; the message says where."""


@frozen
class Window:
    """Lines of a file.

    Attributes:
        lines: their text, without line ends; long ones are cut, and say so.
        first: the number of the first, from 1.
        ending: why there are no more: the file's end, the limit of lines, or that of bytes.
        total: how many lines the file has; None where reading stopped before its end.
    """

    lines: tuple[str, ...]
    first: int
    ending: Ending
    total: int | None

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def cut_bytes(text: str, size: int) -> str:
    """As much of `text` as fits into `size` bytes of UTF-8; no character is cut in two."""
    return text.encode()[:size].decode("utf-8", "ignore")


def take(chunks: Iterable[bytes], offset: int, limit: int, config: FilesConfig) -> Window:
    """Up to `limit` lines from line `offset` on.

    Raises:
        NotText: a shown line is no UTF-8.
    """
    reader = _Reader(offset, limit, config)
    for chunk in chunks:
        reader.feed(chunk)
        if reader.full:
            return Window(tuple(reader.lines), offset, "bytes", None)
    return reader.finish()


@define
class _Reader:
    offset: int
    limit: int
    config: FilesConfig
    number: int = 1
    """The line that the next byte belongs to."""
    full: bool = False
    lines: list[str] = field(factory=list)
    _line: bytearray = field(factory=bytearray)
    _line_size: int = 0
    _size: int = 0
    _begun: bool = False

    def feed(self, chunk: bytes) -> None:
        if not self._begun:
            chunk = chunk.removeprefix(BOM)
        self._begun = True
        start = 0
        while start < len(chunk) and not self.full:
            if not self.offset <= self.number < self.offset + self.limit:
                start = self._skip(chunk, start)
                continue
            end = chunk.find(b"\n", start)
            if end < 0:
                self._collect(chunk[start:])
                return
            if self._line_size:
                self._collect(chunk[start:end])
                self._end_line()
            else:
                self._show(chunk[start:end], whole=True)
            start = end + 1

    def finish(self) -> Window:
        if self._line_size:
            if self.offset <= self.number < self.offset + self.limit:
                self._end_line()
            else:
                self.number += 1
        if self.full:
            return Window(tuple(self.lines), self.offset, "bytes", None)
        total = self.number - 1
        ending: Ending = "lines" if self.offset + len(self.lines) <= total else "end"
        return Window(tuple(self.lines), self.offset, ending, total)

    def _skip(self, chunk: bytes, start: int) -> int:
        """Pass lines that are not shown; returns where the first shown one starts, or the chunk's end."""
        ahead = chunk.count(b"\n", start)
        if self.number >= self.offset + self.limit or self.number + ahead < self.offset:
            self.number += ahead
            self._line_size = int(not chunk.endswith(b"\n"))
            return len(chunk)
        while self.number < self.offset:
            start = chunk.index(b"\n", start) + 1
            self.number += 1
        self._line_size = 0
        return start

    def _collect(self, piece: bytes) -> None:
        # A character takes four bytes at most, so what is beyond cannot be shown.
        room = 4 * self.config.read_max_line_length + 4 - len(self._line)
        self._line += piece[: max(room, 0)]
        self._line_size += len(piece)

    def _end_line(self) -> None:
        self._show(bytes(self._line), whole=len(self._line) == self._line_size)
        self._line.clear()
        self._line_size = 0

    def _show(self, line: bytes, *, whole: bool) -> None:
        """Show one line, of which `line` is the beginning unless it is `whole`; or be full."""
        text = self._text(line, whole)
        size = (len(text) if text.isascii() else len(text.encode())) + bool(self.lines)
        if self._size + size <= self.config.read_max_bytes:
            self._size += size
            self.lines.append(text)
            self.number += 1
            return
        if not self.lines:
            # Without at least a part of it, reading could never get past this line.
            self.lines.append(f"{cut_bytes(text, self.config.read_max_bytes)}... (cut: the line is too long)")
        self.full = True

    def _text(self, line: bytes, whole: bool) -> str:
        try:
            text = line.decode() if whole else codecs.getincrementaldecoder("utf-8")().decode(line)
        except UnicodeDecodeError as error:
            raise NotText(f"line {self.number} holds the byte 0x{line[error.start]:02x}") from None
        if whole and text.endswith("\r"):
            text = text[:-1]
        most = self.config.read_max_line_length
        return text if whole and len(text) <= most else f"{text[:most]}... (cut after {most} characters)"
