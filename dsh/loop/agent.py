"""The agent that the loop drives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import trio

from ..agents import Agent, AgentRequest, AgentStatus, RunResult
from ..errors import AgentError
from ..hookspecs import Hooks
from ..messages import USER, Block, BlockLike, Message, MessageSource, Text, blocks
from ..session.events import ContextMessage, EndReason, Trigger, TurnEnd, TurnStart
from ..stash import Stash
from ..tasks import Tasks
from .flush import flush, hurry
from .inbox import Inbox
from .run import refuse_own_turn, run

if TYPE_CHECKING:
    from ..harness import Harness
    from .turn import Turn

__all__ = ["LoopAgent"]

T = TypeVar("T")


class LoopAgent:
    """An agent; see `dsh.Agent` for what its members promise.

    Attributes:
        inbox: what was sent and is not in the log yet.
        turn: the turn whose cancel scope is open, if one is.
        cancelled: the reason of a cancel that the driver has not seen yet.
        prefix: the session prefix, once it is composed.
        anchored: this agent has logged a request header.
        driver: stands around the driver.
        task: the driver, once it runs.
        flushes: those that are going on.
        exited: the driver has ended.
    """

    def __init__(self, request: AgentRequest, harness: Harness) -> None:
        self.id = request.agent_id
        self.session = request.session
        self.harness = harness
        self.options = request.options
        self.parent: Agent | None = request.parent
        self.depth: int = 0 if request.parent is None else request.parent.depth + 1
        self.plugins = (harness.plugins if request.parent is None else request.parent.plugins).scope()
        self.hook = cast(Hooks, self.plugins.relay)
        self.stash = Stash()
        self.status: AgentStatus = "idle"
        self.inbox = Inbox()
        self.turn: Turn | None = None
        self.cancelled: str | None = None
        # A child that begins as its parent did says the same before it, too: the provider has that in its cache.
        self.prefix: tuple[Message, ...] | None = _inherited_prefix(request)
        self.anchored = False
        self.driver = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None
        self.exited = trio.Event()
        self.tasks = Tasks(harness.nursery, self._task_failed)
        self._waiters: list[trio.Event] = []
        self.flushes: set[trio.CancelScope] = set()

    def hooks(self, protocol: type[T]) -> T:
        """The relay, typed by a plugin's own specs."""
        return cast(T, self.plugins.relay)

    @property
    def disposed(self) -> bool:
        """The agent's end has begun."""
        return self.status == "disposed"

    # -- the verbs

    def send(self, content: BlockLike, source: MessageSource = USER) -> None:
        """Queue a message for the next turn."""
        self._refuse_disposed("send")
        mail = self.inbox.enqueue(self.masked(content), source)
        self.hook.agent_queued(agent=self, content=mail.content, source=source, steering=False)

    def steer(self, content: BlockLike, source: MessageSource = USER) -> None:
        """Put a message into the running turn."""
        self._refuse_disposed("steer")
        if self.status != "running":
            self.send(content, source)
            return
        mail = self.inbox.steer(self.masked(content), source)
        self.hook.agent_queued(agent=self, content=mail.content, source=source, steering=True)

    def inject(self, content: BlockLike, source: MessageSource) -> None:
        """Record context, in the open turn or in one of its own."""
        self._refuse_disposed("inject")
        message = ContextMessage(self.masked(content), source)
        session = self.session
        if session.open_turn is not None:
            session.append(message)
            return
        number = session.last_turn + 1
        try:
            session.append(TurnStart(number, Trigger("injection", source)))
            session.append(message)
        finally:
            if session.open_turn == number:
                try:
                    session.append(TurnEnd(number, EndReason("completed")))
                except Exception as exc:
                    self.harness.warn_error("turn/end", exc)
                self.tasks.start_soon(flush, self, number, 0, name=f"flush of {session.id}")

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop the turn and drop what is queued, here and in the children."""
        if self.disposed:
            return
        for agent in self.harness.agents.list():
            if agent.parent is self:
                agent.cancel(reason)
        if self.status == "running" or self.inbox:
            self.cancelled = reason
        self.inbox.clear()
        if self.turn is not None:
            self.turn.cancel(reason)
        try:
            self.hook.agent_cancel(agent=self, reason=reason)
        except Exception as exc:
            self.harness.warn_error("agent_cancel", exc)

    async def when_idle(self) -> None:
        """Wait until nothing runs and nothing is queued."""
        if not self.disposed and not self.exited.is_set() and (self.status == "running" or self.inbox.queued):
            refuse_own_turn(self)
            waiter = trio.Event()
            self._waiters.append(waiter)
            await waiter.wait()
        if self.disposed:
            await self.exited.wait()

    async def run(self, content: BlockLike, source: MessageSource = USER) -> RunResult:
        """Send, wait, and read the answer from the log."""
        return await run(self, content, source)

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> None:
        """Run `function` in a task that ends with the agent."""
        self._refuse_disposed("start_soon")
        self.tasks.start_soon(function, *args, name=name)

    # -- what the driver uses

    def masked(self, content: BlockLike) -> tuple[Block, ...]:
        """`content` as blocks, without secrets in its text."""
        if content is None:
            raise AgentError("a message is a text or blocks, not None")
        mask = self.harness.secrets.mask
        return tuple(Text(mask(block.text)) if isinstance(block, Text) else block for block in blocks(content))

    def set_status(self, status: AgentStatus) -> None:
        """Change the status, once; waiters are settled before anybody is told."""
        if status == self.status or self.disposed:
            return
        self.status = status
        if status != "running":
            self.settle_waiters()
        try:
            self.hook.agent_status(agent=self, status=status)
        except Exception as exc:
            self.harness.warn_error("agent_status", exc)

    def settle_waiters(self) -> None:
        """End the waits for idleness."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()

    def report(self, turn: int, step: int, error: BaseException) -> None:
        """Tell ``agent_error``; errors there are warnings."""
        try:
            self.hook.agent_error(agent=self, turn=turn, step=step, error=error)
        except Exception as exc:
            self.harness.warn_error("agent_error", exc)

    def stop(self) -> None:
        """Begin the end: no more input, no more turns."""
        if self.disposed:
            return
        self.inbox.clear()
        self.set_status("disposed")
        self.inbox.wake()
        if self.turn is not None:
            self.turn.cancel("disposed")
        hurry(self)

    def abandon(self) -> None:
        """Undo an agent that never started."""
        self.status = "disposed"
        self.tasks.cancel()

    def _task_failed(self, error: Exception) -> None:
        self.harness.warn_error(f"a task of agent {self.id} failed", error)
        self.report(self.session.last_turn, 0, error)

    def _refuse_disposed(self, verb: str) -> None:
        if self.disposed:
            raise AgentError(f"cannot {verb}: agent {self.id!r} is disposed", code="DISPOSED")


def _inherited_prefix(request: AgentRequest) -> tuple[Message, ...] | None:
    parent, header = request.parent, request.session.header
    if isinstance(parent, LoopAgent) and header.seed_length and header.parent_session == parent.session.id:
        return parent.prefix
    return None
