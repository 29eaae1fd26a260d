"""A conversation: an agent that a person talks to, what they may exchange it for, and what is shown beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import define, frozen

from .hooks.collector import Collector

if TYPE_CHECKING:
    from .agents import AgentHandle
    from .harness import Harness

__all__ = ["Conversation", "Job", "Jobs", "Opener", "StatusParts"]


class Opener(Protocol):
    """Opens an agent."""

    async def __call__(self, session_id: str | None, *, fork: bool = False, turn: int | None = None) -> AgentHandle:
        """Open it on a new session for None, on the session of that id, or on a fork of it.

        Args:
            turn: of a fork: the turn that it ends with; by default the last that has ended.

        Raises:
            DshError: it cannot be opened.
        """
        ...


@define(eq=False)
class Conversation:
    """What a person talks to; whoever answers ``conversation`` holds it.

    Attributes:
        harness: the program.
        handle: the agent of now; it is disposed with the conversation.
        prompt: what the person said already when they opened it; empty if nothing.
        cwd: where they are.
        opener: opens another agent.
        tell: set by whoever holds the conversation: told of warnings, which go to stderr otherwise.
        shell: runs a subcommand of ``dsh`` beside this program, with the same settings; what it prints.
    """

    harness: Harness
    handle: AgentHandle
    prompt: str
    cwd: Path
    opener: Opener
    shell: Callable[[Sequence[str]], Awaitable[str]]
    tell: Callable[[str], None] | None = None

    async def change(
        self, session_id: str | None = None, *, fork: bool = False, turn: int | None = None
    ) -> AgentHandle:
        """Go on with another session: a new one, a stored one, or a fork of a stored one or of the one of now.

        The agent of now is disposed once the other is there: a turn of it that runs is aborted, and in its log.
        Its own session is what it has already, so nothing happens then.

        Args:
            turn: of a fork: the turn that it ends with; by default the last that has ended.

        Raises:
            DshError: it cannot be opened; the conversation goes on as it was.

        Cancelling leaves the conversation as it was, or with the other agent.
        """
        if session_id is not None and not fork and session_id == self.handle.agent.session.id:
            return self.handle
        other = await self.opener(session_id, fork=fork, turn=turn)
        old, self.handle = self.handle, other
        await old.dispose()
        return other


@frozen
class Job:
    """Something that runs in the background for an agent.

    Attributes:
        id: as whoever runs it calls it.
        title: what it is, such as the command.
    """

    id: str
    title: str


class Jobs(Collector[Job]):
    """The collector of ``agent_jobs``."""

    def add(self, id: str, title: str, order: int = 0) -> None:
        """Tell of something that runs."""
        self.collect(Job(id, title), order)


class StatusParts(Collector[str]):
    """The collector of ``status_parts``."""

    def add(self, text: str, order: int = 0) -> None:
        """Add a word or two; empty text is left out."""
        if text:
            self.collect(text, order)
