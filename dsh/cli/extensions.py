"""Subcommands that plugins bring."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from ..commands import Command, Commands
from ..errors import PluginError
from .parser import Parser, common_flags
from .start import Start, loaded, settle

__all__ = ["brought", "command_line", "dispatch", "show_all"]


def dispatch(word: str, argv: Sequence[str], at: int) -> int | None:
    """Run the plugin's command `word`, which stands at index `at`; None if no plugin has one.

    Raises:
        ConfigError: a flag or a setting is wrong.
        PluginError: the command returned what is no exit code.
    """
    rest = [*argv[:at], *argv[at + 1 :]]
    start = _start(rest)
    command = brought(start).get(word)
    if command is None:
        return None
    parser = command_line(command)
    try:
        args = parser.parse_intermixed_args(rest)
    except TypeError:  # the command has commands of its own, between which nothing may stand
        args = parser.parse_args(rest)
    try:
        return command.call(args, start.config)
    except SystemExit as error:  # a command may leave as a program does
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        raise


def show_all(parser: argparse.ArgumentParser, argv: Sequence[str]) -> int:
    """Print the help, with the plugins' commands."""
    found = brought(_start([word for word in argv if word not in ("-h", "--help", "--all")]))
    lines = "\n".join(f"  {name:<10} {command.help}" for name, command in found.items())
    print(f"{parser.format_help()}\ncommands of plugins:\n{lines or '  none'}")
    return 0


def _start(argv: Sequence[str]) -> Start:
    parser = Parser("dsh", add_help=False)
    common_flags(parser)
    return settle(parser.parse_known_args(argv)[0])


def command_line(command: Command) -> Parser:
    """The parser of a command that a plugin brings."""
    # the command's own flags take the place of the common ones that have the same name
    parser = Parser(f"dsh {command.name}", description=command.help, conflict_handler="resolve")
    common_flags(parser)
    if command.configure is not None:
        command.configure(parser)
    return parser


def brought(start: Start) -> dict[str, Command]:
    """The commands that plugins bring, by name.

    Raises:
        PluginError: two plugins bring the same one.
    """
    manager = loaded(start)
    commands = Commands()
    with redirect_stdout(sys.stderr):
        manager.relay.dsh_add_commands(commands=commands)
    found: dict[str, tuple[str, Command]] = {}
    for plugin, command in commands.shell():
        if command.name in found:
            raise PluginError(f"the plugins {found[command.name][0]} and {plugin} both bring a command {command.name}")
        found[command.name] = (plugin, command)
    return {name: command for name, (_, command) in sorted(found.items())}
