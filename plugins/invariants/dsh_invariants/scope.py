"""What an agent's own scope hears: a plugin there that keeps count."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attrs import define, field

from dsh import StashKey, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Session

__all__ = ["PROBE", "Probe", "ProbeKey"]

PROBE = "invariants.probe"
"""The name of the plugin in each agent's scope."""


@define(eq=False)
class Probe:
    """Listens in the scope of one agent.

    Attributes:
        heard, told: how often the scope, and the plugins of the program, heard of each hook.
        strangers: what was heard that is about somebody else.
    """

    agent: Agent
    heard: Counter[str] = field(factory=Counter)
    told: Counter[str] = field(factory=Counter)
    strangers: list[str] = field(factory=list)

    @property
    def listens(self) -> bool:
        """Whether it is registered still; an agent that is gone has no scope any more."""
        return self.agent.plugins.has_plugin(PROBE)

    def _hear(self, hook: str, agent: Agent) -> None:
        self.heard[hook] += 1
        if agent is not self.agent:
            self.strangers.append(f"{hook} of agent {agent.id}")

    @hookimpl(tryfirst=True)
    def session_event(self, session: Session) -> None:
        self.heard["session_event"] += 1
        if session is not self.agent.session:
            self.strangers.append(f"session_event of session {session.id}")

    @hookimpl(tryfirst=True)
    def agent_queued(self, agent: Agent) -> None:
        self._hear("agent_queued", agent)

    @hookimpl(tryfirst=True)
    def agent_error(self, agent: Agent) -> None:
        self._hear("agent_error", agent)

    @hookimpl(tryfirst=True)
    def agent_status(self, agent: Agent) -> None:
        self._hear("agent_status", agent)

    @hookimpl(tryfirst=True)
    def prompt_sections(self, agent: Agent) -> None:
        self._hear("prompt_sections", agent)


ProbeKey: StashKey[Probe] = StashKey("invariants: what the agent's scope heard")
