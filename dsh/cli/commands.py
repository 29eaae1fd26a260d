"""What plugins add to the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from ..hooks.collector import Collector

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ..config import Config

__all__ = ["Command", "Commands"]

Configure: TypeAlias = "Callable[[ArgumentParser], None]"
Run: TypeAlias = "Callable[[Namespace, Config], int]"


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


class Commands(Collector[Command]):
    """The collector of ``dsh_add_commands``."""

    def add(self, name: str, help: str, run: Run, configure: Configure | None = None) -> None:
        """Offer ``dsh name``."""
        self.collect(Command(name, help, run, configure))
