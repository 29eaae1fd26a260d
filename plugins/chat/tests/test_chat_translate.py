"""What services send, in the shapes they were seen to send it, as chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from dsh_chat.translate import Translator

from dsh import FinishReason, LlmError, Reasoning, Text, TokenUsage, ToolCallBlock
from dsh.llm.assembler import Assembler
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, TextDelta, ToolCallDelta, Usage
from dsh.llm.http.sse import ErrorData


def wire(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def part(
    arguments: str | None = "", *, index: int | None = None, call_id: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """A fragment of a call."""
    fragment: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    if name is not None:
        fragment["function"]["name"] = name
    return fragment


def translate(*payloads: Any) -> list[Chunk]:
    translator = Translator("house")
    out: list[Chunk] = []
    for payload in payloads:
        translator.feed(payload if isinstance(payload, bytes) else json.dumps(payload).encode(), out)
    return out + translator.finish()


def calls(*fragments: dict[str, Any]) -> list[tuple[str, str, str]]:
    chunks = translate(*(wire({"tool_calls": [fragment]}) for fragment in fragments), wire(finish="tool_calls"))
    assembler = Assembler()
    deltas: dict[int, str] = {}
    for chunk in chunks:
        assembler.feed(chunk)
        if isinstance(chunk, ToolCallDelta):
            deltas[chunk.index] = deltas.get(chunk.index, "") + chunk.arguments_delta
    blocks = [block for block in assembler.content() if isinstance(block, ToolCallBlock)]
    assert [block.arguments for block in blocks] == list(deltas.values())
    return [(block.id, block.name, block.arguments) for block in blocks]


def finish_of(chunks: Sequence[Chunk]) -> FinishReason:
    assert isinstance(chunks[-1], Finish)
    return chunks[-1].reason


def failure(*payloads: Any) -> LlmError:
    with pytest.raises(LlmError) as caught:
        translate(*payloads)
    return caught.value


def test_chunks_of_an_answer_with_thoughts_text_and_a_call() -> None:
    """K05."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    chunks = translate(
        wire({"role": "assistant", "content": "", "reasoning_content": ""}),
        wire({"reasoning_content": "hm"}),
        wire({"content": "Hel"}),
        wire({"content": "lo"}),
        wire({"tool_calls": [part("{", index=0, call_id="a", name="t")]}),
        wire({"tool_calls": [part("}", index=0)]}),
        wire(finish="tool_calls"),
        {"choices": [], "usage": usage},
        b"[DONE]",
    )

    assert [chunk.type for chunk in chunks] == [
        *("block-start", "reasoning-delta"),
        *("block-start", "text-delta", "text-delta"),
        *("block-start", "tool-call-delta", "tool-call-delta"),
        *("block-end", "block-end", "block-end", "usage", "finish"),
    ]
    assert chunks[5] == BlockStart(2, "tool-call")
    assert chunks[6] == ToolCallDelta(2, "a", "t", "{")
    assert chunks[8:] == [
        BlockEnd(0, Reasoning("hm")),
        BlockEnd(1, Text("Hello")),
        BlockEnd(2, ToolCallBlock("a", "t", "{}")),
        Usage(TokenUsage(6, 5, 4)),
        Finish(FinishReason("tool-calls")),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_have_several_names_and_are_taken_once(field: str) -> None:
    chunks = translate(wire({field: "hm", "reasoning": "hm"}), wire(finish="stop"))
    assert [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)] == [Reasoning("hm")]


def test_content_may_be_a_list_of_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = [thought, {"type": "text", "text": "yes"}, {"type": "image"}]
    chunks = translate(wire({"content": parts}), wire(finish="stop"))
    assert [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)] == [Reasoning("hm"), Text("yes")]


def test_other_choices_are_not_mixed_in() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}]}
    chunks = translate(wire({"content": "A"}), other, wire(finish="stop"))
    assert chunks[-2:] == [BlockEnd(0, Text("A")), Finish(FinishReason("stop"))]


def test_refusal_is_shown_and_named() -> None:
    chunks = translate(wire({"content": "", "refusal": "I "}), wire({"refusal": "won't"}), wire(finish="stop"))
    assert chunks[-2:] == [BlockEnd(0, Text("I won't")), Finish(FinishReason("refusal"))]


