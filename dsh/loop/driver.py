"""The driver: one task an agent, from its start to its end."""

from __future__ import annotations

import trio

from .agent import LoopAgent
from .turn import run_turn

__all__ = ["drive"]


async def drive(agent: LoopAgent) -> None:
    """Run turns until the agent is disposed.

    A plugin's error ends a turn, never this loop.  When the whole program is cancelled the open
    turn is closed first.
    """
    agent.task = trio.lowlevel.current_task()
    try:
        with agent.driver:
            while not agent.disposed:
                if not agent.inbox.queued and agent.cancelled is None:
                    await agent.inbox.wait()
                else:
                    await _wake(agent)
    finally:
        agent.task = None
        agent.exited.set()
        agent.settle_waiters()


async def _wake(agent: LoopAgent) -> None:
    """Something was sent, or cancelled before anything began."""
    if _cancelled_before_it_began(agent):
        agent.settle_waiters()
        return
    agent.set_status("running")
    while not agent.disposed and not _cancelled_before_it_began(agent):
        number = agent.session.last_turn + 1
        try:
            await run_turn(agent, number)
        except Exception as exc:
            # The turn never made it into the log, so nothing there can tell of it.
            agent.harness.warn_error(f"turn {number} could not be opened", exc)
            agent.report(number, 0, exc)
        # A listener that sends after every turn must not keep everybody else from running.
        await trio.lowlevel.cancel_shielded_checkpoint()
        agent.cancelled = None
        agent.inbox.requeue_steering()
        if not agent.inbox.queued:
            break
    agent.set_status("idle")


def _cancelled_before_it_began(agent: LoopAgent) -> bool:
    """Take a pending cancel; whether it left nothing to do."""
    if agent.cancelled is None:
        return False
    agent.cancelled = None
    return not agent.inbox.queued
