"""Bodies that were compressed on the way, though nobody asked for that."""

from __future__ import annotations

import zlib

__all__ = ["PLAIN", "Inflater", "Unreadable", "inflater"]

PLAIN = frozenset({"", "identity", "none", "utf-8"})
"""What services and what stands before them call a body that is not compressed."""
_INFLATED = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP = b"\x1f\x8b"
_EITHER = 32 + zlib.MAX_WBITS


class Inflater:
    """Takes a compressed body in pieces and gives what has come of it so far.

    Its methods raise `zlib.error` for what is not compressed in that way.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_EITHER)
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> bytes:
        """What is behind `data`; empty while nothing can be told."""
        if self._head is None:
            return self._decompressed(data)
        self._head += data
        try:
            found = self._decompressed(data)
        except zlib.error:
            # There are two ways to understand ``deflate``: with a head, or without.
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            found, self._head = self._inflate.decompress(self._head), None
        if found:
            self._head = None
        return found

    def _decompressed(self, data: bytes) -> bytes:
        """What `data` holds; gzip may end and begin anew in the middle (RFC 1952 2.2), what else follows is nothing."""
        found = self._inflate.decompress(data)
        while self._inflate.eof and (rest := self._inflate.unused_data).startswith(_GZIP[: len(rest)]) and rest:
            self._inflate = zlib.decompressobj(_EITHER)
            found += self._inflate.decompress(rest)
        return found

    def end(self) -> bytes:
        """The rest."""
        return self._inflate.flush()


class Unreadable(Inflater):
    """Takes a body that cannot be read, and gives a sentence on that instead."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    def feed(self, data: bytes) -> bytes:
        """Nothing yet."""
        return b""

    def end(self) -> bytes:
        """The sentence."""
        return f"the explanation is compressed ({self._encoding}), unasked".encode()


def inflater(encodings: str) -> Inflater | None:
    """What reads a body with that ``Content-Encoding``; None if it is of a kind that cannot be read."""
    names = [name for name in (name.strip().lower() for name in encodings.split(",")) if name not in PLAIN]
    return Inflater() if len(names) == 1 and names[0] in _INFLATED else None
