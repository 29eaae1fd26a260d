"""Messages that are damaged in ways that nobody thought of, and attachments that are not sent."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from dsh_anthropic.adapter import AnthropicAdapter
from dsh_anthropic.encode import Encoder
from dsh_anthropic.settings import Provider, ServiceSettings

from dsh import LlmError, Message, Request, Text, ToolCallBlock, ToolResultBlock
from dsh.llm.assembler import Assembler
from dsh.llm.chunks import Usage
from dsh.llm.http.service import Place
from dsh.messages import OtherBlock, TokenUsage
from dsh.session.codec import default_codec

VALUES: tuple[Any, ...] = (None, 0, -1, 1.5, "", "7", [], {}, [None], {"a": 1}, True, 10**30, float("inf"), "\ud800")


def opened(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


MESSAGE: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}},
    opened(0, type="thinking", thinking=""),
    more(0, "thinking_delta", thinking="hm"),
    more(0, "signature_delta", signature="c2ln"),
    opened(1, type="text", text=""),
    more(1, "text_delta", text="hi"),
    opened(2, type="tool_use", id="t", name="f", input={}),
    more(2, "input_json_delta", partial_json="{}"),
    opened(3, type="server_tool_use", id="s", name="web_search", input={}),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in `value`: what holds it, and its key."""
    if not isinstance(value, dict | list):
        return []
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [*((value, key) for key, _ in pairs), *(place for _, inner in pairs for place in places(inner))]


async def answer(events: Any) -> tuple[Assembler, LlmError | None]:
    """What comes of `events`; each chunk can be written into a log."""
    body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=httpx.ByteStream(body)))
    adapter = AnthropicAdapter(Provider(Place("house", "/v1/messages", "http://models.example")), transport)
    assembler, error = Assembler(), None
    try:
        async for chunk in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"):
            default_codec().to_json(chunk)
            assembler.feed(chunk)
    except LlmError as failure:
        error = failure
    await adapter.aclose()
    return assembler, error


async def test_damage_anywhere_is_an_answer_or_an_error_of_the_service() -> None:
    whole = json.dumps(MESSAGE)
    for event in range(len(MESSAGE)):
        for place in range(len(places(json.loads(whole)[event]))):
            for value in VALUES:
                events = json.loads(whole)
                holder, key = places(events[event])[place]
                holder[key] = value
                assembler, error = await answer(events)
                assert error is None or str(error).encode()
                assert (error is None) == (assembler.finish is not None)
                assert error is not None or assembler.content()


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"input_tokens": "9", "output_tokens": 2.0}, TokenUsage(9, 2)),
        ({"input_tokens": None, "output_tokens": None}, None),
        ({"input_tokens": 9, "output_tokens": float("nan")}, None),
    ],
)
async def test_counts_as_services_write_them(usage: Any, told: TokenUsage | None) -> None:
    start, end = {"type": "message_start", "message": {}}, {"type": "message_delta", "delta": None, "usage": usage}
    assembler, error = await answer([start, opened(0, type="text", text="hi"), end, {"type": "message_stop"}])
    assert error is None
    assert assembler.content() == (Text("hi"),)
    assert assembler.usage == told


def test_an_attachment_that_cannot_be_sent_is_named_to_the_model() -> None:
    image = OtherBlock({"type": "image", "data": "QUJD"})
    messages = (
        Message("user", (Text("look: "), image)),
        Message("assistant", (ToolCallBlock("1", "f", "{}"),)),
        Message("user", (ToolResultBlock("1", (image,)),)),
    )
    body = Encoder("house", ServiceSettings()).body(Request("house/m", messages), "m").decode()
    assert body.count("an attachment of the kind image is not shown to you") == 2
    assert "QUJD" not in body


@pytest.mark.parametrize(
    ("start", "end", "written", "hours"),
    [
        ({"cache_creation_input_tokens": 7, "cache_creation": {"ephemeral_1h_input_tokens": 7}}, {}, 7, 7),
        (
            {
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 4},
            },
            {"cache_creation_input_tokens": 9},
            9,
            4,
        ),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 4}}, {}, 9, 4),
        ({}, {"cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": "2"}}, 3, 2),
        ({"cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 8}}, {}, 3, 3),
        ({"cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 0}}, {}, 3, None),
        ({"cache_creation_input_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": None}}, {}, 3, None),
        ({"cache_creation_input_tokens": 3, "cache_creation": None}, {}, 3, None),
        ({"cache_creation_input_tokens": 3, "cache_creation": 3}, {}, 3, None),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0}}, {}, None, None),
        ({"cache_creation_input_tokens": 0, "cache_creation": {"ephemeral_1h_input_tokens": -4}}, {}, 0, None),
    ],
)
async def test_what_is_written_for_an_hour_is_told_apart(
    start: dict[str, Any], end: dict[str, Any], written: int | None, hours: int | None
) -> None:
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1, **start}}},
        opened(0, type="text", text="hi"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2, **end}},
        {"type": "message_stop"},
    ]
    assembler, error = await answer(events)
    assert error is None
    assert assembler.usage == TokenUsage(9, 2, None, written, None, hours)
    codec = default_codec()
    assert assembler.usage is not None
    wire = codec.to_json(Usage(assembler.usage))
    assert wire["usage"].get("cacheWrite1hTokens") == hours


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        ({"input_tokens": 50}, {"input_tokens": 0, "output_tokens": 5}, TokenUsage(50, 5)),
        (
            {"input_tokens": 50, "cache_read_input_tokens": 7},
            {"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5},
            TokenUsage(50, 5, 7, 0),
        ),
        ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 22, "output_tokens": 5}, TokenUsage(22, 5)),
        # Another count as a whole holds, zeros included.
        (
            {"input_tokens": 100, "cache_read_input_tokens": 55},
            {"input_tokens": 181, "cache_read_input_tokens": 0, "output_tokens": 5},
            TokenUsage(181, 5, 0),
        ),
    ],
)
async def test_zeros_in_the_end_do_not_take_back_what_went_in(
    start: dict[str, Any], end: dict[str, Any], told: TokenUsage
) -> None:
    events = [
        {"type": "message_start", "message": {"usage": start}},
        opened(0, type="text", text="hi"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": end},
        {"type": "message_stop"},
    ]
    assembler, error = await answer(events)
    assert error is None
    assert assembler.usage == told


@pytest.mark.parametrize(
    ("reason", "code", "retryable"),
    [("network_error", "SERVER", True), ("sensitive", "CONTENT_FILTER", None), ("tired", "TIRED", None)],
)
async def test_an_end_that_is_a_failure_is_one(reason: str, code: str, retryable: bool | None) -> None:
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        opened(0, type="text", text="hi"),
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    assembler, error = await answer(events)
    assert assembler.text() == "hi"
    assert assembler.usage == TokenUsage(5, 5)
    if retryable is None:
        assert error is None
        assert assembler.finish is not None
        assert (assembler.finish.kind, assembler.finish.code) == ("error", code)
    else:
        assert error is not None
        assert (error.code, error.retryable, assembler.finish) == (code, retryable, None)
