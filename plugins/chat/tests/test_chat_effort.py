"""How much a model is asked to think, in the words of each service."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.encode import Encoder
from dsh_chat.profiles import PROFILES
from dsh_chat.providers import built_in
from dsh_chat.responses import ResponsesEncoder

from dsh import Request
from dsh.messages import EFFORTS, Message


def asked(name: str, model: str, level: str | None) -> dict[str, Any]:
    """The body of a request to the service `name`."""
    dialect = PROFILES[name].dialect.of(model)
    encoder = (ResponsesEncoder if dialect.dialect == "responses" else Encoder)(dialect)
    request = Request(f"{name}/{model}", (Message("user", "a"),), reasoning_effort=level)
    body: dict[str, Any] = json.loads(encoder.body(request, model))
    return body


@pytest.mark.parametrize(
    ("name", "model", "level", "field", "wanted"),
    [
        ("openai", "gpt-5-mini", "high", "reasoning", {"effort": "high"}),
        ("deepseek", "deepseek-v4-pro", "max", "reasoning_effort", "max"),
        ("openrouter", "openai/gpt-oss-120b", "low", "reasoning", {"effort": "low"}),
        ("moonshot", "kimi-k2.6", "high", "thinking", {"type": "enabled"}),
        ("moonshot", "kimi-k2.6", "none", "thinking", {"type": "disabled"}),
        ("qwen", "qwen3-max", "high", "enable_thinking", True),
        ("groq", "openai/gpt-oss-120b", "max", "reasoning_effort", "high"),
        ("vllm", "anything", "medium", "reasoning_effort", "medium"),
    ],
)
def test_a_service_is_told_in_its_words(name: str, model: str, level: str, field: str, wanted: Any) -> None:
    assert asked(name, model, level)[field] == wanted
    assert field not in asked(name, model, None)


def test_a_request_goes_before_the_settings() -> None:
    encoder = Encoder(Dialect(reasoning_effort="low"))
    messages = (Message("user", "a"),)
    levels = [None, "high", None, "max"]
    bodies = [json.loads(encoder.body(Request("p/m", messages, reasoning_effort=level), "m")) for level in levels]
    assert [body["reasoning_effort"] for body in bodies] == ["low", "high", "low", "max"]


@pytest.mark.parametrize("name", PROFILES)
def test_what_a_service_is_said_to_take_is_sent_as_something_of_its_own(name: str) -> None:
    provider = built_in(name, {})
    for model in provider.models:
        offered = ChatAdapter(provider).efforts(model)
        assert offered is None or set(offered) <= set(EFFORTS)
        if offered is not None and not offered:
            assert asked(name, model, "high") == asked(name, model, None)
        for level in offered or ():
            assert asked(name, model, level) != asked(name, model, None)
