"""The event of a changed prefix."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

__all__ = ["PrefixChanged"]


@frozen
class PrefixChanged:
    """A request does not begin with what the request before it sent: a provider's cache is lost from there on.

    Attributes:
        turn, step: of the request.
        segment: ``model``, ``system``, ``tools``, ``prefix`` or ``message``.
        name: which one of its kind: the section, the tool, or the number of the message from 0.
        plugin: who contributed it, or changed it; several are joined by commas, empty where nobody can be named.
        cause: ``added``, ``removed``, ``changed``, or ``replaced`` where an event of the log took older ones' place.
        at: the first character that differs, from 0, in the segment's canonical text.
        before, after: the canonical text around it, shortened.
        before_hash, after_hash: of the whole segment, SHA-256 in hex; empty where there is none.
    """

    type: ClassVar[str] = "prefix/changed"
    turn: int
    step: int
    segment: str
    name: str
    plugin: str
    cause: str
    at: int
    before: str
    after: str
    before_hash: str = ""
    after_hash: str = ""

    @property
    def notice(self) -> str:
        """The line for a person."""
        what = self.segment if self.segment == "model" else f"{self.segment} {self.name}"
        who = f" by {self.plugin}" if self.plugin else ""
        return (
            f"[prefix] the request's beginning changed: {what} was {self.cause}{who}, "
            f"at character {self.at}: {self.before!r} is {self.after!r} now"
        )
