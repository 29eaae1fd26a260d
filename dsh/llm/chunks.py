"""Chunks: what a model's answer arrives in.

An adapter yields, per block: `BlockStart`, deltas, `BlockEnd` with the authoritative block;
then at most one `Usage`; then `Finish`, and nothing after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from attrs import field, frozen

from ..jsonvalue import clean
from ..messages import Block, FinishReason, TokenUsage

__all__ = [
    "BlockEnd",
    "BlockStart",
    "Chunk",
    "ChunkStream",
    "Finish",
    "ReasoningDelta",
    "TextDelta",
    "ToolCallDelta",
    "Usage",
]


@frozen
class BlockStart:
    """A block opens; `block_type` is that of its `Block`."""

    type: ClassVar[str] = "block-start"
    index: int
    block_type: str


@frozen
class TextDelta:
    """More text of a block."""

    type: ClassVar[str] = "text-delta"
    index: int
    text: str = field(converter=clean)


@frozen
class ReasoningDelta:
    """More reasoning of a block."""

    type: ClassVar[str] = "reasoning-delta"
    index: int
    text: str = field(converter=clean)


@frozen
class ToolCallDelta:
    """More of a call: id and name as far as known, and the next piece of its arguments."""

    type: ClassVar[str] = "tool-call-delta"
    index: int
    id: str = field(converter=clean)
    name: str | None = None
    arguments_delta: str = field(default="", converter=clean)


@frozen
class BlockEnd:
    """A block is complete."""

    type: ClassVar[str] = "block-end"
    index: int
    block: Block


@frozen
class Usage:
    """The tokens of the request."""

    type: ClassVar[str] = "usage"
    usage: TokenUsage


@frozen
class Finish:
    """The answer is over."""

    type: ClassVar[str] = "finish"
    reason: FinishReason


Chunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | Usage | Finish


@runtime_checkable
class ChunkStream(Protocol):
    """An async iterator of chunks that can be closed early, as async generators can."""

    def __aiter__(self) -> AsyncIterator[Chunk]: ...

    async def __anext__(self) -> Chunk: ...

    async def aclose(self) -> None: ...
