"""Flushing: the wait until a log is durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from .agent import LoopAgent

__all__ = ["flush", "hurry"]

FLUSH_SECONDS = 10.0
"""How long a flush may take once the agent's end has begun."""


async def flush(agent: LoopAgent, turn: int, step: int) -> None:
    """Make the log durable; a failure is reported and changes nothing.

    Shielded from cancellation; once the agent's end has begun, with a bound.
    """
    scope = trio.CancelScope(shield=True)
    agent.flushes.add(scope)
    if agent.disposed:
        hurry(agent)
    try:
        with scope:
            await agent.harness.sessions.flush(agent.session)
    except Exception as exc:
        agent.harness.warn_error(f"session {agent.session.id} could not be flushed", exc)
        agent.report(turn, step, exc)
    finally:
        agent.flushes.discard(scope)
    if scope.cancelled_caught:
        agent.harness.warn(f"session {agent.session.id}: flushing took longer than {FLUSH_SECONDS:g} s")


def hurry(agent: LoopAgent) -> None:
    """Give the flushes that are going on `FLUSH_SECONDS` from now."""
    for scope in agent.flushes:
        scope.deadline = min(scope.deadline, trio.current_time() + FLUSH_SECONDS)
