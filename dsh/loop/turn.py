"""A turn: from its first prompt to its end in the log, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

from ..decisions import Block, contexts_of
from ..errors import blamed_message, error_code
from ..llm.assembler import Assembler
from ..session.events import (
    ContextMessage,
    EndReason,
    PromptBlocked,
    SteeringMessage,
    StepEnd,
    Trigger,
    TurnStart,
    UserMessage,
)
from ..tasks import parted
from .agent import LoopAgent
from .calls import OpenCall
from .closing import close
from .flush import flush
from .inbox import Mail

__all__ = ["Turn", "run_turn"]

CLOSING_SECONDS = 60.0
"""How long a cancelled turn waits for the children of its agent to stop."""


@define(eq=False)
class Turn:
    """A turn in progress.

    Attributes:
        scope: what cancelling the turn cancels.
        step: the number of the step in preparation or in execution.
        reason: how the turn ends, if nothing stronger happens.
        cancel_reason: of the first cancel.
        failed: a failure has been reported.
        streaming: the answer that is arriving.
        chunk_seqs: the events of its chunks.
        open_calls: the calls of the step's message, by id, that have no result yet.
    """

    agent: LoopAgent
    number: int
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    step: int = 0
    reason: EndReason = field(factory=lambda: EndReason("completed"))
    cancel_reason: str | None = None
    failed: bool = False
    streaming: Assembler | None = None
    chunk_seqs: list[int] = field(factory=list)
    open_calls: dict[str, OpenCall] = field(factory=dict)

    def cancel(self, reason: str) -> None:
        """Cancel what the turn awaits; the first reason stays."""
        if self.cancel_reason is None:
            self.cancel_reason = reason
        self.scope.cancel()

    def fail(self, error: BaseException) -> None:
        """Report a failure; only the first of a turn counts."""
        if self.failed:
            return
        self.failed = True
        message = self.agent.harness.secrets.mask(blamed_message(error))
        self.reason = EndReason("error", step=self.step, message=message, code=error_code(error))
        self.agent.report(self.number, self.step, error)

    def append(self, data: Any, sources: Sequence[int] | None = None) -> Exception | None:
        """Append while closing: what a listener raises is returned, and stops nothing."""
        try:
            self.agent.session.append(data, sources=sources)
        except Exception as exc:
            return exc
        return None

    def record(self, data: Any, sources: Sequence[int] | None = None) -> None:
        """Append while closing: what a listener raises is a warning."""
        error = self.append(data, sources)
        if error is not None:
            self.agent.harness.warn_error(data.type, error)

    def drain_steering(self) -> bool:
        """Log what arrived to steer the turn; whether there was anything."""
        inbox = self.agent.inbox
        any_arrived = bool(inbox.steering)
        while inbox.steering:
            mail = inbox.steering.popleft()
            self.agent.session.append(SteeringMessage(self.number, mail.content, mail.source))
        return any_arrived

    def close_step(self) -> Exception | None:
        """Close the step, if one is open."""
        if self.agent.session.open_step is None:
            return None
        return self.append(StepEnd(self.number, self.step))


async def run_turn(agent: LoopAgent, number: int) -> None:
    """Run one turn over everything that is queued, close it in the log, and flush.

    Raises:
        Exception: the turn could not even be opened in the log.
    """
    from .step import run_step

    turn = Turn(agent, number)
    batch = agent.inbox.drain()
    failure: Exception | None = None
    torn: BaseException | None = None
    agent.turn = turn
    try:
        agent.session.append(TurnStart(number, Trigger("message", batch[0].source)))
        with turn.scope:
            if await _admit(turn, batch):
                while await run_step(turn):
                    pass
    except BaseException as exc:
        # What is torn is the program around us, which is being cancelled; it goes on below.
        failure, torn = parted(exc)
    finally:
        agent.turn = None
    if turn.scope.cancel_called and torn is None:
        await _children_stopped(agent)
    if agent.session.open_turn == number:
        close(turn, failure, torn is not None)
        if turn.scope.cancel_called and torn is None:
            await _settled(agent)
        await flush(agent, number, turn.step)
    elif failure is not None and torn is None:
        raise failure
    if torn is not None:
        raise torn


async def _children_stopped(agent: LoopAgent) -> None:
    """Wait, within a bound, until nothing runs below an agent whose turn was cancelled, and so were theirs."""
    with trio.move_on_after(CLOSING_SECONDS, shield=True):
        for child in agent.harness.agents.list():
            if child.parent is agent:
                await child.when_idle()


async def _settled(agent: LoopAgent) -> None:
    """Wait, within a bound, for what plugins run for an agent beside its turns, and end with a cancelled one."""
    try:
        with trio.move_on_after(CLOSING_SECONDS, shield=True):
            await agent.hook.agent_settle(agent=agent)
    except Exception as exc:
        agent.harness.warn_error("agent_settle", exc)


async def _admit(turn: Turn, batch: list[Mail]) -> bool:
    """Ask the gate about each message and log it; whether any was admitted."""
    agent, admitted = turn.agent, False
    session = agent.session
    last = ""
    for number, mail in enumerate(batch):
        try:
            verdict = await agent.hook.agent_prompt_submit(agent=agent, content=mail.content, source=mail.source)
        except BaseException as exc:
            # What was sent is not lost: the log shows it, and why it got no answer.
            why = turn.cancel_reason or ("the turn failed" if isinstance(exc, Exception) else "cancelled")
            for unheard in batch[number:]:
                turn.record(PromptBlocked(unheard.content, unheard.source, why))
            raise
        if isinstance(verdict, Block):
            last = agent.harness.secrets.mask(verdict.reason)
            session.append(PromptBlocked(mail.content, mail.source, last))
            continue
        admitted = True
        content = mail.content if verdict.content is None else agent.masked(verdict.content)
        session.append(UserMessage(content, mail.source))
        for context in contexts_of(verdict):
            session.append(ContextMessage(agent.masked(context.content), context.source))
    if not admitted:
        turn.reason = EndReason("rejected", reason=last)
    return admitted
