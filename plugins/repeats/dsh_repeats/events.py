"""The event of a loop that was noticed."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["RepeatsNoticed"]


@frozen
class RepeatsNoticed:
    """A turn goes round in circles.

    Attributes:
        turn, step: the step after which it was noticed.
        kind: ``failing-call``, ``same-result`` or ``continuation``.
        action: ``reminder`` or ``stop``.
        count: how often it has happened.
        tool: the name of the tool that is called; empty for a continuation.
    """

    type: ClassVar[str] = "repeats/noticed"
    turn: int
    step: int
    kind: str
    action: str
    count: int
    tool: str = ""

    @property
    def notice(self) -> str:
        """The line for a person."""
        what = {
            "failing-call": f"the same call of {self.tool} failed {self.count} times",
            "same-result": f"the same call of {self.tool} had the same result {self.count} times",
            "continuation": f"the turn was made to go on {self.count} times",
        }.get(self.kind, self.kind)
        done = "the turn ends" if self.action == "stop" else "the model is told"
        return f"[repeats] {what}: {done}"
