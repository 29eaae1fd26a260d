"""The table ``[compaction]``."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

__all__ = ["CompactionConfig"]


def _from(least: float, most: float | None = None) -> Any:
    """A validator: a number from `least`, up to `most` if there is one."""

    def check(instance: object, attribute: Attribute[Any], value: float | None) -> None:
        if value is None or (least <= value and (most is None or value <= most)):
            return
        wanted = f"from {least:g}" if most is None else f"from {least:g} to {most:g}"
        raise ValueError(f"{attribute.name} must be {wanted}, got {value:g}")

    return check


@frozen
class CompactionConfig:
    """How conversations are kept within the window.

    Attributes:
        enabled: False never compacts unasked, also when a provider refuses a request for its length.
        context_window: tokens that the model takes; by default what is known of it, and if nothing is known
            only a provider's refusal says that a request is too long.
        threshold: the part of the window from which on something is done.
        retain: the part of the window that is kept as it is, the newest messages.
        model: who writes summaries, as ``provider/model``; empty for the conversation's own model, whose cache
            holds most of the request already.
        max_tokens: of a summary.
        tries: how often one summary is asked for, where an answer cannot be used.
        overflows: how often in a row a request may be refused for its length until the turn fails.
        prune: shorten old tool results first.
        prune_over, prune_head, prune_tail: results longer than this are shortened, and the characters that
            stay at their beginning and end.
        pin: characters of one message of a person that stay word for word beside the summary.
        keep_context_of: plugins whose context messages stay beside the summary.
        chars_per_token: for reckoning; a character outside of ASCII counts as its bytes in UTF-8.
    """

    enabled: bool = True
    context_window: int | None = field(default=None, validator=_from(1))
    threshold: float = field(default=0.8, validator=_from(0.05, 1))
    retain: float = field(default=0.16, validator=_from(0, 0.9))
    model: str = ""
    max_tokens: int = field(default=8192, validator=_from(1))
    tries: int = field(default=2, validator=_from(1, 10))
    overflows: int = field(default=2, validator=_from(1, 10))
    prune: bool = True
    prune_over: int = field(default=8192, validator=_from(200))
    prune_head: int = field(default=4096, validator=_from(0))
    prune_tail: int = field(default=1024, validator=_from(0))
    pin: int = field(default=4000, validator=_from(100))
    keep_context_of: tuple[str, ...] = ("instructions",)
    chars_per_token: float = field(default=4.0, validator=_from(0.25, 100))

    def __attrs_post_init__(self) -> None:
        if self.prune_head + self.prune_tail + 200 > self.prune_over:
            raise ValueError("prune_over must be at least 200 more than prune_head and prune_tail together")
