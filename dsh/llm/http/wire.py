"""What translators of every dialect need: events as JSON, and blocks that are being received."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from ...errors import LlmError
from ...jsonvalue import clean, dumps
from ...messages import Block, OtherBlock, Text, TokenUsage
from ..chunks import Chunk
from .failures import shorten
from .sse import ErrorData

__all__ = ["OpenBlock", "counted", "malformed", "number_of_tokens", "parse", "take_event", "written"]

_ATTACHMENTS = ("image", "document", "audio", "video", "file")
_MOST_TOKENS = 1 << 53
"""No service counts as far, and not every reader of JSON tells numbers beyond it apart."""


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


def take_event(provider: str, payload: bytes, take: Callable[[Any, list[Chunk], bool], None], out: list[Chunk]) -> None:
    """Hand an event's JSON to `take`, with the list to add to and whether the service calls it an error.

    ``[DONE]`` is said by services that speak other dialects as well; it is passed over, as an answer's own end is
    what counts.

    Raises:
        LlmError: it is an error of the service, or nothing that can be understood; what came before it is in `out`.
    """
    if payload.startswith(b"[DONE]"):
        return
    wire = parse(provider, payload)
    try:
        take(wire, out, payload.__class__ is ErrorData)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise malformed(provider, wire) from error


def malformed(provider: str, payload: Any) -> LlmError:
    """The error for data that is not what it should be: bytes as they came, or what they parse to."""
    if not isinstance(payload, bytes):
        try:
            payload = dumps(payload)
        except ValueError:
            payload = repr(payload).encode("utf-8", "replace")
    text = shorten(payload.decode("utf-8", "replace"), 200)
    return LlmError(f"{provider} sent data that cannot be understood: {text}", code="MALFORMED_RESPONSE")


def written(content: Iterable[Block]) -> str:
    """The text of `content`; in place of what no dialect here sends it says so, since the model cannot see that."""
    return "".join(block.text if isinstance(block, Text) else _instead_of(block) for block in content)


def _instead_of(block: Block) -> str:
    if isinstance(block, OtherBlock) and block.type in _ATTACHMENTS:
        return f"[an attachment of the kind {block.type} is not shown to you: it cannot be sent to this model]"
    return ""


def counted(wire: Any, read: Callable[[Mapping[str, Any]], TokenUsage]) -> TokenUsage | None:
    """What `read` makes of a ``usage`` object; None if it counts nothing, or in no numbers.

    An answer is not worth less for it, and who has to know how many tokens it took sees that nobody says.
    """
    if not isinstance(wire, Mapping):
        return None
    try:
        return read(wire)
    except (OverflowError, ValueError):
        return None


def number_of_tokens(value: Any) -> int | None:
    """A counter, which some services write as text; None if there is none.  It is never negative.

    Raises:
        OverflowError, ValueError: it is a number, but not one of tokens.
    """
    if isinstance(value, str):
        value = float(value) if value.strip() else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    number = max(0, int(value))
    if number > _MOST_TOKENS:
        raise OverflowError(f"{value} tokens are more than anybody has")
    return number
