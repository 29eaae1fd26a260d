"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from attrs import Attribute, field, frozen

from dsh import LlmError

__all__ = ["Decision", "Policy", "Refused", "RetryConfig", "Wait"]

VOID = frozenset({"TOOL_USE_FAILED"})
"""Codes by which a service says that it threw away the answer it had begun."""


def _from_one(instance: object, attribute: Attribute[int], value: int) -> None:
    if value < 1:
        raise ValueError(f"{attribute.name} must be 1 or more, got {value}")


def _not_below_base(instance: RetryConfig, attribute: Attribute[int], value: int) -> None:
    if value < instance.base_ms:
        raise ValueError(f"{attribute.name} must not be less than base_ms ({instance.base_ms}), got {value}")


def _not_negative(instance: object, attribute: Attribute[int], value: int) -> None:
    if value < 0:
        raise ValueError(f"{attribute.name} must not be less than 0, got {value}")


@frozen
class RetryConfig:
    """The table ``[retry]``.

    Attributes:
        tries: how often a request is sent at most; 1 is never again.
        base_ms: the first wait, in milliseconds; each further one is twice as long.
        max_ms: where the waits stop growing.
        total_ms: all waits of one request together, those that a service asks for included.
    """

    tries: int = field(default=5, validator=_from_one)
    base_ms: int = field(default=500, validator=_from_one)
    max_ms: int = field(default=30_000, validator=_not_below_base)
    total_ms: int = field(default=300_000, validator=_not_negative)


@frozen
class Wait:
    """Send the request again, so many seconds from now."""

    seconds: float
    code: str


@frozen
class Refused:
    """Another try might have helped, but is not made; `why` is for people, empty where there is nothing to say."""

    why: str


Decision: TypeAlias = Wait | Refused | None
"""None: another try would not help."""


@frozen
class Policy:
    """The rules of one harness."""

    config: RetryConfig

    def decide(
        self, error: Exception, attempt: int, *, waited: float, seen: Callable[[], bool], rng: random.Random
    ) -> Decision:
        """What to do about `error`.

        Args:
            attempt: how often the request was sent, from 1.
            waited: seconds of waiting that it has cost so far.
            seen: whether a person saw a part of the failed answer; asked only where it matters.
        """
        config = self.config
        if not isinstance(error, LlmError) or not error.retryable:
            return None
        if attempt >= config.tries:
            return Refused(f"gave up after {attempt} tries" if attempt > 1 else "")
        if error.code not in VOID and seen():
            return Refused("not tried again, since a part of the answer was shown")
        asked = error.retry_after
        seconds = asked if asked is not None and asked > 0 else self.backoff(attempt, rng)
        if waited + seconds > config.total_ms / 1000:
            demand = f"the service asks to wait {seconds:.0f} s" if seconds == asked else f"waited {waited:.0f} s"
            return Refused(f"gave up: {demand}, and retry.total_ms allows {config.total_ms / 1000:g} s")
        return Wait(seconds, error.code)

    def backoff(self, attempt: int, rng: random.Random) -> float:
        """Seconds to wait where the service names none: between half of the full wait and all of it."""
        config = self.config
        # 2.0**60 waits are longer than any limit, and no attempt makes the power overflow.
        full = min(config.max_ms, config.base_ms * 2.0 ** min(attempt - 1, 60))
        return full * rng.uniform(0.5, 1.0) / 1000
