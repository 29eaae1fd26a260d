"""What a run wants of the sandbox, and whether that could be had."""

from __future__ import annotations

from attrs import define

from ..hooks.markers import hookimpl
from ..session.events import Event, ToolResult
from .progress import Progress

__all__ = ["Confined"]

UNAVAILABLE = "SANDBOX_UNAVAILABLE"
"""The code of a command that did not run, since the sandbox that was asked for cannot be had."""


@define(eq=False)
class Confined:
    """A plugin of the run.

    Attributes:
        verbose: say what commands are confined by.
        missed: a command did not run, since the sandbox that was asked for cannot be had.
    """

    progress: Progress
    verbose: bool
    missed: bool = False

    @hookimpl(optionalhook=True)
    async def sandbox_default(self) -> str:
        """Nobody watches a run, and so its commands are confined where that can be had."""
        return "workspace-write"

    @hookimpl(optionalhook=True)
    def sandbox_ready(self, text: str) -> None:
        """Say what commands are confined by."""
        if self.verbose:
            self.progress.say(text)

    @hookimpl
    def session_event(self, event: Event) -> None:
        """Look at results."""
        data = event.data
        if isinstance(data, ToolResult) and data.error is not None and data.error.code == UNAVAILABLE:
            self.missed = True
