"""What plugins add to the command line."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from inspect import isawaitable
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from .errors import DshError, PluginError
from .hooks.collector import Collector

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from .agents import Agent
    from .config import Config

__all__ = ["OWN", "Command", "Commands", "SlashCommand"]

Configure: TypeAlias = "Callable[[ArgumentParser], None]"
Run: TypeAlias = "Callable[[Namespace, Config], int | None]"
Slash: TypeAlias = "Callable[[Agent, str], Awaitable[str | None] | str | None]"

OWN = frozenset(
    [
        "auth",
        "batch",
        "config",
        "doctor",
        "hooks",
        "init",
        "models",
        "plugin",
        "plugins",
        "run",
        "sessions",
        "trust",
        "why",
    ]
)
"""The subcommands of dsh itself; `dsh.cli` has what they are."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


@frozen
class Command:
    """A subcommand.

    Attributes:
        name: a lower-case letter, then such letters, digits, ``-`` and ``_``.
        help: what it does, in a few words.
        run: called with the arguments and the settings; returns the exit code, or None for 0.
        configure: adds the command's own flags to its parser.
        plugin: whose it is.
    """

    name: str
    help: str
    run: Run
    configure: Configure | None = None
    plugin: str = ""

    def call(self, args: Namespace, config: Config) -> int:
        """Run it; the exit code.

        Raises:
            PluginError: it returned something else.
        """
        code: object = self.run(args, config)
        if code is None:
            return 0
        if isinstance(code, int) and not isinstance(code, bool):
            return code
        if hasattr(code, "close"):  # a coroutine that nobody will run
            code.close()
        raise PluginError(f"dsh {self.name} of the plugin {self.plugin}: {_other(code)} is no exit code: return an int")


@frozen
class SlashCommand:
    """What a person does to a conversation with ``/name text``, without the model.

    Attributes:
        name: a lower-case letter, then such letters, digits, ``-`` and ``_``; without the slash.
        help: what it takes and does, in a few words: ``[TEXT]: ...``.
        run: called with the conversation's agent and the text behind the name, and awaited if it is asynchronous;
            returns what to tell the person, or None.  It is called while the agent is idle, or runs.  A `DshError` is
            told to the person as well.
        values: what may stand behind the name, to propose it while the person types.
        plugin: whose it is.
    """

    name: str
    help: str
    run: Slash
    values: tuple[str, ...] = ()
    plugin: str = ""

    async def call(self, agent: Agent, text: str) -> str:
        """Run it; what to tell the person, empty for nothing.

        Raises:
            DshError: what it raised itself.
            PluginError: it raised something else, or returned what is no text.
        """
        whose = f"/{self.name} of the plugin {self.plugin}"
        try:
            told = self.run(agent, text)
            said: object = await told if isawaitable(told) else told
        except DshError:
            raise
        except Exception as error:
            raise PluginError(f"{whose}: {type(error).__name__}: {error}") from error
        if said is None:
            return ""
        if not isinstance(said, str):
            raise PluginError(f"{whose}: {_other(said)} is nothing to tell a person: return a str, or None")
        return said


def _other(value: object) -> str:
    return f"the {type(value).__name__} {value!r:.80}"


class Commands(Collector[Command | SlashCommand]):
    """The collector of ``dsh_add_commands``."""

    def add(self, name: str, help: str, run: Run, configure: Configure | None = None) -> None:
        """Offer ``dsh name``.

        Raises:
            PluginError: that cannot be a name, or dsh itself has such a command.
        """
        self._check(name, "")
        if name in OWN:
            raise PluginError(f"the plugin {self.plugin} cannot bring a command {name}: it is one of dsh's own")
        self.collect(Command(name, help, run, configure, self.plugin))

    def add_slash(self, name: str, help: str, run: Slash, values: Iterable[str] = ()) -> None:
        """Offer ``/name`` in conversations.

        Raises:
            PluginError: that cannot be a name.
        """
        self._check(name, "/")
        self.collect(SlashCommand(name, help, run, tuple(values), self.plugin))

    def _check(self, name: object, sign: str) -> None:
        if not isinstance(name, str) or not _NAME.match(name):
            raise PluginError(
                f"the plugin {self.plugin} cannot bring a command {sign}{name}: "
                "the name has to be a lower-case letter, then such letters, digits, - and _"
            )

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
