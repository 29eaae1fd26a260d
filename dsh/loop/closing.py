"""How a turn ends in the log, however it ended: what is open is answered, and closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..messages import Text
from ..session.events import AssistantMessage, EndReason, ErrorInfo, ToolCall, ToolResult, TurnEnd

if TYPE_CHECKING:
    from .calls import OpenCall
    from .turn import Turn

__all__ = ["close"]


def close(turn: Turn, failure: Exception | None, torn: bool) -> None:
    """Bring the log to the end of the turn.  Nothing here raises, and nothing awaits.

    Args:
        failure: what ended the turn, unless it ran to its end.
        torn: the program around the turn is being cancelled.
    """
    agent = turn.agent
    aborted = torn or turn.scope.cancel_called
    between_steps = agent.session.open_step is None and turn.step > 0 and failure is None
    _keep_what_was_seen(turn)
    _settle(turn, aborted)
    closing_error = turn.close_step()
    disposed = torn or agent.disposed
    if closing_error is not None:
        turn.fail(closing_error)
    if failure is not None and not aborted and not disposed:
        turn.fail(failure)
    if (aborted or (disposed and failure is not None)) and turn.reason.kind != "rejected":
        cancelled = turn.cancel_reason not in (None, "disposed")
        if disposed and not (between_steps and cancelled):
            turn.reason = EndReason("disposed")
        else:
            turn.reason = EndReason("aborted", reason=turn.cancel_reason)
    turn.record(TurnEnd(turn.number, turn.reason))


def _keep_what_was_seen(turn: Turn) -> None:
    """Log the text of an answer that was cut off; a person has read it."""
    answer, turn.streaming = turn.streaming, None
    if answer is None or turn.agent.session.open_step is None:
        return
    text = turn.agent.harness.secrets.mask(answer.text())
    if text:
        message = AssistantMessage(turn.number, turn.step, (Text(text),), answer.usage, interrupted=True)
        turn.record(message, turn.chunk_seqs)


def _settle(turn: Turn, aborted: bool) -> None:
    """Answer the calls that the turn leaves open, if their message made it into the log."""
    session = turn.agent.session
    while turn.open_calls:
        call_id = next(iter(turn.open_calls))
        opened = turn.open_calls.pop(call_id)
        if session.open_step is not None and call_id in session.call_ids:
            _answer(turn, opened, aborted)


def _answer(turn: Turn, opened: OpenCall, aborted: bool) -> None:
    block = opened.block
    if opened.seq is None:
        opened.seq = len(turn.agent.session.events)
        turn.record(ToolCall(turn.number, turn.step, block.id, block.name, block.arguments))
    if opened.result is not None:
        turn.record(opened.result, [opened.seq])
        return
    cause = "the turn was cancelled" if aborted else "the turn failed"
    text = (
        f"Error: {cause} before this call had ended; it may have had effects"
        if opened.started
        else f"Error: {cause} before this call was started; it had no effect"
    )
    error = ErrorInfo("ToolAborted", "ABORTED" if opened.started else "ABORTED_BEFORE_DISPATCH")
    turn.record(ToolResult(turn.number, turn.step, block.id, (Text(text),), True, error), [opened.seq])
