"""Views: how a user interface may show a call and its result, whoever draws it."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from attrs import frozen

from ..jsonvalue import Json
from ..messages import Block

__all__ = [
    "CallView",
    "Diff",
    "DiffCall",
    "DiffResult",
    "GenericCall",
    "GenericResult",
    "Kind",
    "Location",
    "ResultView",
    "TerminalCall",
    "TerminalResult",
]

Kind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "fetch", "other"]


@frozen
class Location:
    """A place in a file; `line` counts from 1."""

    path: str
    line: int | None = None


@frozen
class Diff:
    """A change of one file; `old_text` is None where there was nothing."""

    path: str
    old_text: str | None
    new_text: str


@frozen
class GenericCall:
    card: ClassVar[str] = "generic"
    title: str
    kind: Kind | None = None
    raw_input: Json = None
    content: tuple[Block, ...] | None = None
    locations: tuple[Location, ...] | None = None


@frozen
class TerminalCall:
    card: ClassVar[str] = "terminal"
    title: str
    description: str | None = None
    cwd: str | None = None


@frozen
class DiffCall:
    card: ClassVar[str] = "diff"
    title: str
    diffs: tuple[Diff, ...] = ()
    locations: tuple[Location, ...] | None = None


@frozen
class GenericResult:
    card: ClassVar[str] = "generic"
    title: str | None = None
    content: tuple[Block, ...] | None = None


@frozen
class TerminalResult:
    card: ClassVar[str] = "terminal"
    title: str | None = None
    output: str | None = None
    exit_code: int | None = None
    signal: str | None = None


@frozen
class DiffResult:
    card: ClassVar[str] = "diff"
    title: str | None = None
    diffs: tuple[Diff, ...] = ()


CallView: TypeAlias = GenericCall | TerminalCall | DiffCall
ResultView: TypeAlias = GenericResult | TerminalResult | DiffResult
