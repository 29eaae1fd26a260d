"""The events of approvals: what was asked, what was decided, and what holds for the rest of the session."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["PermissionAsked", "PermissionDecided", "PermissionGranted", "PermissionMode"]


@frozen
class PermissionAsked:
    """A call waits for somebody's approval.

    Attributes:
        id: of the question; `PermissionDecided` has the same.
        reason: why.
        rules: those that would allow it.
        lineage: the agents from the root to the one that asks.
    """

    type: ClassVar[str] = "permission/asked"
    turn: int
    step: int | None
    call_id: str
    id: str
    tool: str
    reason: str
    rules: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()


@frozen
class PermissionDecided:
    """The answer.

    Attributes:
        outcome: ``allowed``, ``refused``, ``unanswered`` or ``cancelled``.
        by: who answered; None for nobody.
        scope: ``once``, ``session`` or ``project``, when it is allowed.
        rules: what is allowed from now on; of an answer that is no permission, what would have been needed.
        reason: what the model reads of it, when it is not allowed.
        ms: how long the answer took.
    """

    type: ClassVar[str] = "permission/decided"
    turn: int
    step: int | None
    call_id: str
    id: str
    outcome: str
    by: str | None = None
    scope: str | None = None
    rules: tuple[str, ...] = ()
    reason: str | None = None
    ms: float = 0.0


@frozen
class PermissionGranted:
    """What somebody allowed for the rest of this session, in the root agent's log; a resumed session goes on with it.

    Attributes:
        id: of the question.
        rules: the rules that hold.
        tool, digest: a call that may run again, where there is no rule for it: the tool, and a digest of the arguments.
    """

    type: ClassVar[str] = "permission/granted"
    turn: int
    id: str
    rules: tuple[str, ...] = ()
    tool: str | None = None
    digest: str | None = None


@frozen
class PermissionMode:
    """The person chose another mode for the conversation.

    Attributes:
        turn: the one that was open; 0 for none.
    """

    type: ClassVar[str] = "permission/mode"
    turn: int
    mode: str
    before: str
