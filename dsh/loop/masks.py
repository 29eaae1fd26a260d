"""Masking secrets in what a model wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import evolve

from ..jsonvalue import dumps, loads
from ..llm.chunks import BlockEnd, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from ..messages import Block, OtherBlock, Reasoning, Text, ToolCallBlock
from ..tools.pipeline import masked_json

__all__ = ["ChunkMask", "masked_blocks"]

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta


class ChunkMask:
    """Masks the chunks of one answer.

    Of a text whose end may be the beginning of a secret that end waits for the next delta of its block, so that
    a secret is hidden also where it is spread over several.
    """

    def __init__(self, mask: Callable[[str], str], pending: Callable[[str], int]) -> None:
        self._mask = mask
        self._pending = pending
        self._waiting: dict[int, Delta] = {}

    def feed(self, chunk: Chunk) -> Iterator[Chunk]:
        """What can be shown by now; `chunk` itself where there is nothing to hide."""
        if not isinstance(chunk, Delta):
            yield from self.rest(chunk.index if isinstance(chunk, BlockEnd) else None)
            yield _masked_chunk(chunk, self._mask)
            return
        before = self._waiting.pop(chunk.index, None)
        text = _text_of(chunk) if before is None else _text_of(before) + _text_of(chunk)
        masked = self._mask(text)
        waiting = self._pending(masked)
        if waiting:
            self._waiting[chunk.index] = _with_text(chunk, masked[-waiting:])
            masked = masked[:-waiting]
        if masked == _text_of(chunk):
            yield chunk
        elif masked or not waiting:
            yield _with_text(chunk, masked)

    def rest(self, index: int | None) -> Iterator[Chunk]:
        """What waits in the block `index`, or in all: no more comes."""
        for key in [key for key in self._waiting if index is None or key == index]:
            yield self._waiting.pop(key)


def _text_of(chunk: Delta) -> str:
    return chunk.arguments_delta if isinstance(chunk, ToolCallDelta) else chunk.text


def _with_text(chunk: Delta, text: str) -> Delta:
    return evolve(chunk, arguments_delta=text) if isinstance(chunk, ToolCallDelta) else evolve(chunk, text=text)


def _masked_chunk(chunk: Chunk, mask: Callable[[str], str]) -> Chunk:
    """`chunk`, which is no delta, without secrets.  The same object if clean."""
    if isinstance(chunk, BlockEnd):
        block = _masked(chunk.block, mask)
        return chunk if block is chunk.block else evolve(chunk, block=block)
    if isinstance(chunk, Finish) and chunk.reason.message:
        return evolve(chunk, reason=evolve(chunk.reason, message=mask(chunk.reason.message)))
    return chunk


def masked_blocks(blocks: tuple[Block, ...], mask: Callable[[str], str]) -> tuple[Block, ...]:
    """`blocks` without secrets; the same objects where there are none."""
    return tuple(_masked(block, mask) for block in blocks)


def _masked(block: Block, mask: Callable[[str], str]) -> Block:
    if isinstance(block, Text):
        text = mask(block.text)
        return block if text == block.text else evolve(block, text=text)
    if isinstance(block, Reasoning):
        text = mask(block.text)
        # The provider's seal fits the text as it was, and would have the request refused.
        return block if text == block.text else evolve(block, text=text, signature=None)
    if isinstance(block, ToolCallBlock):
        arguments = _masked_arguments(block.arguments, mask)
        return block if arguments == block.arguments else evolve(block, arguments=arguments)
    if isinstance(block, OtherBlock):
        data = masked_json(block.data, mask)
        return block if data == block.data else OtherBlock(data)
    return block


def _masked_arguments(arguments: str, mask: Callable[[str], str]) -> str:
    """The text of a call's arguments without secrets, also without those that are written with escapes."""
    masked = mask(arguments)
    if "\\" not in masked:
        return masked
    try:
        value = loads(masked)
    except ValueError:
        return masked
    hidden = masked_json(value, mask)
    return masked if hidden == value else dumps(hidden).decode()
