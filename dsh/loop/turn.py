"""A turn: from its first prompt to its end in the log, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

from ..decisions import Block, contexts_of
from ..errors import error_code, error_message
from ..llm.assembler import Assembler
from ..messages import Text
from ..session.events import (
    AssistantMessage,
    ContextMessage,
    EndReason,
    PromptBlocked,
    SteeringMessage,
    StepEnd,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from .agent import LoopAgent
from .calls import OpenCall, settle
from .inbox import Mail

__all__ = ["Turn", "run_turn"]

FLUSH_SECONDS = 10.0
"""How long a flush may take when the agent is being disposed."""


@define(eq=False)
class Turn:
    """A turn in progress.

    Attributes:
        scope: what cancelling the turn cancels.
        step: the number of the step in preparation or in execution.
        reason: how the turn ends, if nothing stronger happens.
        cancel_reason: of the first cancel.
        failed: a failure has been reported.
        streaming: the answer that is arriving, and the events of its chunks.
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
        message = self.agent.harness.secrets.mask(error_message(error))
        self.reason = EndReason("error", step=self.step, message=message, code=error_code(error))
        self.agent.report(self.number, self.step, error)

    def append(self, data: Any, sources: Sequence[int] | None = None) -> Exception | None:
        """Append while closing: what a listener raises is returned, and stops nothing."""
        try:
            self.agent.session.append(data, sources=sources)
        except Exception as exc:
            return exc
        return None

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
    if agent.disposed:
        turn.cancel("disposed")
    try:
        agent.session.append(TurnStart(number, Trigger("message", batch[0].source)))
        with turn.scope:
            if await _admit(turn, batch):
                while await run_step(turn):
                    pass
    except Exception as exc:
        failure = exc
    except BaseException as exc:
        torn = exc  # the program around us is being cancelled; it goes on below
    finally:
        agent.turn = None
    if agent.session.open_turn != number:
        if failure is not None or torn is not None:
            raise failure or torn  # type: ignore[misc]  # one of them is there
        return
    _close(turn, failure, torn is not None)
    if torn is not None or agent.disposed:
        with trio.move_on_after(FLUSH_SECONDS, shield=True) as scope:
            await agent.flush(number, turn.step)
        if scope.cancelled_caught:
            agent.harness.warn(f"session {agent.session.id}: flushing took longer than {FLUSH_SECONDS:g} s")
    else:
        await agent.flush(number, turn.step)
    if torn is not None:
        raise torn


async def _admit(turn: Turn, batch: list[Mail]) -> bool:
    """Ask the gate about each message and log it; whether any was admitted."""
    agent, admitted = turn.agent, False
    session = agent.session
    last = ""
    for number, mail in enumerate(batch):
        try:
            verdict = await agent.hook.agent_prompt_submit(agent=agent, content=mail.content, source=mail.source)
        except trio.Cancelled:
            # What was sent is not lost: the log shows it, and why it got no answer.
            for unheard in batch[number:]:
                turn.append(PromptBlocked(unheard.content, unheard.source, turn.cancel_reason or "cancelled"))
            raise
        if isinstance(verdict, Block):
            last = verdict.reason
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


def _close(turn: Turn, failure: Exception | None, torn: bool) -> None:
    """Bring the log to the end of the turn.  Nothing here raises, and nothing awaits."""
    agent = turn.agent
    aborted = torn or turn.scope.cancel_called
    between_steps = agent.session.open_step is None and turn.step > 0 and failure is None
    _keep_what_was_seen(turn)
    settle(turn, aborted)
    closing_error = turn.close_step()
    disposed = torn or agent.disposed
    if closing_error is not None:
        turn.fail(closing_error)
    if failure is not None and not aborted and not disposed:
        turn.fail(failure)
    if (aborted or failure is not None) and (disposed or aborted) and turn.reason.kind != "rejected":
        cancelled = turn.cancel_reason not in (None, "disposed")
        if disposed and not (between_steps and cancelled):
            turn.reason = EndReason("disposed")
        else:
            turn.reason = EndReason("aborted", reason=turn.cancel_reason)
    error = turn.append(TurnEnd(turn.number, turn.reason))
    if error is not None:
        agent.harness.warn_error("turn/end", error)


def _keep_what_was_seen(turn: Turn) -> None:
    """Log the text of an answer that was cut off; a person has read it."""
    answer, turn.streaming = turn.streaming, None
    if answer is None or turn.agent.session.open_step is None:
        return
    text = answer.text()
    if text:
        message = AssistantMessage(turn.number, turn.step, (Text(text),), answer.usage, interrupted=True)
        turn.append(message, turn.chunk_seqs)
