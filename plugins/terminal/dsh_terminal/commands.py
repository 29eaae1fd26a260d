"""The commands of a conversation, ``/name text``: which there are, what may stand behind them, and running one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dsh import PluginError
from dsh.commands import Commands, SlashCommand

from .actions import OWN, Slash, rewind
from .custom import Custom, fill, find

if TYPE_CHECKING:
    from dsh.conversation import Conversation

    from .talk import Talk

__all__ = ["KEYS", "Book", "Proposal"]

KEYS = """\
Enter          sends; while a turn runs, into that turn
Tab            while a turn runs: keeps it for the next one; otherwise completes
Alt-Enter      begins a line, and so does Ctrl-J
Esc, Ctrl-C    stops the turn, and keeps what you have typed; Ctrl-C twice, or Ctrl-D, leaves
Ctrl-O         shows the last result whole, once more the one before it
Ctrl-T         shows or hides thoughts
Up, Ctrl-R     what you entered before in this folder, and searching it
Ctrl-Z         your shell; fg comes back
@path          attaches a file; !command runs a command of your own, and /tell shows it to the model"""
PLAIN_KEYS = """\
Enter sends; while a turn runs, into that turn. >>text keeps it for the next one.
A \\ at the end of a line goes on in the next line.
/cancel or Ctrl-C stops the turn; Ctrl-C twice, Ctrl-D or /exit leaves.
@path attaches a file; !command runs a command of your own, and /tell shows it to the model."""


OPEN = ("permissions", "rewind")
"""Commands of dsh's own whose work a plugin does, if one is there."""


@frozen
class Proposal:
    """What may stand somewhere, and what it is."""

    text: str
    meaning: str = ""


class Book:
    """All commands of a conversation: dsh's own, those of other plugins, and those that people write as files.

    Attributes:
        theirs: those of other plugins, by name.
        problems: what is wrong with files, to be told once.

    Raises:
        PluginError: a plugin brings a command that dsh itself has, or two bring the same one.
    """

    def __init__(self, conversation: Conversation) -> None:
        commands = Commands()
        conversation.harness.hook.dsh_add_commands(commands=commands)
        self.theirs: dict[str, SlashCommand] = commands.slash()
        self._commands = dict(OWN)
        for name, command in self.theirs.items():
            if name in OWN and name not in OPEN:
                raise PluginError(f"the plugin {command.plugin} cannot bring a command /{name}: it is one of dsh's own")
            self._commands[name] = Slash(command.help, _theirs(command), command.values)
        back = self.theirs.get("rewind")
        self._commands["rewind"] = Slash(OWN["rewind"].help, _rewinds(back), OWN["rewind"].values)
        self._folders = conversation.cwd, conversation.harness.home
        self._custom: dict[str, Custom] = {}
        self._broken: dict[str, str] = {}
        self.problems: list[str] = []
        self.read()

    def read(self) -> None:
        """Look for commands in files."""
        found, self._broken, problems = find(*self._folders, Path.home())
        hidden = sorted(found.keys() & self._commands.keys())
        self._custom = {name: custom for name, custom in found.items() if name not in self._commands}
        self.problems = [*problems, *(f"{found[name].path}: there is a command /{name} already" for name in hidden)]

    def names(self) -> list[Proposal]:
        """All commands; called in another thread."""
        named = [Proposal(name, command.help) for name, command in self._commands.items()]
        custom = [Proposal(custom.name, custom.help) for custom in self._custom.values()]
        return sorted([*named, *custom], key=lambda proposal: proposal.text)

    def values(self, talk: Talk, name: str) -> Sequence[Proposal]:
        """What may stand behind a command; called in another thread, so it only looks at what is there."""
        if name == "help":
            return self.names()
        command = self._commands.get(name)
        if command is None:
            return ()
        values = command.values(talk) if callable(command.values) else command.values
        return _pairs(values)

    def help(self, talk: Talk, name: str = "") -> str:
        """What can be entered."""
        self.read()
        name = name.removeprefix("/")
        if name in self._commands:
            return f"/{name} {self._commands[name].help}"
        if name in self._custom:
            custom = self._custom[name]
            return f"/{name} {custom.help} ({custom.path})\n\n{custom.text.strip()}"
        if name:
            return self._unknown(name)
        lines = [f"/{name:<12} {command.help}" for name, command in sorted(self._commands.items())]
        lines += [f"/{custom.name:<12} {custom.help} ({custom.path})" for custom in self._custom.values()]
        return "\n".join([*lines, "", PLAIN_KEYS if talk.screen.look.plain else KEYS])

    async def run(self, talk: Talk, text: str) -> str:
        """Run what stands behind the slash; what to tell the person.

        Raises:
            DshError: it cannot be.
        """
        name, _, rest = re.sub(r"\s", " ", text, count=1).partition(" ")
        name, rest = name.lower(), rest.strip()
        if name not in self._commands and name not in self._custom:
            self.read()
        if name in self._broken:
            return self._broken[name]
        if name in self._custom:
            prompt = fill(self._custom[name], rest)
            if not prompt.strip():
                return f"{self._custom[name].path} is empty"
            talk.say(prompt)
            return ""
        command = self._commands.get(name)
        if command is not None:
            if rest and name in OWN and not command.help.startswith("["):
                return f"/{name} takes nothing behind it; it was not run"
            return await command.run(talk, rest)
        close = self._beginning(name)
        return await self.run(talk, f"{close[0]} {rest}") if len(close) == 1 else self._unknown(name)

    def _beginning(self, name: str) -> list[str]:
        known = [*self._commands, *self._custom, *self._broken]
        return sorted(other for other in known if other.startswith(name)) if name else []

    def _unknown(self, name: str) -> str:
        import difflib

        close = self._beginning(name) or difflib.get_close_matches(name, [*self._commands, *self._custom], 3, 0.6)
        hint = f"; did you mean /{', /'.join(close)}?" if close else "; /help lists them"
        return f"there is no command /{name}{hint}"


def _pairs(values: Sequence[str | tuple[str, str]]) -> list[Proposal]:
    return [Proposal(value) if isinstance(value, str) else Proposal(*value) for value in values]


def _theirs(command: SlashCommand) -> Callable[[Talk, str], Awaitable[str]]:
    async def call(talk: Talk, rest: str) -> str:
        return await command.call(talk.agent, rest)

    return call


def _rewinds(back: SlashCommand | None) -> Callable[[Talk, str], Awaitable[str]]:
    async def call(talk: Talk, rest: str) -> str:
        return await rewind(talk, rest, back)

    return call