@pytest.mark.parametrize(
    ("fragments", "wanted"),
    [
        pytest.param(
            [part(call_id="a", name="t"), part('{"x":'), part("1}"), part('{"x":2}', call_id="b", name="t")],
            [("a", "t", '{"x":1}'), ("b", "t", '{"x":2}')],
            id="no index",
        ),
        pytest.param(
            [part('{"x":1}', index=0, call_id="a", name="t"), part('{"x":2}', index=0, call_id="b", name="u")],
            [("a", "t", '{"x":1}'), ("b", "u", '{"x":2}')],
            id="one index for two calls",
        ),
        pytest.param(
            [
                part("{", index=0, call_id="a", name="t"),
                part("{", index=0, call_id="b", name="u"),
                part("}", index=0, call_id="a"),
                part("}", index=0, call_id="b"),
            ],
            [("a", "t", "{}"), ("b", "u", "{}")],
            id="one index, ids repeated",
        ),
        pytest.param(
            [part('{"x":', index=0, call_id="a", name="t"), part("1}", index=0, call_id="a", name="t")],
            [("a", "t", '{"x":1}')],
            id="id and name with each fragment",
        ),
        pytest.param(
            [
                part(index=0, call_id="a", name="t"),
                part(index=1, call_id="b", name="u"),
                part("{", index=0),
                part("{", index=1),
                part("}", index=0),
                part("}", index=1),
            ],
            [("a", "t", "{}"), ("b", "u", "{}")],
            id="interleaved by index",
        ),
        pytest.param(
            [part("{", index=0, call_id="a", name="t"), {"index": 0, "id": None, "function": {"arguments": "}"}}],
            [("a", "t", "{}")],
            id="id null",
        ),
        pytest.param(
            [part("{", index=0, call_id="a", name="t"), part("}", index=0, call_id="", name="")],
            [("a", "t", "{}")],
            id="id and name empty",
        ),
        pytest.param([part(None, index=0, call_id="a", name="t")], [("a", "t", "")], id="arguments null"),
        pytest.param([{"index": 0, "id": "a", "function": {"name": "t"}}], [("a", "t", "")], id="no arguments"),
        pytest.param([part("{}", index=-1, call_id="a", name="t")], [("a", "t", "{}")], id="index below zero"),
        pytest.param([part("{}", index=0, name="t")], [("call-0", "t", "{}")], id="no id"),
        pytest.param(
            [part("{}", name="t"), part("{}", name="u"), part('{"x":', name="t"), part("1}")],
            [("call-0", "t", "{}"), ("call-1", "u", "{}"), ("call-2", "t", '{"x":1}')],
            id="neither index nor id",
        ),
        pytest.param(
            [part("{}", index=0, call_id="a", name="t"), part("{}", index=1, call_id="a", name="t")],
            [("a", "t", "{}"), ("a", "t", "{}")],
            id="one id for two indexes",
        ),
        pytest.param(
            [part("{", call_id="a", name="t"), part("}", index=0)], [("a", "t", "{}")], id="index comes later"
        ),
        pytest.param(
            [{"index": 0, "id": "a", "function": {"name": "t", "arguments": {"x": 1}}}],
            [("a", "t", '{"x":1}')],
            id="arguments as an object",
        ),
    ],
)
def test_fragments_of_calls(fragments: list[dict[str, Any]], wanted: list[tuple[str, str, str]]) -> None:
    """K05."""
    assert calls(*fragments) == wanted


@pytest.mark.parametrize(
    ("wire_reason", "kind"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos_token", "stop"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("length", "max-tokens"),
    ],
)
def test_finish_reasons(wire_reason: str, kind: str) -> None:
    assert finish_of(translate(wire({"content": "x"}, wire_reason))) == FinishReason(kind)


def test_unknown_finish_reason_is_an_error() -> None:
    reason = finish_of(translate(wire({"content": "x"}, "tired")))
    assert (reason.kind, reason.code) == ("error", "TIRED")
    assert "tired" in (reason.message or "")


def test_answer_that_was_withheld_is_refused() -> None:
    """K05."""
    reason = finish_of(translate(wire({"content": "x"}, "content_filter")))
    assert (reason.kind, reason.code) == ("error", "CONTENT_FILTER")
    assert "content_filter" in (reason.message or "")


