"""Where a response's body ends: chunked, counted, or at the end of the connection."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Body", "Chunked", "Counted", "FramingError", "UntilClosed", "body_of"]

_MAX_LINE = 16 * 1024


class FramingError(ValueError):
    """The bytes break the rules of HTTP/1.1."""


class Body:
    """Takes what the network gives and hands out what belongs to the body.

    `feed` joins everything that one read brought, however many chunks it was sent in.
    """

    done = False
    """The body is whole."""
    reusable = True
    """When it is: the connection may carry another request."""

    def feed(self, data: bytes) -> bytes:
        """The part of the body in `data`.

        Raises:
            FramingError: `data` cannot be a part of this body.
        """
        raise NotImplementedError


class UntilClosed(Body):
    """A body without a length: it ends when the connection does."""

    reusable = False

    def feed(self, data: bytes) -> bytes:
        return data


class Counted(Body):
    """A body of a known number of bytes."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.reusable = False
            data = data[: self._left]
        self._left -= len(data)
        self.done = self._left == 0
        return data


class Chunked(Body):
    """A body in chunks with their sizes before them."""

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0
        self._ends = 0
        self._last = False

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if self._last:
            self._trailer(data)
            return b""
        pos, size = 0, len(data)
        found: list[bytes] = []
        while pos < size:
            if self._left:
                piece = data[pos : pos + self._left]
                found.append(piece)
                pos += len(piece)
                self._left -= len(piece)
                self._ends = 2
                continue
            if self._ends:
                if size - pos < 2:
                    break
                if data[pos : pos + 2] != b"\r\n":
                    raise FramingError("a chunk is longer than its size says")
                pos += 2
                self._ends = 0
            end = data.find(b"\r\n", pos)
            if end < 0:
                break
            self._left = _chunk_size(data[pos:end])
            pos = end + 2
            if not self._left:
                self._last = True
                self._trailer(data[pos:])
                return b"".join(found)
        self._rest = data[pos:]
        if len(self._rest) > _MAX_LINE:
            raise FramingError("the size of a chunk is missing")
        return b"".join(found)

    def _trailer(self, data: bytes) -> None:
        """Fields may follow the last chunk; an empty line ends them."""
        if data.startswith(b"\r\n"):
            end = 2
        elif (found := data.find(b"\r\n\r\n")) >= 0:
            end = found + 4
        elif len(data) > _MAX_LINE:
            raise FramingError("the fields after the last chunk do not end")
        else:
            self._rest = data
            return
        self.done = True
        self.reusable = len(data) == end


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise FramingError(f"a chunk has the size {line[:40]!r}")
    return int(digits, 16)


def body_of(status: int, headers: Mapping[str, str]) -> Body:
    """The framing of a response to a POST.

    Args:
        headers: with names in lower case.

    Raises:
        FramingError: the headers contradict themselves or announce an encoding that was not asked for.
    """
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise FramingError(f"the body is compressed ({headers['content-encoding']}), which was not asked for")
    if status == 204:
        return Counted(0)
    transfer = headers.get("transfer-encoding", "").lower()
    if transfer == "chunked":
        return Chunked()
    if transfer:
        raise FramingError(f"the body has the transfer encoding {transfer!r}, which was not asked for")
    length = headers.get("content-length")
    if length is None:
        return UntilClosed()
    if not (length.isascii() and length.isdigit()):
        raise FramingError(f"the body has the length {length[:40]!r}")
    return Counted(int(length))
