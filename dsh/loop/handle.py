"""The handle of an agent: how it ends."""

from __future__ import annotations

from collections.abc import Callable

import trio

from .agent import LoopAgent

__all__ = ["LoopHandle"]

CLOSING_SECONDS = 60.0
"""How long the end of an agent may take before it is given up on, with a warning."""


class LoopHandle:
    """The only way to tear an agent down."""

    def __init__(self, agent: LoopAgent, detach: Callable[[], None]) -> None:
        self.agent = agent
        self._detach = detach
        self._started = False
        self._done = trio.Event()

    async def dispose(self) -> None:
        """Close the turn, flush, stop the agent's tasks and children, unwind its scope.

        In the agent's own turn, or in a task that it owns, this is cancelled by the end it began.
        """
        if not self._started:
            self._started = True
            # A task of the harness, so that the end goes on when this wait is cancelled.
            self.agent.harness.nursery.start_soon(self._teardown, name=f"end of agent {self.agent.id}")
        await self._done.wait()

    async def _teardown(self) -> None:
        agent = self.agent
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING_SECONDS) as scope:
                agent.stop()
                await agent.harness.dispose_children(agent)
                await agent.exited.wait()
                await agent.tasks.close()
            if scope.cancelled_caught:
                agent.harness.warn(f"agent {agent.id} did not end within {CLOSING_SECONDS:g} s; it is left behind")
                agent.driver.cancel()
                agent.tasks.cancel()
        finally:
            agent.harness.agents.remove(agent)
            self._detach()
            agent.plugins.clear()
            agent.harness.forget(agent)
            self._done.set()
