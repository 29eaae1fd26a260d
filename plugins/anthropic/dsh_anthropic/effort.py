"""How much a model is asked to think, in the way that it takes."""

from __future__ import annotations

import re
from typing import Any, Literal

from attrs import frozen

from dsh.llm.effort import nearest

__all__ = ["LEAST_BUDGET", "efforts_of", "put_effort"]

LEAST_BUDGET = 1024
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 49_152}


@frozen
class _Way:
    """How some models are told.

    Attributes:
        by: a budget of tokens for thoughts; an effort; or an effort beside thoughts of a length that they choose.
        levels: those that they take; None if nobody knows.
    """

    by: Literal["budget", "effort", "adaptive"]
    levels: tuple[str, ...] | None


_LOW_TO_HIGH = ("low", "medium", "high")
_WAYS: tuple[tuple[str, _Way], ...] = (
    (r"claude-(3-7|sonnet-4-5|haiku-4-5|(opus|sonnet)-4(-[01])?(-20\d{6})?$)", _Way("budget", ("none", *_BUDGETS))),
    (r"claude-([23]|instant)", _Way("effort", ())),
    (r"claude-opus-4-5", _Way("effort", _LOW_TO_HIGH)),
    (r"claude-(opus|sonnet)-4-6", _Way("adaptive", ("none", *_LOW_TO_HIGH, "max"))),
    (r"claude-(fable|mythos)", _Way("adaptive", (*_LOW_TO_HIGH, "xhigh", "max"))),
    (r"claude-", _Way("adaptive", ("none", *_LOW_TO_HIGH, "xhigh", "max"))),
)


def efforts_of(model: str) -> tuple[str, ...] | None:
    """The levels that `model` takes; None if nobody knows."""
    return _way(model).levels


def put_effort(fields: dict[str, Any], model: str, level: str, limit: int) -> None:
    """Put into the `fields` of a request that so much thinking is wanted.

    Args:
        limit: of the answer, in tokens, thoughts included.
    """
    way = _way(model)
    wanted = level if way.levels is None else nearest(level, way.levels)
    if way.by == "budget":
        budget = min(_BUDGETS.get(wanted or "none", 0), limit - 1)
        if budget >= LEAST_BUDGET:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif wanted == "none":
        fields["thinking"] = {"type": "disabled"}
    elif wanted is not None:
        if way.by == "adaptive":
            fields["thinking"] = {"type": "adaptive"}
        fields["output_config"] = {"effort": wanted}


def _way(model: str) -> _Way:
    return next((way for pattern, way in _WAYS if re.match(pattern, model)), _Way("effort", None))
