"""The table ``[subagents]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import Attribute, field, frozen

from dsh.durations import seconds_in

from .acp.settings import AcpConfig

__all__ = ["SubagentsConfig", "TypeConfig"]


def _from(least: int) -> Any:
    def check(instance: object, attribute: Attribute[int], value: int) -> None:
        if isinstance(value, bool) or value < least:
            raise ValueError(f"{attribute.name} must be {least} or more, got {value}")

    return check


def _time(value: Any) -> float | None:
    if isinstance(value, str):
        return None if value.strip().lower() == "none" else seconds_in(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError('timeout: expected a number of seconds above 0, text as in 10m, or "none"')


def _text(instance: object, attribute: Attribute[str], value: str) -> None:
    if not value.strip():
        raise ValueError(f"{attribute.name} must not be empty")


@frozen
class TypeConfig:
    """One of ``[subagents.types.NAME]``.

    Attributes:
        description: for the parent's model: when to choose it.
        prompt: its persona.
        tools: the only ones of its parent's tools that it has.
        without_tools: those it does not have.
        model: ``provider/name``; its parent's if not given.
    """

    description: str = field(validator=_text)
    prompt: str = field(validator=_text)
    tools: tuple[str, ...] | None = None
    without_tools: tuple[str, ...] = ()
    model: str | None = None


@frozen
class SubagentsConfig:
    """The table ``[subagents]``.

    Attributes:
        depth: how deep children may have children: with 2 a child may have some, they may not.
        concurrency: how many children may be at work at once below one root agent.
        timeout: seconds that a child may take; also written as text, ``10m``; ``"none"`` is no limit.
        wakes: how often in a row children in the background may have an idle parent's model asked, before a
            person says something again.
        max_result: characters of a child's answer that its parent reads.
        types: kinds of children, by name.
        acp: kinds of children that are other programs, by name.
    """

    depth: int = field(default=2, validator=_from(0))
    concurrency: int = field(default=8, validator=_from(1))
    timeout: Any = field(default="1h", converter=_time)
    wakes: int = field(default=32, validator=_from(0))
    max_result: int = field(default=100_000, validator=_from(1000))
    types: Mapping[str, TypeConfig] = field(factory=dict)
    acp: Mapping[str, AcpConfig] = field(factory=dict)
