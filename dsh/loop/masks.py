"""Masking secrets in what a model wrote."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from ..jsonvalue import dumps, loads
from ..llm.chunks import BlockEnd, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from ..messages import Block, OtherBlock, Reasoning, Text, ToolCallBlock
from ..tools.pipeline import masked_json

__all__ = ["masked_blocks", "masked_chunk"]


def masked_chunk(chunk: Chunk, mask: Callable[[str], str]) -> Chunk:
    """`chunk` without secrets; one that is spread over several deltas is not seen here.  The same object if clean."""
    if isinstance(chunk, TextDelta | ReasoningDelta):
        text = mask(chunk.text)
        return chunk if text == chunk.text else evolve(chunk, text=text)
    if isinstance(chunk, ToolCallDelta):
        arguments = mask(chunk.arguments_delta)
        return chunk if arguments == chunk.arguments_delta else evolve(chunk, arguments_delta=arguments)
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
