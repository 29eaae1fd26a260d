"""Send, wait, read the answer: what most programs want of an agent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from ..agents import RunResult
from ..errors import AgentError
from ..messages import BlockLike, MessageSource, TokenUsage, text_of
from ..session.events import AssistantMessage, Event, TurnEnd, TurnStart, usage_beside

if TYPE_CHECKING:
    from .agent import LoopAgent

__all__ = ["refuse_own_turn", "run"]

CLOSING_SECONDS = 60.0
"""How long a cancelled run waits for the end of its turn."""


def refuse_own_turn(agent: LoopAgent) -> None:
    """Refuse a wait for the end of `agent`'s turn by somebody whom that turn waits for.

    Raises:
        AgentError: neither would ever end.
    """
    task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
    while task is not None:
        if task is agent.task:
            raise AgentError(
                f"cannot wait for agent {agent.id!r} in its own turn, which would wait for that; "
                "send it the message, or wait in a task: agent.start_soon",
                code="OWN_TURN",
            )
        nursery = task.parent_nursery
        task = None if nursery is None else nursery.parent_task


async def run(agent: LoopAgent, content: BlockLike, source: MessageSource) -> RunResult:
    """See `dsh.Agent.run`."""
    refuse_own_turn(agent)
    events = agent.session.events
    before = len(events)
    agent.send(content, source)
    try:
        await agent.when_idle()
    except trio.Cancelled:
        agent.cancel("cancelled")
        with trio.move_on_after(CLOSING_SECONDS, shield=True):
            await agent.when_idle()
        raise
    # One by one: a long answer has hundreds of thousands.
    return _outcome(events[seq] for seq in range(before, len(events)))


def _outcome(events: Iterable[Event]) -> RunResult:
    """What happened, by the log."""
    text, reason, turn, usage = "", None, 0, TokenUsage()
    for event in events:
        data = event.data
        if isinstance(data, TurnStart):
            text, reason, turn = "", None, data.turn
        elif isinstance(data, AssistantMessage):
            text = text_of(data.content) or text
            usage = usage + data.usage if data.usage is not None else usage
        elif isinstance(data, TurnEnd):
            reason = data.reason
        elif (beside := usage_beside(data)) is not None:
            usage = usage + beside
    return RunResult(text, reason, turn, usage)
