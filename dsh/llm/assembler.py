"""The assembler: chunks in, the blocks of a message out."""

from __future__ import annotations

from attrs import define, field

from ..errors import LlmError
from ..messages import Block, FinishReason, Reasoning, Text, TokenUsage, ToolCallBlock
from .chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage

__all__ = ["Assembler"]


@define
class _Open:
    """A block in the making."""

    type: str
    parts: list[str] = field(factory=list)
    id: str = ""
    name: str = ""
    block: Block | None = None


class Assembler:
    """Collects the chunks of one answer.

    Blocks stand in the order in which their index was first seen.  The first `BlockEnd` of a
    block is authoritative; deltas behind it are ignored.  The last usage and finish win.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self.usage: TokenUsage | None = None
        self.finish: FinishReason | None = None

    def feed(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        kind = type(chunk)
        if kind is TextDelta or kind is ReasoningDelta:
            self._delta(chunk.index, "text" if kind is TextDelta else "reasoning").append(chunk.text)  # type: ignore[union-attr]  # kind says so
        elif isinstance(chunk, ToolCallDelta):
            parts = self._delta(chunk.index, "tool-call")
            opened = self._blocks[chunk.index]
            opened.id = chunk.id or opened.id
            opened.name = chunk.name or opened.name
            parts.append(chunk.arguments_delta)
        elif isinstance(chunk, BlockStart):
            self._blocks.setdefault(chunk.index, _Open(chunk.block_type))
        elif isinstance(chunk, BlockEnd):
            opened = self._blocks.setdefault(chunk.index, _Open(chunk.block.type))
            if opened.block is None:
                opened.block = chunk.block
        elif isinstance(chunk, Usage):
            self.usage = chunk.usage
        elif isinstance(chunk, Finish):
            self.finish = chunk.reason

    def _delta(self, index: int, kind: str) -> list[str]:
        opened = self._blocks.get(index)
        if opened is None:
            opened = self._blocks[index] = _Open(kind)
        # Late deltas of a closed block go nowhere.
        return opened.parts if opened.block is None else []

    def content(self) -> tuple[Block, ...]:
        """The blocks.

        Raises:
            LlmError: an open block is of a type that cannot be assembled from deltas.
        """
        return tuple(self._assembled(index, opened) for index, opened in self._blocks.items())

    def text(self) -> str:
        """The text so far, whatever became of the rest."""
        return "".join(
            opened.block.text if isinstance(opened.block, Text) else "".join(opened.parts)
            for opened in self._blocks.values()
            if opened.type == "text"
        )

    def _assembled(self, index: int, opened: _Open) -> Block:
        if opened.block is not None:
            return opened.block
        text = "".join(opened.parts)
        if opened.type == "text":
            return Text(text)
        if opened.type == "reasoning":
            return Reasoning(text)
        if opened.type == "tool-call":
            return ToolCallBlock(opened.id or f"call-{index}", opened.name, text)
        raise LlmError(f"the answer holds an unfinished block of type {opened.type!r}", code="MALFORMED_RESPONSE")
