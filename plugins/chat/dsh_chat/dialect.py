"""How one chat-completions service differs from the others, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, get_args

from attrs import evolve, field, fields_dict, frozen

from dsh.errors import ConfigError
from dsh.jsonvalue import Json, freeze
from dsh.llm.http.limits import MAX_ANSWER
from dsh.messages import EFFORTS
from dsh.structure import did_you_mean

__all__ = ["Dialect", "Protocol", "SendReasoning", "dialect_of", "is_switch", "put"]

Protocol: TypeAlias = Literal["chat", "responses"]
SendReasoning: TypeAlias = Literal["never", "tool-calls", "always"]

_RESERVED = ("input", "instructions", "messages", "model", "stream", "tools")


def _extra_body(value: Mapping[str, Json] | None) -> Mapping[str, Json]:
    extra: Mapping[str, Json] = freeze(dict(value or {}))
    for name in _RESERVED:
        if name in extra:
            raise ConfigError(f"extra_body cannot set {name!r}, which dsh writes itself; remove it")
    return extra


def _names(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


def _frozen(value: Mapping[str, Json] | None) -> Mapping[str, Json]:
    made: Mapping[str, Json] = freeze(dict(value or {}))
    return made


@frozen
class Dialect:
    """How a service differs from the others.

    Fields of a request and of token counts may be paths: ``reasoning.effort`` is ``{"reasoning": {"effort": …}}``.

    Attributes:
        dialect: ``chat`` for chat completions; ``responses`` for OpenAI's Responses, which knows no
            ``max_tokens_field``, ``reasoning_field``, ``system_role``, ``stream_usage`` and ``thinking``.
        max_tokens_field: what the limit of an answer is called.
        send_reasoning: whether the model's thoughts go back to it: ``never``; ``tool-calls``, with
            the messages that call tools; ``always``.
        reasoning_field: what they are called then.
        empty_reasoning: send the field also with messages that came without thoughts.
        reasoning_fields: what thoughts may be called in an answer.
        sealed_field: where thoughts also come in a form that only the service understands, as a list; it goes back as
            it came, instead of the text.  Empty for none.
        system_role: the role of the system prompt: ``system``, ``developer``, or ``user`` for models that know none.
        stream_usage: ask for token counts with ``stream_options``; some tell them unasked, and refuse that.
        parallel_tool_calls: said with every request that has tools; services' own default, if not set.
        tool_id_length: ids of calls have exactly so many letters and digits; any id will do, if not set.
        after_results: what the assistant says between results and a person, where services want it to say something.
        unsupported: parameters that are left out: ``temperature``, ``stop``, ``max_tokens``.
        thinking: ``enabled`` or ``disabled``, for services that take ``thinking: {type}``.
        reasoning_effort: how much the model thinks.
        effort_field: where `reasoning_effort` is sent; empty, if the service does not take any.
        efforts: what levels are called there, or which fields ask for them; one that is not listed is sent as it is.
        cached_fields, cache_write_fields, reasoning_token_fields: where token counts are told; the first one counts.
        reasoning_apart: tokens of thoughts are not among those of the answer.
        extra_body: more fields for the body of every request.
        variants: switches of some models only, by a pattern of their names, such as ``gpt-5*``; the first one counts.
        first_byte: seconds to wait for the head of a response, and for its first event.
        between: seconds to wait for more of it.
        max_answer_bytes: how much a service may send for one answer.
    """

    dialect: Protocol = "chat"
    max_tokens_field: str = "max_tokens"
    send_reasoning: SendReasoning = "never"
    reasoning_field: str = "reasoning_content"
    empty_reasoning: bool = True
    reasoning_fields: tuple[str, ...] = field(default=("reasoning_content", "reasoning", "thinking"), converter=_names)
    sealed_field: str = ""
    system_role: str = "system"
    stream_usage: bool = True
    parallel_tool_calls: bool | None = None
    tool_id_length: int | None = None
    after_results: str | None = None
    unsupported: tuple[str, ...] = field(default=(), converter=_names)
    thinking: Literal["enabled", "disabled"] | None = None
    reasoning_effort: str | None = None
    effort_field: str = "reasoning_effort"
    efforts: Mapping[str, Json] = field(factory=dict, converter=_frozen)
    cached_fields: tuple[str, ...] = field(
        default=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"), converter=_names
    )
    cache_write_fields: tuple[str, ...] = field(default=("prompt_tokens_details.cache_write_tokens",), converter=_names)
    reasoning_token_fields: tuple[str, ...] = field(
        default=("completion_tokens_details.reasoning_tokens", "reasoning_tokens"), converter=_names
    )
    reasoning_apart: bool = False
    extra_body: Mapping[str, Json] = field(factory=dict, converter=_extra_body)
    variants: Mapping[str, Mapping[str, Any]] = field(factory=dict, converter=_frozen)
    first_byte: float = 600.0
    between: float = 300.0
    max_answer_bytes: int = MAX_ANSWER

    def pattern(self, model: str) -> str | None:
        """The variant that `model` is of, its name without the provider's."""
        return next((pattern for pattern in self.variants if fnmatchcase(model.lower(), pattern.lower())), None)

    def of(self, model: str) -> Dialect:
        """How `model` is spoken to."""
        pattern = self.pattern(model)
        switches = {} if pattern is None else self.variants[pattern]
        return evolve(self, variants={}, **switches) if self.variants else self

    def ask_effort(self, fields: dict[str, Json], level: str | None) -> None:
        """Put into the `fields` of a request that so much thinking is wanted; nothing, if the service takes no wish."""
        if level is None or not self.effort_field:
            return
        value = self.efforts.get(level, level)
        if isinstance(value, Mapping):
            fields.update(value)
        else:
            put(fields, self.effort_field, value)

    def levels(self) -> tuple[str, ...] | None:
        """The levels of effort that are no other one there; None if nobody knows."""
        if not self.effort_field:
            return ()
        if not self.efforts:
            return None
        called = {level: self.efforts.get(level, level) for level in EFFORTS}
        return tuple(level for level, value in called.items() if value == level or value not in EFFORTS)


