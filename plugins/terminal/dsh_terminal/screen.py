"""What a conversation is held on: a terminal with a live line of input, or anything that takes and gives lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from attrs import frozen

from .paint import Look

__all__ = ["Cancel", "Input", "Leave", "Line", "Live", "Screen", "Suspend", "Toggle"]


@frozen
class Line:
    """The person entered something; `queued` means for the next turn, not for the one that runs."""

    text: str
    queued: bool = False


@frozen
class Cancel:
    """The person wants what runs to stop."""


@frozen
class Leave:
    """The person wants to leave, or is gone."""

    reason: str = ""


@frozen
class Toggle:
    """The person wants to see more, or less: of ``reasoning`` or of ``output``."""

    what: str


@frozen
class Suspend:
    """The person wants their shell for a while, as with Ctrl-Z."""


Input: TypeAlias = Line | Cancel | Leave | Toggle | Suspend
Live: TypeAlias = Sequence[tuple[str, str]]
"""What is not finished: pairs of ``thought`` or ``call`` and a text, or of ``drawn`` and one as a painter drew it."""


class Screen(Protocol):
    """A place to hold a conversation on.  It is called in Trio's thread; what waits is `run`, `borrow` and `choose`.

    Attributes:
        running: whether a turn goes on; set by whoever holds the conversation.
        interactive: whether a person sits there, who can be asked.
        unsent: what stood in the line when it was left; empty before.
    """

    look: Look
    running: bool
    interactive: bool
    unsent: str

    @property
    def columns(self) -> int:
        """Cells in a line, now."""
        ...

    def show(self, text: str) -> None:
        """Show a finished text for good."""
        ...

    def live(self, parts: Live) -> None:
        """Show what is not finished yet, in place of what was shown so before."""
        ...

    def status(self, text: str) -> None:
        """Say how things stand, in place of what was said before."""
        ...

    def bell(self, words: str = "") -> None:
        """Call the person, who may look elsewhere; with words, as a notification, too."""
        ...

    def put_back(self, text: str) -> None:
        """Something that was entered did not count: let the person enter it again."""
        ...

    def interrupt(self) -> None:
        """As if Ctrl-C was pressed, for signals."""
        ...

    def borrow(self, *, patient: bool = False) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to somebody else for a while; what was typed is there again afterwards.

        Args:
            patient: wait until the person does not type, as their next key would be taken for an answer.
        """
        ...

    async def choose(self, question: str, choices: Sequence[str]) -> int | None:
        """Let the person choose one; None if they want none."""
        ...

    async def run(self, told: Callable[[Input], None], started: Callable[[], None]) -> None:
        """Take what the person enters until `leave` is called or the person is gone.

        Args:
            told: called with each input.
            started: called once, when input is taken.

        Cancelling leaves the terminal as it was found.
        """
        ...

    def leave(self) -> None:
        """Take no more input; `run` returns when all that was shown is out."""
        ...