def test_finish_reason_that_never_came_is_that_of_the_content() -> None:
    assert finish_of(translate(wire({"content": "x"}), b"[DONE]")).kind == "stop"
    call = wire({"tool_calls": [part("{}", index=0, call_id="a", name="t")]})
    assert finish_of(translate(call, b"[DONE]")).kind == "tool-calls"


def test_answer_may_be_nothing_but_a_finish() -> None:
    assert translate(wire({"role": "assistant"}), wire(finish="stop")) == [Finish(FinishReason("stop"))]


@pytest.mark.parametrize("payloads", [[b"[DONE]"], [wire({"role": "assistant", "content": ""}), b"[DONE]"], [{}]])
def test_nothing_at_all_is_an_error(payloads: list[Any]) -> None:
    error = failure(*payloads)
    assert (error.code, error.retryable) == ("EMPTY_RESPONSE", True)


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, TokenUsage(5, 2)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, TokenUsage(5, 0, 4)),
        ({"prompt_tokens": 9, "cached_tokens": 4}, TokenUsage(5, 0, 4)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}, TokenUsage(0, 0, 7)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}},
            TokenUsage(4, 0, 2, 3),
        ),
        (
            {"completion_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 6}},
            TokenUsage(0, 8, None, None, 6),
        ),
        (
            {"completion_tokens": 8, "reasoning_tokens": 6, "prompt_tokens_details": None},
            TokenUsage(0, 8, None, None, 6),
        ),
        ({"prompt_tokens": None, "completion_tokens": 1.0}, TokenUsage(0, 1)),
    ],
)
def test_usage_is_disjoint(counts: dict[str, Any], wanted: TokenUsage) -> None:
    """K05."""
    chunks = translate(wire({"content": "x"}, "stop", usage={"prompt_tokens": 1}), {"choices": [], "usage": counts})
    assert chunks[-2] == Usage(wanted)


def test_halves_of_surrogate_pairs_are_joined_across_deltas() -> None:
    halves = [
        rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}',
        rb'{"choices":[{"delta":{"content":"\ude42b\ud83d"}}]}',
    ]
    chunks = translate(*halves, wire({"content": "c"}), wire(finish="stop"))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["a", "🙂b", "\ufffdc"]
    assert chunks[-2] == BlockEnd(0, Text("a🙂b\ufffdc"))


def test_numbers_that_json_does_not_know_do_no_harm() -> None:
    payload = b'{"choices":[{"delta":{"content":"x"},"logprobs":{"p":NaN},"finish_reason":"stop"}]}'
    assert finish_of(translate(payload)).kind == "stop"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices":[{"delta":{"content":"x"}}]',
        b'{"choices":[]}{"choices":[]}',
        b'{"choices":[{"delta":{"content":"\xe2\x82"}}]}',
        b"[1]",
        b"7",
        b'{"choices":[7]}',
        b'{"choices":[{"delta":{"tool_calls":[7]}}]}',
        b'{"choices":7}',
    ],
)
def test_data_that_is_no_chunk_is_an_error_that_shows_it(payload: bytes) -> None:
    error = failure(payload)
    assert error.code == "MALFORMED_RESPONSE"
    assert payload[:5].decode() in str(error)


def test_long_data_is_shortened_in_the_error() -> None:
    assert len(str(failure(b"x" * 100_000))) < 400


@pytest.mark.parametrize(
    ("payload", "code", "status", "retryable"),
    [
        ({"error": {"message": "boom", "type": "server_error"}}, "SERVER", None, True),
        ({"error": {"message": "boom", "code": 502}, **wire({"content": ""}, "error")}, "SERVER", 502, True),
        ({"error": {"message": "boom", "code": 400}, "choices": []}, "INVALID_REQUEST", 400, False),
        ({"error": {"message": "boom", "type": "rate_limit_exceeded"}}, "RATE_LIMIT", 429, True),
        ({"error": {"message": "boom", "type": "authentication_error"}}, "AUTH", 401, False),
        ({"error": {"message": "boom: context size exceeded", "code": 500}}, "CONTEXT_OVERFLOW", 500, False),
        ({"error": "boom"}, "SERVER", None, True),
        ({"object": "error", "message": "boom", "code": 400}, "INVALID_REQUEST", 400, False),
        ({"detail": "boom"}, "SERVER", None, True),
        (ErrorData(b'{"message":"boom"}'), "SERVER", None, True),
    ],
)
def test_errors_inside_an_answer(payload: Any, code: str, status: int | None, retryable: bool) -> None:
    error = failure(wire({"content": "part"}), payload)
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert "boom" in str(error)
    assert str(error).startswith("house: ")


