"""How much a model is asked to think, where it does not know every level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ..messages import EFFORTS

__all__ = ["KnowsEfforts", "nearest", "unmet"]


@runtime_checkable
class KnowsEfforts(Protocol):
    """What an adapter may be, beside an `Adapter`: one that knows which levels its models take."""

    def efforts(self, model: str) -> Sequence[str] | None:
        """Those of `dsh.messages.EFFORTS` that `model` takes; none, if it cannot be asked; None, if nobody knows."""
        ...


def nearest(level: str, offered: Sequence[str]) -> str | None:
    """The one of `offered` that is closest to `level`, the lower one of two; None if there is none.

    Who wants any thinking does not get ``none``.  A level that is none of `EFFORTS` is taken as it is.
    """
    if level in offered or level not in EFFORTS:
        return level
    known = sorted((name for name in offered if name in EFFORTS[1:]), key=EFFORTS.index)
    return min(known, key=lambda name: abs(EFFORTS.index(name) - EFFORTS.index(level)), default=None)


def unmet(adapter: object, model: str, level: str) -> str | None:
    """What becomes of `level` with a model that does not take it, in words; None where it does, or nobody knows.

    Args:
        model: its name without the provider's.
    """
    offered = adapter.efforts(model) if isinstance(adapter, KnowsEfforts) else None
    if offered is None or level in offered:
        return None
    if not offered:
        return f"{model} cannot be told how much to think; it is asked without an effort"
    return f"{model} knows no effort {level} (it has {', '.join(offered)}); it is asked for the nearest"
