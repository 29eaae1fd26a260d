"""The hook that the shell offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from dsh import hookspec
from dsh.hooks import Collector

if TYPE_CHECKING:
    from dsh.agents import Agent

__all__ = ["Parameters", "ShellHooks"]


class Parameters(Collector[tuple[str, Mapping[str, Any]]]):
    """The collector of ``shell_parameters``."""

    def add(self, name: str, schema: Mapping[str, Any]) -> None:
        """Let ``bash`` be called with `name`, a JSON schema, beside its own arguments.  Whoever adds it heeds it."""
        self.collect((name, schema))


class ShellHooks(Protocol):
    """The hooks of the plugin `shell`."""

    @hookspec(collect="parameters")
    def shell_parameters(self, agent: Agent, parameters: Parameters) -> None:
        """Called whenever the tools of an agent are assembled: further arguments of ``bash``.

        The shell itself does not look at them; whoever adds one reads it in ``tools_pre_execute`` or ``tools_execute``.

        :param agent: the agent.
        :param parameters: add arguments to it.

        Raising discards the collection and ends the turn with the error.  Nothing can cancel it.
        Return None.
        """
