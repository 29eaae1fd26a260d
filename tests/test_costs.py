"""What a request costs in each dialect, reckoned by hand: no token is paid for twice, and none is free."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dsh import Message, Request, TokenUsage
from dsh.llm.chunks import Usage
from dsh.models import Price

pytest.importorskip("dsh_chat")
pytest.importorskip("dsh_anthropic")

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, cache_write_1h=6.0)


def chat_body(usage: Any) -> bytes:
    answer = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}
    return b"data: " + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n"


def responses_body(usage: Any) -> bytes:
    events = (
        {"type": "response.output_text.delta", "output_index": 0, "delta": "hi"},
        {"type": "response.completed", "response": {"status": "completed", "usage": usage}},
    )
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def messages_body(usage: Any) -> bytes:
    events = (
        {"type": "message_start", "message": {"usage": {**usage, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


async def told(provider: str, model: str, body: bytes) -> TokenUsage | None:
    """The tokens that the adapter of a service tells for an answer."""
    from dsh_anthropic.adapter import AnthropicAdapter
    from dsh_anthropic.settings import Provider, ServiceSettings
    from dsh_chat.adapter import ChatAdapter
    from dsh_chat.providers import built_in

    from dsh.llm.http.service import Place

    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    adapter: Any
    if provider == "anthropic":
        place = Place("anthropic", "/v1/messages", "http://models.example")
        adapter = AnthropicAdapter(Provider(place, ServiceSettings()), transport)
    else:
        keys = {f"{provider.upper()}_API_KEY": "key-12345678"}
        adapter = ChatAdapter(built_in(provider, keys), transport)
    request = Request(f"{provider}/{model}", (Message("user", "hi"),))
    found = [chunk.usage async for chunk in adapter.stream(request, model) if isinstance(chunk, Usage)]
    await adapter.aclose()
    return found[0] if found else None


CASES = [
    # 600 fresh, 400 from the cache, 100 out (40 of them thoughts).
    (
        "openai",
        "gpt-4o-mini",
        chat_body(
            {
                "prompt_tokens": 1000,
                "completion_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 400},
                "completion_tokens_details": {"reasoning_tokens": 40},
            }
        ),
        600 * 3 + 400 * 0.3 + 100 * 15,
    ),
    (
        "openai",
        "gpt-5-mini",
        responses_body(
            {
                "input_tokens": 1000,
                "output_tokens": 100,
                "input_tokens_details": {"cached_tokens": 400},
                "output_tokens_details": {"reasoning_tokens": 40},
            }
        ),
        600 * 3 + 400 * 0.3 + 100 * 15,
    ),
    (
        "deepseek",
        "deepseek-v4-flash",
        chat_body(
            {
                "prompt_tokens": 1000,
                "completion_tokens": 100,
                "prompt_cache_hit_tokens": 400,
                "prompt_cache_miss_tokens": 600,
                "prompt_tokens_details": {"cached_tokens": 400},
            }
        ),
        600 * 3 + 400 * 0.3 + 100 * 15,
    ),
    # Its input is without what was read and written; of 700 that were written, 200 stay for an hour.
    (
        "anthropic",
        "claude-sonnet-4-5",
        messages_body(
            {
                "input_tokens": 600,
                "output_tokens": 100,
                "cache_read_input_tokens": 400,
                "cache_creation_input_tokens": 700,
                "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 200},
            }
        ),
        600 * 3 + 400 * 0.3 + 500 * 3.75 + 200 * 6 + 100 * 15,
    ),
    (
        "moonshot",
        "kimi-k2.5",
        chat_body({"prompt_tokens": 1000, "completion_tokens": 100, "cached_tokens": 400}),
        600 * 3 + 400 * 0.3 + 100 * 15,
    ),
    # Thoughts come on top of what it calls the completion.
    (
        "xai",
        "grok-4.3",
        chat_body(
            {
                "prompt_tokens": 1000,
                "completion_tokens": 60,
                "total_tokens": 1100,
                "prompt_tokens_details": {"cached_tokens": 400},
                "completion_tokens_details": {"reasoning_tokens": 40},
            }
        ),
        600 * 3 + 400 * 0.3 + 100 * 15,
    ),
    (
        "openrouter",
        "anthropic/claude-sonnet-4.5",
        chat_body(
            {
                "prompt_tokens": 1700,
                "completion_tokens": 100,
                "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 700},
            }
        ),
        600 * 3 + 400 * 0.3 + 700 * 3.75 + 100 * 15,
    ),
    ("mistral", "mistral-small-latest", chat_body({"prompt_tokens": 1000, "completion_tokens": 100}), 4500),
    ("groq", "openai/gpt-oss-20b", chat_body({"prompt_tokens": 1000, "completion_tokens": 100, "total_time": 1}), 4500),
]


@pytest.mark.parametrize(
    ("provider", "model", "body", "millionths"), CASES, ids=[f"{provider}-{model}" for provider, model, *_ in CASES]
)
async def test_the_cost_of_an_answer(provider: str, model: str, body: bytes, millionths: float) -> None:
    usage = await told(provider, model, body)
    assert usage is not None
    assert PRICE.cost(usage) == pytest.approx(millionths / 1e6)
