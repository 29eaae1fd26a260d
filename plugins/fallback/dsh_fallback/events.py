"""The event of a change to another model."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["FallbackSwitch"]


@frozen
class FallbackSwitch:
    """A model's provider could not answer, and the turn goes on with another model.

    Attributes:
        failed: the model that was asked.
        model: the one that is asked instead.
        first: the one that the turn began with.
        code, message: the error.
    """

    type: ClassVar[str] = "fallback/switch"
    turn: int
    step: int
    failed: str
    model: str
    first: str
    code: str
    message: str

    @property
    def notice(self) -> str:
        """The line for a person who waits."""
        return f"[fallback] going on with {self.model}: {self.message}"
