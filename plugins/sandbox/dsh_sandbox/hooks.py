"""The hooks that the sandbox offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from dsh import hookspec
from dsh.errors import PluginError
from dsh.hooks import Collector
from dsh_sandbox.config import MODES, Mode

if TYPE_CHECKING:
    from dsh.agents import Agent
    from dsh.harness import Harness

__all__ = ["Modes", "SandboxHooks"]


class Modes(Collector[Mode]):
    """The collector of ``sandbox_modes``."""

    def add(self, mode: Mode) -> None:
        """Hold the agent to `mode`, if that is stricter than the others."""
        if mode not in MODES:
            raise PluginError(f"there is no mode {mode!r} of the sandbox; there are {', '.join(MODES)}")
        self.collect(mode)


class SandboxHooks(Protocol):
    """The hooks of the plugin `sandbox`."""

    @hookspec(firstresult=True)
    async def sandbox_default(self, harness: Harness) -> str | None:
        """Asked once, when a harness opens: the mode where the settings name none.

        It is taken where the machine can do it; where it cannot, commands run without a sandbox, and the person
        is told.  `dsh -p` answers ``workspace-write``.

        :param harness: the harness that opens.
        :returns: a mode.

        Raising keeps the harness from opening, and so does being cancelled.
        None leaves the answer to the next implementation, and at last means ``danger-full-access``.
        """

    @hookspec(collect="modes")
    def sandbox_modes(self, agent: Agent, modes: Modes) -> None:
        """Called before a command of an agent, or of one below it, for modes that it is held to.

        The strictest counts, those of the settings and of all agents above among them: nobody can loosen one.

        :param agent: the agent, or one that it is below.
        :param modes: add modes to it.

        Raising discards the collection and keeps the command from running.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def sandbox_ready(self, harness: Harness, text: str) -> None:
        """Called once a harness, when it is known what its commands are confined by, before the first of them runs.

        :param harness: the harness.
        :param text: the sandbox, in a sentence for people.

        Everyone hears it; errors keep the command from running.  Nothing can cancel it.
        Return None.
        """
