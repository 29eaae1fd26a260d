"""The table ``[budget]``."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from dsh.durations import seconds_in

__all__ = ["BudgetConfig"]


def _above_zero(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0, got {value:g}")


def _time(value: Any) -> float | None:
    if isinstance(value, str):
        return seconds_in(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise ValueError("timeout: expected a number of seconds, or text as in 10m")


@frozen
class BudgetConfig:
    """The table ``[budget]``: what a run may take, with all agents that it starts.  None is no limit.

    Attributes:
        max_requests: steps; a request that is sent again counts once.
        max_tokens: in and out, cached ones too.
        max_usd: dollars.
        timeout: seconds since the first turn began; also written as text, ``10m`` or ``1h30m``.
    """

    max_requests: int | None = field(default=None, validator=_above_zero)
    max_tokens: int | None = field(default=None, validator=_above_zero)
    max_usd: float | None = field(default=None, validator=_above_zero)
    timeout: Any = field(default=None, converter=_time, validator=_above_zero)
