"""How things stand, for the line of status: model, tokens, money, what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, field

from dsh.llm.chunks import Usage
from dsh.messages import TokenUsage
from dsh.session.events import AssistantChunk, AssistantMessage, Event, RequestHeader, RequestHeaderDelta, usage_beside

from .cells import cells

if TYPE_CHECKING:
    from dsh.models import Models
    from dsh.session.log import Session

__all__ = ["State", "count_of", "counted"]


@define
class State:
    """What is counted while a conversation goes on.

    Attributes:
        model: of the next request.
        effort: of the next request.
        parts: what plugins say of it, as the mode that tools run in.
        queued: messages for the next turn.
        children: agents below that run.
        jobs: what runs in the background.
        usage: of all requests since the conversation was opened here.
        last: of the conversation's own last request, which is how full its window is.
    """

    model: str = ""
    effort: str | None = None
    parts: Sequence[str] = ()
    queued: int = 0
    children: int = 0
    jobs: int = 0
    usage: TokenUsage = field(factory=TokenUsage)
    last: TokenUsage = field(factory=TokenUsage)
    _spent: dict[str, TokenUsage] = field(factory=dict)

    def begin(self, session: Session) -> None:
        """Another conversation: how full its window was when it was left."""
        self.last = TokenUsage()
        for event in reversed(session.events):
            if isinstance(event.data, AssistantMessage) and event.data.usage is not None:
                self.last = event.data.usage
                break

    def event(self, session: Session, event: Event, own: bool) -> None:
        """Count what an event says."""
        data = event.data
        if isinstance(data, AssistantChunk):
            if isinstance(data.chunk, Usage):
                header = session.request_header()
                self._add(self.model if header is None else header.config.model, data.chunk.usage)
                if own:
                    self.last = data.chunk.usage
        elif own and isinstance(data, RequestHeader):
            self.model, self.effort = data.header.config.model, data.header.config.reasoning_effort
        elif own and isinstance(data, RequestHeaderDelta) and data.config is not None:
            self.model, self.effort = data.config.model, data.config.reasoning_effort
        elif (beside := usage_beside(data)) is not None:
            self._add(str(getattr(data, "model", "") or self.model), beside)

    def _add(self, model: str, usage: TokenUsage) -> None:
        self._spent[model] = self._spent.get(model, TokenUsage()) + usage
        self.usage += usage

    def line(self, models: Models, columns: int = 80) -> str:
        """The line of status; where there is little room, the more important things."""
        parts: list[tuple[int, str]] = [(1, self.model + (f" ({self.effort})" if self.effort else ""))]
        filled = filled_of(self.last)
        window = models.facts(self.model).context_window if self.model else None
        if filled:
            share = f" of {count_of(window)} ({filled * 100 // window} %)" if window else " tokens"
            parts.append((3, f"{count_of(filled)}{share}"))
        read = self.usage.cache_read_tokens
        total = self.usage.input_tokens + (read or 0) + (self.usage.cache_write_tokens or 0)
        if read and total:
            parts.append((6, f"{read * 100 // total} % cached"))
        cost = self.cost(models)
        if cost is not None and self._spent:
            parts.append((4, f"${cost:.2f}" if cost >= 0.01 else f"${cost:.4f}"))
        parts += [(0, text) for text in self.parts]
        parts += [(2, counted(n, what)) for n, what in ((self.children, "agent"), (self.jobs, "job")) if n]
        if self.queued:
            parts.append((2, f"{self.queued} queued"))
        return _joined(parts, columns)

    def costs(self, models: Models) -> list[tuple[str, TokenUsage, float | None]]:
        """By model: its tokens and dollars; None if its price is not known."""
        found: list[tuple[str, TokenUsage, float | None]] = []
        for model, usage in self._spent.items():
            price = models.facts(model).price
            found.append((model, usage, None if price is None else price.cost(usage)))
        return found

    def cost(self, models: Models) -> float | None:
        """Dollars for all requests; None if the price of one is not known."""
        costs = [cost for _, _, cost in self.costs(models)]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


def filled_of(usage: TokenUsage) -> int:
    """How many tokens a request and its answer took of the window."""
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return usage.input_tokens + cached + usage.output_tokens


def _joined(parts: Sequence[tuple[int, str]], columns: int) -> str:
    kept = [(rank, text) for rank, text in parts if text]
    while len(kept) > 1 and cells(" · ".join(text for _, text in kept)) >= columns:
        kept.remove(max(kept, key=lambda part: part[0]))
    return " · ".join(text for _, text in kept)


def count_of(tokens: int) -> str:
    """So many tokens, in few signs."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def counted(number: int, thing: str) -> str:
    """So many of a thing."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
