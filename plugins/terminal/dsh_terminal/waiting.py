"""What the person entered and no model has seen yet."""

from __future__ import annotations

from attrs import define, field, frozen

from dsh.messages import USER
from dsh.session.events import PromptBlocked, SteeringMessage, UserMessage

__all__ = ["Queued", "Waiting"]


@frozen
class Queued:
    """A prompt.

    Attributes:
        waits: a turn ran when it was entered, so that it is shown again when its own begins.
    """

    text: str
    waits: bool


@define
class Waiting:
    """Texts on their way into the log, so that none is lost where they do not get there.

    Attributes:
        steered: for the turn that runs.
        queued: for the next one.
    """

    steered: list[str] = field(factory=list)
    queued: list[Queued] = field(factory=list)

    def take(self) -> list[str]:
        """All of them, which are nobody's any more."""
        left = [*self.steered, *(prompt.text for prompt in self.queued)]
        self.steered, self.queued = [], []
        return left

    def heard(self, data: object) -> str:
        """An event: what is in the log now is not ours to give back.  The prompt that waited until now, or nothing."""
        if not isinstance(data, UserMessage | SteeringMessage | PromptBlocked) or data.source != USER:
            return ""
        if self.queued and not (self.steered and isinstance(data, SteeringMessage)):
            prompt = self.queued.pop(0)
            return prompt.text if prompt.waits else ""
        if self.steered:
            del self.steered[0]
        return ""
