"""JSON objects, one a line, from a stream whose other end may write anything."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from dsh.jsonvalue import loads

__all__ = ["Garbage", "objects"]

LINE = 16 << 20
"""Bytes that a line with a JSON object may have."""
NOISE = 128 << 20
"""Bytes without a JSON object in them after which the other end is given up."""
_CHUNK = 1 << 16


class Garbage(Exception):
    """What comes is no protocol; the message says why."""


async def objects(receive: Callable[[int], Awaitable[bytes | bytearray]]) -> AsyncGenerator[dict[str, Any], None]:
    """The JSON objects among the lines that `receive` brings, until it brings nothing.

    Other lines are passed over, as long as they are not too much; nothing is kept of them.

    Raises:
        Garbage: an object is longer than any should be, or there is nothing but noise.
    """
    noise = 0
    async with aclosing(_lines(receive)) as lines:
        async for line in lines:
            found = _object(line)
            if found is not None:
                noise = 0
                yield found
                continue
            noise += len(line) + 1
            if noise > NOISE:
                raise Garbage(f"printed more than {NOISE >> 20} MiB that are no messages")


async def _lines(receive: Callable[[int], Awaitable[bytes | bytearray]]) -> AsyncGenerator[bytes, None]:
    """The lines; of one that is too long, and no object, pieces."""
    rest = bytearray()
    while data := await receive(_CHUNK):
        searched = len(rest)
        rest += data
        while (end := rest.find(b"\n", searched)) >= 0:
            yield bytes(rest[:end])
            del rest[: end + 1]
            searched = 0
        if len(rest) > LINE:
            if rest.lstrip()[:1] == b"{":
                raise Garbage(f"sent a message of more than {LINE >> 20} MiB")
            yield bytes(rest)
            rest.clear()
    if rest:
        yield bytes(rest)


def _object(line: bytes) -> dict[str, Any] | None:
    if line.lstrip()[:1] != b"{":
        return None
    try:
        found = loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
