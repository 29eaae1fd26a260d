"""The words a conversation is made of: blocks, messages, sources, usage, call settings.

Everything here is a frozen value.  ``type`` and ``kind`` of the JSON spelling are class
variables; blocks and sources of kinds that nobody here knows are carried along verbatim
(`OtherBlock`, `OtherSource`) and skipped by whoever does not understand them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from attrs import asdict, field, frozen

from .jsonvalue import Json, clean, freeze

__all__ = [
    "EFFORTS",
    "USER",
    "Block",
    "BlockLike",
    "CallConfig",
    "Effort",
    "FinishReason",
    "HookContext",
    "Message",
    "MessageSource",
    "OtherBlock",
    "OtherSource",
    "PluginSource",
    "Reasoning",
    "Role",
    "Text",
    "TokenUsage",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolSchema",
    "UserSource",
    "blocks",
    "text_of",
]

Role: TypeAlias = Literal["system", "user", "assistant"]


@frozen
class Text:
    """Text that the model or a person wrote."""

    type: ClassVar[str] = "text"
    text: str = field(converter=clean)


@frozen
class Reasoning:
    """What the model thought before it answered.

    Attributes:
        text: as far as it may be read; it may be empty where the rest is not.
        signature: the provider's seal on the text, without which it does not take it back.
        data: thoughts that only the provider can read.
        model: who thought it, as ``provider/name``; None where nobody said.  Thoughts go back to their maker alone.
    """

    type: ClassVar[str] = "reasoning"
    text: str = field(converter=clean)
    signature: str | None = None
    data: str | None = None
    model: str | None = None


@frozen
class ToolCallBlock:
    """A call as the model wrote it; `arguments` is its raw text, which may not be JSON."""

    type: ClassVar[str] = "tool-call"
    id: str = field(converter=clean)
    name: str = field(converter=clean)
    arguments: str = field(converter=clean)


@frozen
class ToolResultBlock:
    """The answer to one call, as the model sees it."""

    type: ClassVar[str] = "tool-result"
    tool_call_id: str
    content: tuple[Block, ...]
    is_error: bool | None = None


@frozen
class OtherBlock:
    """A block of a type that is not known here, kept as it came."""

    data: Json = field(converter=freeze)

    @property
    def type(self) -> str:
        return str(self.data.get("type", ""))


Block: TypeAlias = Text | Reasoning | ToolCallBlock | ToolResultBlock | OtherBlock
BlockLike: TypeAlias = "str | Block | Iterable[Block]"
"""What every function that takes content accepts: a string, a block, or several blocks."""


def blocks(content: BlockLike) -> tuple[Block, ...]:
    """`content` as a tuple of blocks; a string becomes one `Text`."""
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, Text | Reasoning | ToolCallBlock | ToolResultBlock | OtherBlock):
        return (content,)
    return tuple(content)


def text_of(content: Iterable[Block]) -> str:
    """The text blocks of `content`, concatenated."""
    return "".join(block.text for block in content if isinstance(block, Text))


@frozen
class UserSource:
    """A person, or the program that stands for one."""

    kind: ClassVar[str] = "user"


@frozen
class PluginSource:
    """A plugin, by the name it is registered under."""

    kind: ClassVar[str] = "plugin"
    plugin: str


@frozen
class OtherSource:
    """A source of a kind that is not known here, kept as it came."""

    data: Json = field(converter=freeze)

    @property
    def kind(self) -> str:
        return str(self.data.get("kind", ""))


MessageSource: TypeAlias = UserSource | PluginSource | OtherSource
USER = UserSource()


@frozen
class HookContext:
    """Content that a plugin adds to the conversation; it always says who added it."""

    content: tuple[Block, ...] = field(converter=blocks)
    source: MessageSource


@frozen
class Message:
    """One message of a request.

    `memo` belongs to adapters: bytes derived from this message, by a key of their own, so
    that a message is encoded once however often it is sent.  It is no part of the value.
    """

    role: Role
    content: tuple[Block, ...] = field(converter=blocks)
    memo: dict[Any, Any] = field(factory=dict, init=False, repr=False, eq=False)


@frozen
class FinishReason:
    """Why the model stopped: ``stop``, ``tool-calls``, ``max-tokens``, ``aborted``, ``error``,
    or a kind of the provider's own, which counts as an ordinary end.
    """

    kind: str
    message: str | None = None
    code: str | None = None


@frozen
class TokenUsage:
    """Tokens of one request.  Input, read from a cache and written to one do not overlap.

    Attributes:
        reasoning_tokens: a part of the output.
        cache_write_1h_tokens: a part of those that were written: what is kept for an hour costs more than what is
            kept for minutes.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_1h_tokens: int | None = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            _sum(self.cache_write_1h_tokens, other.cache_write_1h_tokens),
        )

    def record(self) -> dict[str, int | None]:
        """The counters by name, for programs to read; `cache_write_1h_tokens` only where there are any."""
        counts: dict[str, int | None] = asdict(self)
        if not self.cache_write_1h_tokens:
            del counts["cache_write_1h_tokens"]
        return counts


Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[str, ...] = get_args(Effort)
"""How much a model may be asked to think, from nothing to all that it can."""


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _strings(value: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


@frozen
class CallConfig:
    """The settings of one model call: ``model`` is ``provider/name``; None is the provider's default.

    `reasoning_effort` is one of `EFFORTS`: how much the model thinks before it answers.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = field(default=None, converter=_strings)
    reasoning_effort: str | None = None


@frozen
class ToolSchema:
    """A tool as the model sees it; `parameters` is a JSON schema of type object."""

    name: str
    description: str = field(converter=clean)
    parameters: Mapping[str, Json] = field(converter=freeze)
