"""The event of a limit that was reached."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["BudgetReached"]


@frozen
class BudgetReached:
    """A limit ends the turn that is open.

    Attributes:
        code: which limit: ``LIMIT_REQUESTS``, ``LIMIT_TOKENS``, ``LIMIT_COST``, ``LIMIT_TIMEOUT``,
            ``LIMIT_UNMEASURED`` or ``LIMIT_PRICE_UNKNOWN``.
        message: the same, for people.
        requests, tokens: of the run until then, over all its agents; tokens are 0 when nobody counted them.
        usd: what it cost, where that was counted.
    """

    type: ClassVar[str] = "budget/reached"
    turn: int
    code: str
    message: str
    requests: int
    tokens: int
    usd: float | None = None
