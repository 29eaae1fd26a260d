"""Chunks in, blocks out."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import LlmError
from dsh.llm.assembler import Assembler
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh.llm.scripted import reply
from dsh.messages import Block, FinishReason, Reasoning, Text, TokenUsage, ToolCallBlock


def assembled(*chunks: Chunk) -> Assembler:
    assembler = Assembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler


def test_blocks_stand_in_the_order_in_which_they_began() -> None:
    """K01."""
    found = assembled(
        BlockStart(5, "text"),
        BlockStart(2, "reasoning"),
        ReasoningDelta(2, "th"),
        TextDelta(5, "a"),
        ReasoningDelta(2, "ought"),
        TextDelta(5, "b"),
    )
    assert found.content() == (Text("ab"), Reasoning("thought"))
    assert found.content() == found.content()


def test_deltas_open_a_block_by_themselves() -> None:
    """K01."""
    found = assembled(TextDelta(0, "a"), ToolCallDelta(1, "c1", "work", '{"a'), ToolCallDelta(1, "", None, '": 1}'))
    assert found.content() == (Text("a"), ToolCallBlock("c1", "work", '{"a": 1}'))


def test_the_first_end_of_a_block_is_authoritative() -> None:
    """K01."""
    found = assembled(
        TextDelta(0, "draft"),
        BlockEnd(0, Text("final")),
        TextDelta(0, " late"),
        BlockEnd(0, Text("later")),
        BlockStart(0, "reasoning"),
    )
    assert found.content() == (Text("final"),)


def test_an_end_alone_makes_a_block() -> None:
    assert assembled(BlockEnd(3, Text("x"))).content() == (Text("x"),)


def test_the_last_id_and_name_of_a_call_win() -> None:
    found = assembled(
        ToolCallDelta(0, "", "", "{"),
        ToolCallDelta(0, "a", "one"),
        ToolCallDelta(0, "b", "two", "}"),
        ToolCallDelta(0, ""),
    )
    assert found.content() == (ToolCallBlock("b", "two", "{}"),)


def test_a_call_without_id_and_name_has_a_made_up_id() -> None:
    """K01."""
    assert assembled(ToolCallDelta(4, "", None, "{}")).content() == (ToolCallBlock("call-4", "", "{}"),)


def test_an_unfinished_block_of_an_unknown_type_is_an_error() -> None:
    """K01."""
    with pytest.raises(LlmError, match="'hologram'") as caught:
        assembled(BlockStart(0, "hologram")).content()
    assert caught.value.code == "MALFORMED_RESPONSE"


def test_the_last_usage_and_finish_win() -> None:
    found = assembled(
        Usage(TokenUsage(1, 1)),
        Usage(TokenUsage(2, 2)),
        Finish(FinishReason("stop")),
        Finish(FinishReason("tool-calls")),
    )
    assert (found.usage, found.finish) == (TokenUsage(2, 2), FinishReason("tool-calls"))
    assert assembled().finish is None


def test_the_text_so_far_is_text_alone() -> None:
    found = assembled(
        ReasoningDelta(0, "thought"),
        TextDelta(1, "a"),
        BlockStart(2, "hologram"),
        ToolCallDelta(3, "c", "work", "{"),
        TextDelta(4, "b"),
        BlockEnd(4, Text("B")),
    )
    assert found.text() == "aB"


@given(st.permutations(range(3)), st.text(max_size=5), st.text(max_size=5), st.data())
def test_how_blocks_are_interleaved_changes_only_their_order(
    order: list[int], one: str, two: str, data: st.DataObject
) -> None:
    streams: list[list[Chunk]] = [
        [BlockStart(0, "text"), *(TextDelta(0, c) for c in one)],
        [BlockStart(1, "reasoning"), *(ReasoningDelta(1, c) for c in two)],
        [BlockStart(2, "tool-call"), ToolCallDelta(2, "c", "work", "{}")],
    ]
    wanted: list[Block] = [Text(one), Reasoning(two), ToolCallBlock("c", "work", "{}")]
    merged: list[Chunk] = [streams[index].pop(0) for index in order]
    while any(streams):
        merged.append(data.draw(st.sampled_from([stream for stream in streams if stream])).pop(0))
    assert assembled(*merged).content() == tuple(wanted[index] for index in order)


@given(st.text(min_size=1, max_size=8), st.text(max_size=8))
def test_a_scripted_reply_assembles_to_what_it_says(text: str, reasoning: str) -> None:
    played = reply(text, reasoning=reasoning, calls=[("c", "work", {"x": text})])
    whole = assembled(*played.chunks).content()
    without_ends = assembled(*(chunk for chunk in played.chunks if not isinstance(chunk, BlockEnd))).content()
    assert whole == without_ends
    assert [block.type for block in whole] == list(chain(["reasoning"] * bool(reasoning), ["text", "tool-call"]))