def test_whole_answer_that_was_not_streamed() -> None:
    function = {"name": "t", "arguments": "{}"}
    message = {"role": "assistant", "content": "hi", "tool_calls": [{"function": function}, {"function": function}]}
    chunks = translate({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    assert chunks[-4:] == [
        BlockEnd(0, Text("hi")),
        BlockEnd(1, ToolCallBlock("call-1", "t", "{}")),
        BlockEnd(2, ToolCallBlock("call-2", "t", "{}")),
        Finish(FinishReason("tool-calls")),
    ]


@pytest.mark.parametrize("content", [{"text": "hi"}, 5, ["hi"]])
def test_content_of_a_strange_shape_is_no_empty_answer(content: Any) -> None:
    with pytest.raises(LlmError, match=r"^house sent data that cannot be understood") as caught:
        translate(wire({"content": content}), wire(finish="stop"))
    assert caught.value.code == "MALFORMED_RESPONSE"


@pytest.mark.parametrize("count", [b"1e400", b"-1e400", b"NaN", b"1e30", b'"many"', b"null", b"[1]"])
def test_count_of_tokens_that_is_no_number_costs_nobody_the_answer(count: bytes) -> None:
    usage = b'{"choices":[],"usage":{"prompt_tokens":%s}}' % count
    chunks = translate(wire({"content": "hi"}, "stop"), usage)
    assert chunks[-2:] == [BlockEnd(0, Text("hi")), Finish(FinishReason("stop"))]


@pytest.mark.parametrize("place", ["event", "choice", "x_groq"])
def test_counts_are_found_where_services_put_them_and_as_they_write_them(place: str) -> None:
    usage = {"prompt_tokens": "12", "completion_tokens": 3.0, "prompt_tokens_details": {"cached_tokens": "2"}}
    last: dict[str, Any] = {"choices": [{"index": "0", "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    ({"event": last, "choice": last["choices"][0], "x_groq": last.setdefault("x_groq", {})}[place])["usage"] = usage
    assert Usage(TokenUsage(10, 3, cache_read_tokens=2)) in translate(last)


@pytest.mark.parametrize(
    "last",
    [
        {},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
        {"prompt_tokens": "0", "completion_tokens": 0.0, "total_tokens": 0},
    ],
)
def test_counts_of_nothing_do_not_take_the_place_of_counts(last: dict[str, Any]) -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 2}
    chunks = translate(wire({"content": "x"}, usage=counts), wire(finish="stop"), {"choices": [], "usage": last})
    assert chunks[-2] == Usage(TokenUsage(5, 2))


def test_nothing_but_zeros_is_told_where_nothing_else_is() -> None:
    zeros = {"prompt_tokens": 0, "completion_tokens": 0}
    assert translate(wire({"content": "x"}, "stop", usage=zeros))[-2] == Usage(TokenUsage(0, 0))


def test_a_call_in_the_form_of_old_is_a_call() -> None:
    chunks = translate(
        wire({"role": "assistant", "content": None, "function_call": {"name": "t", "arguments": ""}}),
        wire({"function_call": {"arguments": '{"a"'}}),
        wire({"function_call": {"arguments": ": 1}"}}),
        wire({"function_call": None}, "function_call"),
    )
    assert chunks[-2:] == [
        BlockEnd(0, ToolCallBlock("call-0", "t", '{"a": 1}')),
        Finish(FinishReason("tool-calls")),
    ]
    message = {"role": "assistant", "content": "hi", "function_call": {"name": "t", "arguments": '{"a": 1}'}}
    chunks = translate({"choices": [{"index": 0, "message": message, "finish_reason": "function_call"}]})
    assert chunks[-2] == BlockEnd(1, ToolCallBlock("call-1", "t", '{"a": 1}'))


@pytest.mark.parametrize("indices", [(0, "0"), ("0", 0), ("1", "1"), (0, 0.0)])
def test_an_index_is_the_same_as_number_and_as_text(indices: tuple[Any, Any]) -> None:
    one, two = (part(text, index=index) for text, index in zip(('{"a"', ": 1}"), indices, strict=True))
    assert calls({**one, "id": "a", "function": {"name": "t", "arguments": '{"a"'}}, two) == [("a", "t", '{"a": 1}')]


@pytest.mark.parametrize("fragments", [part("{}", call_id="a", name="t"), [None, part("{}", call_id="a", name="t")]])
def test_calls_that_are_no_clean_list_are_calls(fragments: Any) -> None:
    chunks = translate(wire({"tool_calls": fragments}), wire(finish="tool_calls"))
    assert BlockEnd(0, ToolCallBlock("a", "t", "{}")) in chunks


@pytest.mark.parametrize(
    "content",
    [[{"type": "output_text", "text": "hi"}], [None, {"type": "text", "text": "hi"}], {"type": "text", "text": "hi"}],
)
def test_parts_of_other_kinds_are_text(content: Any) -> None:
    assert translate(wire({"content": content}, "stop"))[-2] == BlockEnd(0, Text("hi"))


@pytest.mark.parametrize(
    ("wire_reason", "kind"),
    [
        ("tool_use", "tool-calls"),
        ("TOOL_CALL", "tool-calls"),
        ("completed", "stop"),
        ("max_output_tokens", "max-tokens"),
        ("model_context_window_exceeded", "max-tokens"),
    ],
)
def test_ends_as_other_services_call_them(wire_reason: str, kind: str) -> None:
    assert finish_of(translate(wire({"content": "x"}, wire_reason))) == FinishReason(kind)


@pytest.mark.parametrize(
    ("wire_reason", "code"),
    [
        ("insufficient_system_resource", "OVERLOADED"),
        ("network_error", "SERVER"),
        ("MALFORMED_FUNCTION_CALL", "TOOL_USE_FAILED"),
        ("sensitive", "CONTENT_FILTER"),
        ("RECITATION", "CONTENT_FILTER"),
    ],
)
def test_an_end_that_is_a_failure_has_the_code_of_such_failures(wire_reason: str, code: str) -> None:
    reason = finish_of(translate(wire({"content": "x"}, wire_reason)))
    assert (reason.kind, reason.code) == ("error", code)
    assert wire_reason in (reason.message or "")


def test_a_message_behind_its_pieces_says_nothing_new() -> None:
    whole = {"role": "assistant", "content": "hi", "tool_calls": [part("{}", call_id="a", name="t")]}
    chunks = translate(
        wire({"content": "h"}),
        wire({"content": "i", "tool_calls": [part("{}", index=0, call_id="a", name="t")]}),
        {"choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}]},
    )
    assert chunks[-3:] == [
        BlockEnd(0, Text("hi")),
        BlockEnd(1, ToolCallBlock("a", "t", "{}")),
        Finish(FinishReason("tool-calls")),
    ]


def test_messages_that_bring_the_pieces_are_not_taken_for_a_repetition() -> None:
    def piece(text: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "message": {"content": text, **more}, "finish_reason": finish}]}

    assert translate(piece("ha"), piece("ha"), piece("!", "stop"))[-2] == BlockEnd(0, Text("haha!"))
    chunks = translate(piece("ha"), piece("", "tool_calls", tool_calls=[part("{}", call_id="a", name="t")]))
    assert chunks[-2] == BlockEnd(1, ToolCallBlock("a", "t", "{}"))


def test_the_text_of_a_server_that_knows_no_messages_is_not_lost() -> None:
    one, two = (
        {"choices": [{"index": 0, "text": text, "finish_reason": end}]} for text, end in (("a", None), ("b", "stop"))
    )
    assert translate(one, two)[-2] == BlockEnd(0, Text("ab"))


def test_thoughts_that_come_in_details_alone_are_thoughts() -> None:
    def details(*pieces: dict[str, Any], **more: Any) -> dict[str, Any]:
        return wire({"content": "", "reasoning_details": list(pieces), **more})

    chunks = translate(
        details({"type": "reasoning.text", "text": "so ", "index": 0}),
        details({"type": "reasoning.summary", "summary": "it is", "index": 0}),
        details({"type": "reasoning.text", "text": "", "signature": "c2ln", "index": 0}),
        details({"type": "reasoning.encrypted", "data": "x", "index": 1}),
        details({"type": "reasoning.text", "text": "!", "index": 0}, reasoning="!"),
        wire({"content": "hi", "reasoning_details": None}, "stop"),
    )
    assert chunks[-3:-1] == [BlockEnd(0, Reasoning("so it is!")), BlockEnd(1, Text("hi"))]
