"""Answers that are damaged in ways that nobody thought of, and attachments that no dialect sends."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect, Protocol
from dsh_chat.encode import Encoder
from dsh_chat.providers import Provider
from dsh_chat.responses import ResponsesEncoder
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh import LlmError, Message, Request, Text, ToolCallBlock, ToolResultBlock
from dsh.llm.assembler import Assembler
from dsh.messages import OtherBlock
from dsh.session.codec import default_codec

VALUES: tuple[Any, ...] = (None, 0, -1, 1.5, "", "7", [], {}, [None], {"a": 1}, True, 10**30, float("inf"), "\ud800")
LONG = "chatcmpl-tool-0123456789abcdef0123456789abcdef"


def calling(arguments: str, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}, **more}]}


CHAT: tuple[dict[str, Any], ...] = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}]},
    {
        "choices": [
            {"index": 0, "delta": {"reasoning_content": "hm", "reasoning_details": [{"type": "t", "text": "a"}]}}
        ]
    },
    {"choices": [{"index": 0, "delta": calling("{", id="c", type="function")}]},
    {"choices": [{"index": 0, "delta": calling("}")}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 3}},
)
RESPONSES: tuple[dict[str, Any], ...] = (
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "hi"},
    {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "c"}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
    {"type": "response.output_item.done", "output_index": 0, "item": {"type": "reasoning", "encrypted_content": "x"}},
    {
        "type": "response.completed",
        "response": {
            "status": "completed",
            "incomplete_details": {"reason": "max_output_tokens"},
            "usage": {"input_tokens": 3},
        },
    },
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in `value`: what holds it, and its key."""
    if not isinstance(value, dict | list):
        return []
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [*((value, key) for key, _ in pairs), *(place for _, inner in pairs for place in places(inner))]


async def answer(body: bytes, dialect: Dialect) -> tuple[Assembler, LlmError | None]:
    """What comes of `body`; each chunk can be written into a log."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=httpx.ByteStream(body)))
    adapter = ChatAdapter(Provider("house", "http://models.example/v1", dialect=dialect), transport)
    assembler, error = Assembler(), None
    try:
        async for chunk in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"):
            default_codec().to_json(chunk)
            assembler.feed(chunk)
    except LlmError as failure:
        error = failure
    await adapter.aclose()
    return assembler, error


@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_damage_anywhere_is_an_answer_or_an_error_of_the_service(protocol: Protocol) -> None:
    dialect = Dialect(dialect=protocol, sealed_field="reasoning_details")
    whole = json.dumps(CHAT if protocol == "chat" else RESPONSES)
    for event in range(len(json.loads(whole))):
        for place in range(len(places(json.loads(whole)[event]))):
            for value in VALUES:
                events = json.loads(whole)
                holder, key = places(events[event])[place]
                holder[key] = value
                body = b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in events)
                assembler, error = await answer(body, dialect)
                assert error is None or str(error).encode()
                assert (error is None) == (assembler.finish is not None)
                assembler.content()


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=60), max_size=5))
async def test_bytes_of_any_kind_are_an_error_of_the_service(events: list[bytes]) -> None:
    body = b"".join(b"data: %s\n\n" % event for event in events)
    assembler, error = await answer(body, Dialect())
    assert error is not None
    assert assembler.finish is None


@pytest.mark.parametrize("encoder", [Encoder(Dialect()), ResponsesEncoder(Dialect(dialect="responses"))])
def test_ids_that_are_too_long_for_others_are_shortened_alike(encoder: Encoder) -> None:
    messages = (
        Message("assistant", (ToolCallBlock(LONG, "f", "{}"), ToolCallBlock("call_1", "f", "{}"))),
        Message("user", (ToolResultBlock(LONG, (Text("a"),)), ToolResultBlock("call_1", (Text("b"),)))),
    )
    body = json.loads(encoder.body(Request("house/m", messages), "m"))
    if "input" in body:
        calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
        results = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    else:
        calls = [call["id"] for call in body["messages"][0]["tool_calls"]]
        results = [message["tool_call_id"] for message in body["messages"][1:]]
    assert calls == results
    assert len(calls[0]) == 40
    assert calls[1] == "call_1"


@pytest.mark.parametrize("encoder", [Encoder(Dialect()), ResponsesEncoder(Dialect(dialect="responses"))])
def test_an_attachment_that_cannot_be_sent_is_named_to_the_model(encoder: Encoder) -> None:
    image = OtherBlock({"type": "image", "data": "QUJD"})
    messages = (
        Message("user", (Text("look: "), image)),
        Message("assistant", (ToolCallBlock("1", "f", "{}"),)),
        Message("user", (ToolResultBlock("1", (image,)),)),
    )
    body = encoder.body(Request("house/m", messages), "m").decode()
    assert "look: [an attachment of the kind image is not shown to you" in body
    assert body.count("an attachment of the kind image") == 2
    assert "QUJD" not in body
