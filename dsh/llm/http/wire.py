"""What translators of every dialect need: events as JSON, and blocks that are being received."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from ...errors import LlmError
from ...jsonvalue import clean
from ...messages import TokenUsage
from .failures import shorten

__all__ = ["OpenBlock", "counted", "malformed", "parse"]


class OpenBlock:
    """A block that is being received.

    Attributes:
        index: its number among the chunks.
        key: what the service calls it.
        id, name: of a call.
        pieces: its text so far.
        carry: half of a surrogate pair, which waits for the other half.
    """

    __slots__ = ("carry", "id", "index", "key", "name", "pieces")

    def __init__(self, index: int, key: object = None) -> None:
        self.index = index
        self.key = key
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.carry = ""

    def text(self) -> str:
        """Everything that came."""
        return "".join(self.pieces) + self.carry

    def join(self, piece: str) -> str:
        """`piece`, recorded; half of a surrogate pair at its end waits for the other half."""
        if not self.carry and not "\ud800" <= piece[-1:] <= "\udbff":
            self.pieces.append(piece)
            return piece
        piece = self.carry + piece
        self.carry = piece[-1] if "\ud800" <= piece[-1] <= "\udbff" else ""
        piece = clean(piece[:-1] if self.carry else piece)
        self.pieces.append(piece)
        return piece


def parse(provider: str, payload: bytes) -> Any:
    """The JSON of an event's data, also where a fast parser refuses it: NaN, halves of surrogate pairs.

    Raises:
        LlmError: it is no JSON (``MALFORMED_RESPONSE``).
    """
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise malformed(provider, payload) from error


def malformed(provider: str, payload: bytes) -> LlmError:
    """The error for data that is not what it should be."""
    text = shorten(payload.decode("utf-8", "replace"), 200)
    return LlmError(f"{provider} sent data that cannot be understood: {text}", code="MALFORMED_RESPONSE")


def counted(provider: str, wire: Mapping[str, Any], read: Callable[[Mapping[str, Any]], TokenUsage]) -> TokenUsage:
    """What `read` makes of a ``usage`` object.

    Raises:
        LlmError: a counter is no number of tokens (``MALFORMED_RESPONSE``).
    """
    try:
        return read(wire)
    except (OverflowError, ValueError):
        raise LlmError(
            f"{provider} sent a count of tokens that is no number: {shorten(str(dict(wire)), 200)}",
            code="MALFORMED_RESPONSE",
        ) from None
