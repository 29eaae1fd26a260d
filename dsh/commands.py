"""What plugins add to the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from .errors import PluginError
from .hooks.collector import Collector

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from .agents import Agent
    from .config import Config

__all__ = ["Command", "Commands", "SlashCommand"]

Configure: TypeAlias = "Callable[[ArgumentParser], None]"
Run: TypeAlias = "Callable[[Namespace, Config], int]"
Slash: TypeAlias = "Callable[[Agent, str], Awaitable[str]]"


@frozen
class Command:
    """A subcommand.

    Attributes:
        name: lower-case letters, digits and ``-``.
        help: what it does, in a few words.
        run: called with the arguments and the settings; returns the exit code.
        configure: adds the command's own flags to its parser.
    """

    name: str
    help: str
    run: Run
    configure: Configure | None = None


@frozen
class SlashCommand:
    """What a person does to a conversation with ``/name text``, without the model.

    Attributes:
        name: lower-case letters, digits and ``-``, without the slash.
        help: what it takes and does, in a few words: ``[TEXT]: ...``.
        run: awaited with the conversation's agent and the text behind the name; returns what to tell the person.
            It is called while the agent is idle, or runs.  A `DshError` is told to the person as well.
        values: what may stand behind the name, to propose it while the person types.
    """

    name: str
    help: str
    run: Slash
    values: tuple[str, ...] = ()


class Commands(Collector[Command | SlashCommand]):
    """The collector of ``dsh_add_commands``."""

    def add(self, name: str, help: str, run: Run, configure: Configure | None = None) -> None:
        """Offer ``dsh name``."""
        self.collect(Command(name, help, run, configure))

    def add_slash(self, name: str, help: str, run: Slash, values: Iterable[str] = ()) -> None:
        """Offer ``/name`` in conversations."""
        self.collect(SlashCommand(name, help, run, tuple(values)))

    def shell(self) -> Iterator[tuple[str, Command]]:
        """The subcommands of ``dsh``, each with its plugin."""
        return ((plugin, command) for plugin, command in self.attributed() if isinstance(command, Command))

    def slash(self) -> dict[str, SlashCommand]:
        """The slash commands by name.

        Raises:
            PluginError: two plugins bring the same one.
        """
        found: dict[str, tuple[str, SlashCommand]] = {}
        for plugin, command in self.attributed():
            if isinstance(command, SlashCommand):
                if command.name in found:
                    owner = found[command.name][0]
                    raise PluginError(f"the plugins {owner} and {plugin} both bring a command /{command.name}")
                found[command.name] = (plugin, command)
        return {name: command for name, (_, command) in sorted(found.items())}
