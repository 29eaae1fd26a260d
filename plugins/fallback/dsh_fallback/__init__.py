"""Fallback models: when a model's provider cannot answer, also after retries, a turn goes on with another.

Each change is an event of the session's log, `FallbackSwitch`, which no model sees.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Agent, CallConfig, Harness
    from dsh.decisions import RequestErrorDecision
    from dsh.session.store import EventTypes

    from .chain import Chain

__all__: list[str] = []

_chains: WeakKeyDictionary[Harness, Chain] = WeakKeyDictionary()


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import FallbackSwitch

    types.add(FallbackSwitch)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[fallback]``."""
    from .chain import Chain, FallbackConfig

    config = harness.config.section("fallback", FallbackConfig)
    _chains[harness] = Chain(config.models)


@hookimpl(tryfirst=True)
async def agent_factory(harness: Harness) -> None:
    """Look at the models that were named: here, there are providers and no agents yet."""
    chain = _chains[harness]
    if chain.named:
        chain.settle(harness.llm.adapters, harness.warn)


@hookimpl(wrapper=True)
def agent_request(agent: Agent, turn: int) -> Generator[None, CallConfig, CallConfig]:
    """Put the model in that the turn goes on with, or the first one again when another turn has begun."""
    config = yield
    return _chains[agent.harness].chosen(agent, turn, config)


@hookimpl(wrapper=True, tryfirst=True)
def agent_request_error(
    agent: Agent, turn: int, step: int, error: Exception
) -> Generator[None, RequestErrorDecision, RequestErrorDecision]:
    """Go on with the next model where everybody else has given up."""
    decision = yield
    return _chains[agent.harness].decide(agent, turn, step, error, decision)
