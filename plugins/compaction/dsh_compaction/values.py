"""What the hooks of this plugin are asked with, and what they answer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from dsh import DshError, Message, Request, TokenUsage

__all__ = ["CompactionError", "Cut", "History", "Node", "Reason", "Shadowed", "Summary"]

Reason: TypeAlias = Literal["pressure", "overflow", "manual"]


class CompactionError(DshError):
    """The conversation could not be made shorter; the message says why, and what to do."""

    default_code = "COMPACTION"


@frozen
class Node:
    """One event that the model sees.

    Attributes:
        seq: its number in the log.
        message: as the model sees it; None for an answer that said nothing.
        tokens: what it weighs, as reckoned.
        cuttable: no call that stands before it is answered at it or behind it, so that it may be the first one kept.
    """

    seq: int
    message: Message | None
    tokens: int
    cuttable: bool


@frozen
class History:
    """The conversation, as it is to be compacted.

    Attributes:
        nodes: all of it, in the model's order, which after a replacement is not that of their numbers.
        tokens: what the next request weighs, system prompt and tools included.
        window, threshold: tokens that the model takes, and from which on something is done; None is unknown.
        retain: tokens that had better stay as they are at the end.
        reason: ``pressure``: it is near the limit; ``overflow``: a provider refused a request; ``manual``: a person
            asked.
    """

    nodes: tuple[Node, ...]
    tokens: int
    window: int | None
    threshold: int | None
    retain: int
    reason: Reason


@frozen
class Cut:
    """Where the conversation is cut.

    Attributes:
        before: the number of the first event that is kept; None: nothing is to be summarised.
    """

    before: int | None


@frozen
class Shadowed:
    """What is about to be replaced.

    Attributes:
        request: the conversation up to the cut, with the question for a summary behind it: what the default sends.
        messages: those that are replaced.
        tokens: what they weigh, as reckoned.
        pinned: what stays word for word beside the summary, and need not be in it.
        window: tokens that the model takes, if that is known.
        reason: as in `History`.
        more: what a person wants kept, in their words; mostly empty.
        scale: how many tokens the provider counts for one that is reckoned.
    """

    request: Request
    messages: tuple[Message, ...]
    tokens: int
    pinned: str
    window: int | None
    reason: Reason
    more: str = ""
    scale: float = 1.0


@frozen
class Summary:
    """A summary.

    Attributes:
        text: plain text, for the model to go on from.
        model: who wrote it; empty for the plugin that answers.
        usage, instruction, level, room: as in the event ``compact/summary``.
    """

    text: str
    model: str = ""
    usage: TokenUsage | None = None
    max_tokens: int | None = None
    instruction: str | None = None
    level: int | None = None
    room: int | None = None
