"""The events of a compaction; no model sees them.

In a log stand ``compact/start``, ``compact/summary``, the summary itself as a ``user/message`` that replaces a
part of the surface, ``compact/end``; of one that failed, ``compact/start`` and ``compact/end`` with the error.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from dsh.jsonvalue import Json
from dsh.messages import Block, TokenUsage

__all__ = ["CompactEnd", "CompactPrune", "CompactStart", "CompactSummary", "Range"]


@frozen
class Range:
    """The first and the last of the events that were replaced, by their place on the surface."""

    start: int
    end: int


@frozen
class CompactStart:
    """A summary is about to be made, or to take its place.

    Attributes:
        asked: a person asked for it; it is written already.
    """

    type: ClassVar[str] = "compact/start"
    turn: int
    asked: bool = False

    @property
    def notice(self) -> str:
        """The line for a person, who waits."""
        if self.asked:
            return "[compaction] as you asked, a summary takes the place of the conversation so far"
        return "[compaction] the conversation is getting long; it is being summarised"


@frozen
class CompactSummary:
    """The summary, as it was written.

    Attributes:
        shadowed_seqs: the events that it replaces, in their order on the surface.
        shadowed_token_count: what they weigh, as reckoned.
        model: who wrote it; a plugin's name, if none was asked.
        max_tokens: that it was asked with.
        usage: what the model's answers took, those included that could not be used.
        instruction: what the model was asked with, behind the conversation; None if none was asked.
        level: how much the conversation was reduced for the request: 0 not at all, 1 long tool results and
            arguments were shortened, from 2 on the oldest messages were left out as well.
        room: tokens that the reduced conversation was to have, from level 2 on.
    """

    type: ClassVar[str] = "compact/summary"
    summary: tuple[Block, ...]
    shadowed_range: Range
    shadowed_seqs: tuple[int, ...]
    shadowed_token_count: int
    model: str
    max_tokens: int | None = None
    usage: TokenUsage | None = None
    instruction: str | None = None
    level: int | None = None
    room: int | None = None


@frozen
class CompactEnd:
    """It is done, or failed and changed nothing.

    Attributes:
        error: what went wrong, in words; another program may have written something else.
        usage: what the model's answers took, where none of them could be used.
        model: who was asked then.
    """

    type: ClassVar[str] = "compact/end"
    turn: int
    error: Json = None
    usage: TokenUsage | None = None
    model: str | None = None

    @property
    def notice(self) -> str:
        """The line for a person."""
        return "[compaction] done" if self.error is None else f"[compaction] not done: {self.error}"


@frozen
class CompactPrune:
    """Long results were shortened; the events that took their places stand before this one.

    Attributes:
        seqs: the results that were long.
        saved_tokens: what that saves, as reckoned.
    """

    type: ClassVar[str] = "compact/prune"
    turn: int
    seqs: tuple[int, ...]
    saved_tokens: int

    @property
    def notice(self) -> str:
        """The line for a person."""
        many = f"{len(self.seqs)} long result{'' if len(self.seqs) == 1 else 's'}"
        return f"[compaction] shortened {many} for the model, about {self.saved_tokens} tokens"
