"""Token counts as services report them, made disjoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh.messages import TokenUsage

__all__ = ["response_usage", "token_usage"]


def token_usage(wire: Mapping[str, Any]) -> TokenUsage:
    """`wire` is a ``usage`` object; what it leaves out stays None, and no counter is negative."""
    prompt = _details(wire, "prompt_tokens_details")
    completion = _details(wire, "completion_tokens_details")
    read = _first(prompt.get("cached_tokens"), wire.get("prompt_cache_hit_tokens"), wire.get("cached_tokens"))
    write = _first(prompt.get("cache_write_tokens"))
    return TokenUsage(
        input_tokens=max(0, (_first(wire.get("prompt_tokens")) or 0) - (read or 0) - (write or 0)),
        output_tokens=_first(wire.get("completion_tokens")) or 0,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=_first(completion.get("reasoning_tokens"), wire.get("reasoning_tokens")),
    )


def response_usage(wire: Mapping[str, Any]) -> TokenUsage:
    """`token_usage`, in the words of Responses."""
    details = _details(wire, "input_tokens_details")
    read, write = _first(details.get("cached_tokens")), _first(details.get("cache_write_tokens"))
    return TokenUsage(
        input_tokens=max(0, (_first(wire.get("input_tokens")) or 0) - (read or 0) - (write or 0)),
        output_tokens=_first(wire.get("output_tokens")) or 0,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=_first(_details(wire, "output_tokens_details").get("reasoning_tokens")),
    )


def _details(wire: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = wire.get(name)
    return found if isinstance(found, dict) else {}


def _first(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return max(0, int(value))
    return None
