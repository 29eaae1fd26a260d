"""How each model is told how much to think."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_anthropic.adapter import AnthropicAdapter
from dsh_anthropic.encode import Encoder
from dsh_anthropic.settings import AnthropicConfig, ServiceSettings, providers

from dsh import Request
from dsh.llm.effort import unmet
from dsh.messages import EFFORTS, Message

OWN = {"model", "max_tokens", "stream", "messages"}


def asked(model: str, level: str | None, **settings: Any) -> dict[str, Any]:
    """The fields of a request that say something of thinking."""
    request = Request(f"anthropic/{model}", (Message("user", "a"),), temperature=0.5, reasoning_effort=level)
    wire = json.loads(Encoder("anthropic", ServiceSettings(**settings)).body(request, model))
    return {name: wire[name] for name in wire.keys() - OWN}


@pytest.mark.parametrize(
    ("model", "level", "wanted"),
    [
        ("claude-opus-5-5", "low", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-opus-5-5", "minimal", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-opus-5-5", "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}}),
        ("claude-sonnet-4-6", "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("claude-sonnet-4-6", "max", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        ("claude-opus-5-5", "none", {"thinking": {"type": "disabled"}, "temperature": 0.5}),
        ("claude-fable-5", "none", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ("claude-opus-4-5", "max", {"output_config": {"effort": "high"}, "temperature": 0.5}),
        ("claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-sonnet-4-5-20250929", "max", {"thinking": {"type": "enabled", "budget_tokens": 49152}}),
        ("claude-opus-4-20250514", "max", {"thinking": {"type": "enabled", "budget_tokens": 31999}}),
        ("claude-3-7-sonnet-latest", "none", {"temperature": 0.5}),
        ("claude-3-5-haiku-latest", "high", {"temperature": 0.5}),
        ("somebody-elses", "high", {"output_config": {"effort": "high"}, "temperature": 0.5}),
    ],
)
def test_every_model_is_told_in_its_own_way(model: str, level: str, wanted: dict[str, Any]) -> None:
    assert asked(model, level) == wanted


@pytest.mark.parametrize("level", EFFORTS)
def test_an_effort_goes_before_what_the_settings_say(level: str) -> None:
    settings = {"thinking_budget": 2000, "thinking": "disabled", "effort": "low"}
    assert asked("claude-opus-5-5", level, **settings) == asked("claude-opus-5-5", level)
    assert asked("claude-opus-5-5", None, **settings) == {
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "output_config": {"effort": "low"},
    }


def test_another_effort_is_another_request_head() -> None:
    encoder = Encoder("anthropic", ServiceSettings())
    messages = (Message("user", "a"),)
    bodies = {encoder.body(Request("p/m", messages, reasoning_effort=level), "claude-x-9") for level in EFFORTS}
    assert len(bodies) == len({json.dumps(asked("claude-x-9", level)) for level in EFFORTS})


def test_a_person_is_told_what_becomes_of_a_level_that_a_model_does_not_have() -> None:
    (provider,) = providers(AnthropicConfig(), {})
    adapter = AnthropicAdapter(provider)

    assert unmet(adapter, "claude-opus-5-5", "max") is None
    assert unmet(adapter, "somebody-elses", "max") is None
    assert unmet(adapter, "claude-opus-4-5", "max") == (
        "claude-opus-4-5 knows no effort max (it has low, medium, high); it is asked for the nearest"
    )
    assert unmet(adapter, "claude-3-5-haiku-latest", "low") == (
        "claude-3-5-haiku-latest cannot be told how much to think; it is asked without an effort"
    )
