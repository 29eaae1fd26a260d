"""Token counts as services report them, made disjoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dsh.llm.http.wire import number_of_tokens
from dsh.messages import TokenUsage
from dsh_chat.dialect import Dialect

__all__ = ["UsageReader", "response_usage"]

_Path = tuple[str, ...]


@frozen
class UsageReader:
    """Reads a ``usage`` object as a dialect has it; what it leaves out stays None, and no counter is negative."""

    cached: tuple[_Path, ...]
    written: tuple[_Path, ...]
    reasoning: tuple[_Path, ...]
    apart: bool

    @classmethod
    def of(cls, dialect: Dialect) -> UsageReader:
        """The reader for `dialect`."""
        return cls(
            _paths(dialect.cached_fields),
            _paths(dialect.cache_write_fields),
            _paths(dialect.reasoning_token_fields),
            dialect.reasoning_apart,
        )

    def __call__(self, wire: Mapping[str, Any]) -> TokenUsage:
        """The counts in `wire`.

        Raises:
            OverflowError, ValueError: nothing is counted, or something in no number.
        """
        read, write, thoughts = (_at(wire, paths) for paths in (self.cached, self.written, self.reasoning))
        prompt, output = _both(wire, "prompt_tokens", "completion_tokens")
        return TokenUsage(
            input_tokens=max(0, prompt - (read or 0) - (write or 0)),
            output_tokens=output + (thoughts or 0) if self.apart else output,
            cache_read_tokens=read,
            cache_write_tokens=write,
            reasoning_tokens=thoughts,
        )


def response_usage(wire: Mapping[str, Any]) -> TokenUsage:
    """The same, in the words of Responses."""
    read = _at(wire, (("input_tokens_details", "cached_tokens"),))
    write = _at(wire, (("input_tokens_details", "cache_write_tokens"),))
    prompt, output = _both(wire, "input_tokens", "output_tokens")
    return TokenUsage(
        input_tokens=max(0, prompt - (read or 0) - (write or 0)),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=_at(wire, (("output_tokens_details", "reasoning_tokens"),)),
    )


def _both(wire: Mapping[str, Any], prompt: str, output: str) -> tuple[int, int]:
    into, out = number_of_tokens(wire.get(prompt)), number_of_tokens(wire.get(output))
    if into is None and out is None:
        raise ValueError("no tokens are counted")
    return into or 0, out or 0


def _paths(fields: tuple[str, ...]) -> tuple[_Path, ...]:
    return tuple(tuple(field.split(".")) for field in fields)


def _at(wire: Mapping[str, Any], paths: tuple[_Path, ...]) -> int | None:
    """The first number that lies at one of `paths`."""
    for path in paths:
        found: Any = wire
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if (number := number_of_tokens(found)) is not None:
            return number
    return None
