"""The tables ``[subagents.acp.NAME]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen

from dsh.durations import seconds_in

__all__ = ["AcpConfig", "Permission"]

Permission = Literal["ask", "reject", "allow"]
"""What becomes of a permission that such an agent asks for: the gates decide; no; yes, unless a gate says no."""


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, str):
        return seconds_in(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    raise ValueError(f"{name}: expected a number of seconds above 0, or text as in 10m")


def _timeout(value: Any) -> float | None:
    return None if value is None else _seconds("timeout", value)


def _eof_grace(value: Any) -> float:
    return _seconds("eof_grace", value)


def _term_grace(value: Any) -> float:
    return _seconds("term_grace", value)


def _text(instance: object, attribute: Attribute[str], value: str) -> None:
    if not value.strip() or "\0" in value:
        raise ValueError(f"{attribute.name} must be text, and not empty")


@frozen
class AcpConfig:
    """One of ``[subagents.acp.NAME]``.

    Attributes:
        command: the program; looked for in PATH if it is a bare name.
        args: its arguments.
        env: variables that it gets besides the usual ones, secrets too.
        cwd: where it works; the parent's directory if not given, and relative to that.
        description: for the parent's model: when to choose it.
        permission: what becomes of the permissions that it asks for.
        timeout: seconds that it may take for an answer; if not given, as ``[subagents] timeout`` says.
        eof_grace: seconds that it has to exit once its stdin is closed.
        term_grace: seconds that it has to exit after SIGTERM.
    """

    command: str = field(validator=_text)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)
    cwd: str | None = None
    description: str = "Another agent, a program of its own, with its own model and tools."
    permission: Permission = "ask"
    timeout: Any = field(default=None, converter=_timeout)
    eof_grace: Any = field(default=6.0, converter=_eof_grace)
    term_grace: Any = field(default=3.0, converter=_term_grace)
