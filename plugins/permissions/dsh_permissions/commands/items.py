"""What a command line consists of."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from .words import Word

__all__ = ["Assignment", "Command", "Item", "Opaque", "Redirect", "Script", "shown"]


@frozen
class Assignment:
    """``NAME=value``; None where the value is a list, or is known in a run alone."""

    name: str
    value: str | None


@frozen
class Command:
    """A simple command.

    Attributes:
        words: its name and arguments; empty for assignments alone.
        text: how it is written.
        assignments: those that stand before it.
        exported: the assignments reach programs, as those before a command do.
    """

    words: tuple[Word, ...]
    text: str
    assignments: tuple[Assignment, ...] = ()
    exported: bool = False


@frozen
class Redirect:
    """A file that the shell opens: to ``read`` or ``write``."""

    access: Literal["read", "write"]
    target: Word
    text: str


@frozen
class Opaque:
    """Something that the text alone does not explain."""

    text: str
    reason: str


Item: TypeAlias = "Command | Redirect | Opaque"


@frozen
class Script:
    """What a command line consists of, in the order in which it is written.

    Attributes:
        functions: the names of functions that it defines; what they do is among the items.
        repeats: it has functions or loops, so that an item may run after one that stands behind it.
    """

    items: tuple[Item, ...]
    functions: frozenset[str] = frozenset()
    repeats: bool = False


def shown(text: str) -> str:
    """`text` on one line, not too long."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:180]} ..."
