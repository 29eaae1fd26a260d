"""Options of programs, read as ``getopt`` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from .words import Word

__all__ = ["ODD", "Args", "Dynamic", "options_of"]

Args = Sequence[Word]
ODD = ("?", "")
"""Stands for an option that is not known, so that what follows may be its value, or may be what is run."""


class Dynamic(Exception):
    """An argument that decides what runs is only known in a run."""


def options_of(
    args: Args, short: str, long: Sequence[str] = (), attached: str = "", flags: str = "", names: Sequence[str] = ()
) -> tuple[int, list[tuple[str, str]]]:
    """Where the options end, and which there are, with their values.

    Args:
        short: letters of the options that take a value.
        long: names of the long ones that take one.
        attached: letters whose value, if any, is in the same word.
        flags: letters of the options without a value.
        names: names of the long ones without one, or with one in the same word alone.

    Raises:
        Dynamic: only a run knows what they are.
    """
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(args):
        word = args[at]
        if not word.static or word.glob:
            raise Dynamic
        text = word.text
        if text == "--":
            return at + 1, found
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            name = _full(name, (*long, *names))
            if not equals and name in long:
                value = _value(args, at)
                at += 1
            found.append((name, value) if name else ODD)
            continue
        for place, letter in enumerate(text[1:], 2):
            if letter in attached:
                found.append((letter, text[place:]))
                break
            if letter in short:
                value = text[place:]
                if not value:
                    value = _value(args, at)
                    at += 1
                found.append((letter, value))
                break
            found.append((letter, "") if letter in flags else ODD)
    return at, found


def _full(name: str, known: Sequence[str]) -> str:
    """The name of a long option that may be shortened; empty for one that is not known."""
    if name in known:
        return name
    meant = [other for other in known if other.startswith(name)]
    return meant[0] if len(meant) == 1 else ""


def _value(args: Args, at: int) -> str:
    if at >= len(args) or not args[at].static:
        raise Dynamic
    return args[at].text
