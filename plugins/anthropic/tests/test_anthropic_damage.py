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