def put(fields: dict[str, Any], path: str, value: Any) -> None:
    """Set what is at `path`, such as ``reasoning.effort``."""
    *parents, last = path.split(".")
    for name in parents:
        inner = fields.get(name)
        fields = fields.setdefault(name, {}) if isinstance(inner, dict) or inner is None else {}
    fields[last] = value


_CHOICES = (
    ("dialect", get_args(Protocol)),
    ("send_reasoning", get_args(SendReasoning)),
    ("thinking", ("enabled", "disabled", None)),
    ("system_role", ("system", "developer", "user")),
)
_PARAMETERS = ("temperature", "stop", "max_tokens")


def is_switch(name: str) -> bool:
    """Whether there is a switch of that name."""
    return name in fields_dict(Dialect)


def dialect_of(provider: str, values: Mapping[str, Any], base: Dialect) -> Dialect:
    """`base` with `values` in place of its own.

    Raises:
        ConfigError: there is no such switch, or it does not take that value.
    """
    table = f"providers.{provider}"
    made = _evolved(table, values, base)
    for pattern, switches in made.variants.items():
        at = f'{table}.variants."{pattern}"'
        if not isinstance(switches, Mapping):
            raise ConfigError(f"{at} is no table of switches")
        if "variants" in switches:
            raise ConfigError(f"{at} cannot have variants of its own")
        _evolved(at, switches, made)
    return made


def _evolved(table: str, values: Mapping[str, Any], base: Dialect) -> Dialect:
    for name in values:
        if not is_switch(name):
            known = did_you_mean(name, fields_dict(Dialect))
            raise ConfigError(f"{table} has a switch {name!r} that there is not{known}")
    try:
        made = evolve(base, **values)
    except TypeError as error:
        raise ConfigError(f"{table} has a value of the wrong type: {error}") from error
    for name, choices in _CHOICES:
        if (chosen := getattr(made, name)) not in choices:
            known = ", ".join(str(choice) for choice in choices if choice is not None)
            raise ConfigError(f"{table}.{name} is {chosen!r}; it takes one of {known}")
    for parameter in made.unsupported:
        if parameter not in _PARAMETERS:
            raise ConfigError(f"{table}.unsupported: {parameter!r} is none of {', '.join(_PARAMETERS)}")
    if made.tool_id_length is not None and not 8 <= made.tool_id_length <= 64:
        raise ConfigError(f"{table}.tool_id_length is a number of characters, from 8 to 64")
    if made.first_byte <= 0 or made.between <= 0:
        raise ConfigError(f"{table}: first_byte and between are seconds and must be above 0")
    if made.max_answer_bytes <= 0:
        raise ConfigError(f"{table}: max_answer_bytes is a number of bytes and must be above 0")
    return made
