"""What the parent's log says of its children."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from dsh import TokenUsage

__all__ = ["LOST", "SubagentEnd", "SubagentStart"]

LOST = "lost"
"""The reason of a child that was at work in the background when the program ended."""


@frozen
class SubagentStart:
    """A child was started.

    Attributes:
        id: what its parent calls it.
        provider: who runs it.
        session_id: of its own log, where it has one.
        call_id: the call that asked for it.
    """

    type: ClassVar[str] = "subagent/start"
    id: str
    provider: str
    description: str
    session_id: str | None = None
    agent_type: str | None = None
    call_id: str | None = None
    background: bool = False

    @property
    def notice(self) -> str | None:
        """Of one in the background only: the others' calls are shown already."""
        return f"{self.id} started in the background: {self.description}" if self.background else None


@frozen
class SubagentEnd:
    """A child has ended.

    Attributes:
        reason: ``completed``, ``max-tokens``, ``aborted``, ``error``, ``timeout``, ``answer``, ``lost``, or a
            provider's own word.
        message: what went wrong.
        took: the tokens of its requests, with its own children's; they stand in its own log, too.
    """

    type: ClassVar[str] = "subagent/end"
    id: str
    reason: str
    session_id: str | None = None
    message: str | None = None
    took: TokenUsage | None = None
    background: bool = False

    @property
    def notice(self) -> str | None:
        """Of one in the background only."""
        if not self.background:
            return None
        how = "has finished" if self.reason == "completed" else f"ended ({self.message or self.reason})"
        return f"{self.id} {how}"
