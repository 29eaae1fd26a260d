"""Retries: a request that a provider could not answer now is sent again, later.

The waits are events of the session's log, `RetryWait`, which no model sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import StashKey, hookimpl

if TYPE_CHECKING:
    import random

    from dsh import Agent, Harness, Retry
    from dsh.session.store import EventTypes

    from .policy import Policy, RetryConfig

__all__ = ["RANDOM"]

RANDOM: StashKey[random.Random] = StashKey("retry: randomness")
"""Put a seeded source into an agent's stash, and its waits repeat."""

_WAITED: StashKey[float] = StashKey("retry: seconds waited for this request")
_policies: WeakKeyDictionary[Harness, Policy] = WeakKeyDictionary()


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import RetryWait

    types.add(RetryWait)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[retry]``."""
    from .policy import Policy, RetryConfig

    config: RetryConfig = harness.config.section("retry", RetryConfig)
    _policies[harness] = Policy(config)


@hookimpl(trylast=True)
def agent_request_error(agent: Agent, turn: int, step: int, error: Exception, attempt: int) -> Retry | None:
    """Wait and try again, where that may help; else leave the decision to others, and say why in a note."""
    import random

    from dsh import Retry
    from dsh.session.shown import text_shown

    from .events import RetryWait
    from .policy import Refused

    policy = _policies[agent.harness]
    waited = agent.stash.get(_WAITED, 0.0) if attempt > 1 else 0.0
    decision = policy.decide(
        error,
        attempt,
        waited=waited,
        seen=lambda: text_shown(agent.session.events),
        rng=agent.stash.setdefault(RANDOM, random.Random()),
    )
    if decision is None:
        return None
    if isinstance(decision, Refused):
        if decision.why:
            error.add_note(decision.why)
        return None
    agent.stash[_WAITED] = waited + decision.seconds
    agent.session.append(
        RetryWait(
            turn,
            step,
            attempt,
            round(decision.seconds * 1000),
            decision.code,
            agent.harness.secrets.mask(str(error)),
            policy.config.tries,
        )
    )
    return Retry(decision.seconds)
