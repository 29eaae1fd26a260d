"""What translators of every dialect need: events as JSON, and blocks that are being received."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from ...errors import LlmError
from ...jsonvalue import clean, dumps
from ...messages import Block, FinishReason, OtherBlock, Text, TokenUsage
from ..chunks import Chunk
from .failures import shorten, stream_failure
from .sse import ErrorData

__all__ = [
    "OpenBlock",
    "complains",
    "counted",
    "malformed",
    "number_of_tokens",
    "odd_end",
    "parse",
    "take_event",
    "understood",
    "written",
]

_WITHHELD = frozenset(
    {
        "content_filter",
        "sensitive",
        "safety",
        "blocked",
        "blocklist",
        "prohibited_content",
        "recitation",
        "spii",
    }
)
_BROKEN_OFF = {
    "insufficient_system_resource": "OVERLOADED",
    "overloaded": "OVERLOADED",
    "network_error": "SERVER",
    "server_error": "SERVER",
    "internal_error": "SERVER",
    "malformed_function_call": "TOOL_USE_FAILED",
}
"""Ends that are the service's fault, such as DeepSeek's and Zhipu's; another try may go well."""
_ATTACHMENTS = ("image", "document", "audio", "video", "file")
_COMPLAINTS = ("Message", "msg", "error_msg", "errors", "fault")
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


def understood(provider: str, payload: bytes) -> Any:
    """The JSON of an event's data, if it can be a part of an answer: a list is none, and an error may be plain text.

    Raises:
        LlmError: it is an error of the service, or no JSON (``MALFORMED_RESPONSE``).
    """
    try:
        wire = parse(provider, payload)
    except LlmError:
        if payload.__class__ is ErrorData:
            raise stream_failure(provider, payload.decode("utf-8", "replace")) from None
        raise
    if isinstance(wire, str) and payload.__class__ is ErrorData:
        raise stream_failure(provider, wire)
    if isinstance(wire, list) and wire and isinstance(wire[0], dict) and wire[0].get("error"):
        raise stream_failure(provider, wire[0])
    return wire


def complains(wire: Mapping[str, Any]) -> bool:
    """Whether an object that is no part of an answer has something to say all the same, as errors of gateways do."""
    if "message" in wire or "detail" in wire or any(wire.get(name) for name in _COMPLAINTS):
        return True
    base = wire.get("base_resp")
    return isinstance(base, Mapping) and bool(base.get("status_code"))


def take_event(provider: str, payload: bytes, take: Callable[[Any, list[Chunk], bool], None], out: list[Chunk]) -> None:
    """Hand an event's JSON to `take`, with the list to add to and whether the service calls it an error.

    ``[DONE]`` is said by services that speak other dialects as well; it is passed over, as an answer's own end is
    what counts.

    Raises:
        LlmError: it is an error of the service, or nothing that can be understood; what came before it is in `out`.
    """
    if payload.startswith(b"[DONE]"):
        return
    wire = understood(provider, payload)
    try:
        take(wire, out, payload.__class__ is ErrorData)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise malformed(provider, wire) from error


def odd_end(provider: str, reason: str) -> FinishReason:
    """An answer's end that is none of a dialect's own: the service withheld it, failed, or says what nobody knows."""
    said, shown = reason.lower(), shorten(reason, 80)
    if said in _WITHHELD:
        text = f"{provider} withheld the answer for what is in it ({shown})"
        return FinishReason("error", text, "CONTENT_FILTER")
    if said in _BROKEN_OFF:
        return FinishReason("error", f"{provider} broke the answer off ({shown})", _BROKEN_OFF[said])
    return FinishReason("error", f"{provider} ended the answer with the reason {shown!r}", shorten(reason.upper(), 80))


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
