"""What a run has taken so far, and what it may take."""

from __future__ import annotations

from typing import NoReturn

import trio
from attrs import define, frozen

from dsh import Agent, ConfigError, LimitError, StashKey, TokenUsage
from dsh.durations import spoken
from dsh.llm.chunks import ChunkStream
from dsh.models import Models

from .events import BudgetReached
from .prices import cost_of, missing, tokens_of
from .settings import BudgetConfig
from .watch import Watched

__all__ = ["Account", "Budget", "account_of"]


@define
class Account:
    """What one root agent and its descendants took.

    Attributes:
        requests: steps that asked a model.
        tokens: in and out; counted if tokens or money are limited, and so is `usd`.
        unmeasured: a model that answered without saying how many tokens that took.
        until: when the time is up, by Trio's clock; None before the first turn, or without a limit.
    """

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0
    unmeasured: str | None = None
    until: float | None = None


_ACCOUNT: StashKey[Account] = StashKey("budget: account")


def _root(agent: Agent) -> Agent:
    while agent.parent is not None:
        agent = agent.parent
    return agent


def account_of(agent: Agent) -> Account:
    """The account of the run that `agent` belongs to."""
    stash = _root(agent).stash
    if _ACCOUNT not in stash:
        stash[_ACCOUNT] = Account()
    return stash[_ACCOUNT]


@frozen(eq=False)
class Budget:
    """The limits of a harness."""

    config: BudgetConfig
    models: Models

    @property
    def measures(self) -> bool:
        """Whether tokens have to be counted."""
        return self.config.max_tokens is not None or self.config.max_usd is not None

    def admit(self, agent: Agent) -> None:
        """Look at an agent before it starts.

        Raises:
            ConfigError: money is limited, and the price of its model is not known.
        """
        if self.config.max_usd is None:
            return
        header = agent.session.request_header()
        model = agent.options.model or (header.config.model if header is not None else "")
        if model and self.models.facts(model).price is None:
            raise ConfigError(f"budget.max_usd cannot be kept: {missing(model)}", code="PRICE_UNKNOWN")

    def start_clock(self, root: Agent) -> None:
        """Let the time of a run begin, if it is limited and has not begun."""
        account = account_of(root)
        if self.config.timeout is not None and account.until is None:
            account.until = trio.current_time() + self.config.timeout
            root.start_soon(self._wait, root, account.until, name="budget.timeout")

    def check_step(self, agent: Agent) -> None:
        """Check the limits before a step, and count it.

        Raises:
            LimitError: one is reached.
        """
        account, config = account_of(agent), self.config
        self._check_time(agent, account)
        if config.max_requests is not None and account.requests >= config.max_requests:
            times = "once" if config.max_requests == 1 else f"{config.max_requests} times"
            self._refuse(agent, "LIMIT_REQUESTS", f"the model was asked {times}, which is the limit of the run")
        self._check_spent(agent, account)
        account.requests += 1

    def check_request(self, agent: Agent, model: str) -> None:
        """Check the limits before any request.

        Raises:
            LimitError: one is reached, or money is limited and the price of `model` is not known.
        """
        account = account_of(agent)
        self._check_time(agent, account)
        self._check_spent(agent, account)
        if self.config.max_usd is not None and self.models.facts(model).price is None:
            self._refuse(agent, "LIMIT_PRICE_UNKNOWN", missing(model))

    def watched(self, agent: Agent, model: str, stream: ChunkStream) -> ChunkStream:
        """`stream`, whose tokens are counted as they are told."""
        account = account_of(agent)

        def used(usage: TokenUsage) -> None:
            account.tokens += tokens_of(usage)
            if self.config.max_usd is not None:
                account.usd += cost_of(self.models, model, usage) or 0.0

        def untold() -> None:
            account.unmeasured = model

        return Watched(stream, used, untold)

    def _check_time(self, agent: Agent, account: Account) -> None:
        if account.until is not None and trio.current_time() >= account.until:
            self._refuse(agent, "LIMIT_TIMEOUT", self._too_long())

    def _check_spent(self, agent: Agent, account: Account) -> None:
        config = self.config
        if self.measures and account.unmeasured is not None:
            why = f"{account.unmeasured} does not say how many tokens it took, so the limit of the run cannot be kept"
            self._refuse(agent, "LIMIT_UNMEASURED", why)
        if config.max_tokens is not None and account.tokens >= config.max_tokens:
            took = f"the run took {account.tokens} tokens; its limit is {config.max_tokens}"
            self._refuse(agent, "LIMIT_TOKENS", took)
        if config.max_usd is not None and account.usd >= config.max_usd:
            cost = f"the run cost {account.usd:.4g} dollars; its limit is {config.max_usd:g}"
            self._refuse(agent, "LIMIT_COST", cost)

    def _too_long(self) -> str:
        return f"the run took longer than {spoken(self.config.timeout)}, which is its limit"

    def _refuse(self, agent: Agent, code: str, message: str) -> NoReturn:
        self._log(agent, code, message)
        raise LimitError(message, code=code)

    def _log(self, agent: Agent, code: str, message: str) -> None:
        turn = agent.session.open_turn
        if turn is None:
            return
        account = account_of(agent)
        usd = None if self.config.max_usd is None else account.usd
        agent.session.append(BudgetReached(turn, code, message, account.requests, account.tokens, usd))

    async def _wait(self, root: Agent, until: float) -> None:
        """Cancel what runs when the time is up.  What begins later is refused by `check_step`."""
        await trio.sleep_until(until)
        for agent in root.harness.agents.list():
            if _root(agent) is root and agent.status == "running":
                self._log(agent, "LIMIT_TIMEOUT", self._too_long())
                agent.cancel(self._too_long())
