"""How one chat-completions service differs from the others, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from attrs import evolve, field, fields_dict, frozen

from dsh.errors import ConfigError
from dsh.jsonvalue import Json, freeze
from dsh.llm.http.limits import MAX_ANSWER

__all__ = ["Dialect", "Protocol", "SendReasoning", "dialect_of"]

Protocol: TypeAlias = Literal["chat", "responses"]
SendReasoning: TypeAlias = Literal["never", "tool-calls", "always"]

_RESERVED = ("input", "instructions", "messages", "model", "stream", "tools")


def _extra_body(value: Mapping[str, Json] | None) -> Mapping[str, Json]:
    extra: Mapping[str, Json] = freeze(dict(value or {}))
    for name in _RESERVED:
        if name in extra:
            raise ConfigError(f"extra_body cannot set {name!r}, which dsh writes itself; remove it")
    return extra


@frozen
class Dialect:
    """How a service differs from the others.

    Attributes:
        dialect: ``chat`` for chat completions; ``responses`` for OpenAI's Responses, which knows no
            ``max_tokens_field``, ``reasoning_field``, ``system_role``, ``stream_usage`` and ``thinking``.
        max_tokens_field: what the limit of an answer is called.
        send_reasoning: whether the model's thoughts go back to it: ``never``; ``tool-calls``, with
            the messages that call tools; ``always``, also when there were none.
        reasoning_field: what they are called then.
        system_role: the role of the system prompt.
        stream_usage: ask for token counts with ``stream_options``.
        thinking: ``enabled`` or ``disabled``, for services that take ``thinking: {type}``.
        reasoning_effort: sent as it is, when given.
        extra_body: more fields for the body of every request.
        first_byte: seconds to wait for the head of a response, and for its first event.
        between: seconds to wait for more of it.
        max_answer_bytes: how much a service may send for one answer.
    """

    dialect: Protocol = "chat"
    max_tokens_field: str = "max_tokens"
    send_reasoning: SendReasoning = "never"
    reasoning_field: str = "reasoning_content"
    system_role: str = "system"
    stream_usage: bool = True
    thinking: Literal["enabled", "disabled"] | None = None
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Json] = field(factory=dict, converter=_extra_body)
    first_byte: float = 600.0
    between: float = 300.0
    max_answer_bytes: int = MAX_ANSWER


def dialect_of(provider: str, values: Mapping[str, Json], base: Dialect) -> Dialect:
    """`base` with `values` in place of its own.

    Raises:
        ConfigError: there is no such switch, or it does not take that value.
    """
    for name in values:
        if name not in fields_dict(Dialect):
            known = ", ".join(fields_dict(Dialect))
            raise ConfigError(f"the provider {provider!r} has a switch {name!r} that there is not; there are {known}")
    made = evolve(base, **values)
    for name, choices in (("dialect", Protocol), ("send_reasoning", SendReasoning)):
        if (chosen := getattr(made, name)) not in get_args(choices):
            known = ", ".join(get_args(choices))
            raise ConfigError(f"providers.{provider}.{name} is {chosen!r}; it takes one of {known}")
    if made.first_byte <= 0 or made.between <= 0:
        raise ConfigError(f"providers.{provider}: first_byte and between are seconds and must be above 0")
    if made.max_answer_bytes <= 0:
        raise ConfigError(f"providers.{provider}: max_answer_bytes is a number of bytes and must be above 0")
    return made
