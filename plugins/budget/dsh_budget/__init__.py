"""Limits of a run - requests, tokens, money, time - over an agent and all that it starts; and ``dsh stats``.

A limit is checked before each request.  Where one is reached the turn ends with a `dsh.LimitError`; when
the time is up, what runs is cancelled.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, Request
    from dsh.agents import AgentStatus
    from dsh.commands import Commands
    from dsh.llm.chunks import ChunkStream
    from dsh.session.store import EventTypes

    from .account import Budget

_budgets: WeakKeyDictionary[Harness, Budget] = WeakKeyDictionary()


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``dsh stats``."""
    from .stats import configure, run

    commands.add("stats", "tokens and cost of stored sessions", run, configure)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import BudgetReached

    types.add(BudgetReached)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[budget]``."""
    from .account import Budget
    from .settings import BudgetConfig

    _budgets[harness] = Budget(harness.config.section("budget", BudgetConfig), harness.models)


@hookimpl(tryfirst=True)
async def agent_factory(harness: Harness) -> None:
    """Have the prices read, if money is limited: here is the last chance to wait before there are agents."""
    if _budgets[harness].config.max_usd is not None:
        await harness.models.load()


@hookimpl
def agent_created(agent: Agent) -> None:
    """Refuse an agent whose model's price is not known, if money is limited."""
    _budgets[agent.harness].admit(agent)


@hookimpl
def agent_status(agent: Agent, status: AgentStatus) -> None:
    """Start the clock with an agent's first turn."""
    if status == "running" and agent.parent is None:
        _budgets[agent.harness].start_clock(agent)


@hookimpl(tryfirst=True)
async def agent_pre_step(agent: Agent) -> None:
    """Check every limit, and count the request to come."""
    _budgets[agent.harness].check_step(agent)


@hookimpl(wrapper=True, tryfirst=True)
def llm_stream(agent: Agent | None, request: Request) -> Generator[None, ChunkStream, ChunkStream]:
    """Check what has been spent, also before requests that are no step's, and count what this one takes."""
    budget = None if agent is None else _budgets[agent.harness]
    if agent is None or budget is None or not budget.measures:
        return (yield)
    budget.check_request(agent, request.model)
    return budget.watched(agent, request.model, (yield))
