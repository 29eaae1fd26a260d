"""What a run's requests took, those of its subagents included, and what that cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from ..llm.chunks import Usage
from ..session.events import AssistantChunk, AssistantMessage, usage_beside

if TYPE_CHECKING:
    from ..harness import Harness
    from ..messages import TokenUsage
    from ..models import Models
    from ..session.events import Event
    from ..session.log import Session

__all__ = ["Spent", "dollars"]


@define
class Spent:
    """Counts requests by what providers tell of them."""

    _requests: list[tuple[str, TokenUsage]] = field(factory=list)
    _untold: bool = False

    def event(self, session: Session, event: Event) -> None:
        """Count a request, if that is what `event` tells the tokens of."""
        data = event.data
        if isinstance(data, AssistantChunk) and isinstance(data.chunk, Usage):
            header = session.request_header()
            self._requests.append(("" if header is None else header.config.model, data.chunk.usage))
        elif isinstance(data, AssistantMessage) and data.usage is None and event.surface_op == "append":
            self._untold = True
        elif (beside := usage_beside(data)) is not None:
            self._requests.append((str(getattr(data, "model", "")), beside))

    async def cost(self, models: Models) -> float | None:
        """Dollars for all of them; None if nobody knows the price of one, or how many tokens it took.

        Raises:
            Exception: a plugin that knows prices did.
        """
        if self._untold:
            return None
        if not self._requests:
            return 0.0
        await models.load()
        total = 0.0
        for model, usage in self._requests:
            price = models.facts(model).price
            cost = None if price is None else price.cost(usage)
            if cost is None:
                return None
            total += cost
        return total

    async def told(self, harness: Harness) -> float | None:
        """`cost`; what a plugin raises is a warning."""
        try:
            return await self.cost(harness.models)
        except Exception as error:
            harness.warn_error("what the run cost is not known", error)
            return None


def dollars(cost: float | None) -> str:
    """A cost, for people."""
    if cost is None:
        return "cost unknown"
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.2g}" if cost < 0.01 else f"${cost:.3f}"
