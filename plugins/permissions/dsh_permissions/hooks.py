"""The hook of this plugin: who can say whether a call may run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dsh import hookspec

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.approval import Answer, PermissionRequest

__all__ = ["PermissionHooks"]

_ANSWERS = tuple(f"dsh.approval.{name}" for name in ("AllowOnce", "AllowSession", "AllowProject", "Refuse"))


class PermissionHooks(Protocol):
    """The hooks of this plugin."""

    @hookspec(firstresult=True, answers=_ANSWERS)
    async def permission_ask(self, agent: Agent, request: PermissionRequest) -> Answer | None:
        """Awaited when a call needs somebody's approval: a rule says so, or another plugin answered `Ask`.

        A subagent's questions reach the implementations of its parents' scopes, too.  Several may be asked at
        once, for calls that run beside each other.

        :param agent: who wants to run it.
        :param request: the question.

        Return `AllowOnce`, `AllowSession`, `AllowProject` or `Refuse`, or None to leave it to others; when nobody
        answers, the call is denied, and ``dsh -p`` ends with exit code 3.  Raising, or answering anything else,
        counts as nobody.  Cancelling the turn cancels the wait.
        """
