"""What the person entered and no model has seen yet."""

from __future__ import annotations

from attrs import define, field

from dsh.messages import USER
from dsh.session.events import PromptBlocked, SteeringMessage, UserMessage

__all__ = ["Waiting"]


@define
class Waiting:
    """Texts on their way into the log, so that none is lost where they do not get there.

    Attributes:
        steered: for the turn that runs.
        queued: for the next one.
    """

    steered: list[str] = field(factory=list)
    queued: list[str] = field(factory=list)

    def take(self) -> list[str]:
        """All of them, which are nobody's any more."""
        left = [*self.steered, *self.queued]
        self.steered, self.queued = [], []
        return left

    def heard(self, data: object) -> None:
        """An event: what is in the log now is not ours to give back."""
        if not isinstance(data, UserMessage | SteeringMessage | PromptBlocked) or data.source != USER:
            return
        first, second = self.queued, self.steered
        if isinstance(data, SteeringMessage):
            first, second = second, first
        waiting = first or second
        if waiting:
            del waiting[0]
