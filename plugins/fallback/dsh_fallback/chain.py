"""Which model is asked when one has failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, evolve, field, frozen

from dsh import Agent, CallConfig, ConfigError, GiveUp, LlmError, NextStep, StashKey
from dsh.decisions import RequestErrorDecision
from dsh.errors import blamed_message
from dsh.llm.adapter import Adapter
from dsh.session.events import Event, StepStart, TurnStart
from dsh.session.shown import text_shown

from .events import FallbackSwitch

__all__ = ["Chain", "FallbackConfig", "Turn"]

PROVIDERS_OWN = frozenset({"QUOTA", "UNAVAILABLE"})
"""Codes of what another try does not help, and another provider does."""


def _unique(models: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(models))


@frozen
class FallbackConfig:
    """The table ``[fallback]``.

    Attributes:
        models: asked one after the other; ``provider/name``, or a provider for its default model.
    """

    models: tuple[str, ...] = field(default=(), converter=_unique)


@define
class Turn:
    """What a turn has come to.

    Attributes:
        first: the model that it began with.
        model: the one that it goes on with.
        failures: what each that failed said, by model.
    """

    number: int
    first: str
    model: str
    failures: dict[str, str] = field(factory=dict)


_TURN: StashKey[Turn | None] = StashKey("fallback: the last turn that went on with another model")


@define(eq=False)
class Chain:
    """The fallback models of a harness."""

    named: tuple[str, ...]
    models: tuple[str, ...] = ()

    def settle(self, adapters: Mapping[str, Adapter], warn: Callable[[str], None]) -> None:
        """Find out which of those that were named can be asked.

        Raises:
            ConfigError: there is no such provider, or it has no default model.
        """
        usable = []
        for name in self.named:
            provider, slash, model = name.partition("/")
            adapter = adapters.get(provider)
            if adapter is None:
                known = ", ".join(sorted(adapters)) or "none"
                raise ConfigError(
                    f"fallback.models: no provider serves {name!r}; a model is written provider/name, and the "
                    f"providers are: {known}"
                )
            if not model:
                default = getattr(adapter, "default_model", None)
                if slash or not default:
                    raise ConfigError(f"fallback.models: {provider} has no default model; write {provider}/MODEL")
                name = f"{provider}/{default}"
            if getattr(adapter, "broken", None) or not getattr(adapter, "configured", True):
                warn(f"the fallback model {name} is left out: {_why(adapter)}")
            else:
                usable.append(name)
        self.models = tuple(dict.fromkeys(usable))

    def chosen(self, agent: Agent, number: int, config: CallConfig) -> CallConfig:
        """`config` with the model that this turn goes on with."""
        turn = _last(agent, number)
        if turn is None:
            return config
        if turn.number == number:
            return evolve(config, model=turn.model)
        # Another turn has begun.  Only what was put in here is taken out: whoever names the model means it.
        ours = config.model == turn.model and agent.options.model != turn.model
        served = turn.first.partition("/")[0] in agent.harness.llm.adapters
        return evolve(config, model=turn.first) if ours and served else config

    def decide(
        self, agent: Agent, number: int, step: int, error: Exception, decision: RequestErrorDecision
    ) -> RequestErrorDecision:
        """`decision`, unless all have given up and another model may be asked.

        Raises:
            LlmError: every model has failed.
        """
        if not isinstance(decision, GiveUp) or not isinstance(error, LlmError) or not self.models:
            return decision
        header = agent.session.request_header()
        asked = "" if header is None else header.config.model
        turn = _last(agent, number)
        if turn is None or turn.number != number:
            turn = Turn(number, asked, asked)
        if (asked == turn.first and not _passes(error)) or text_shown(agent.session.events):
            return decision
        turn.failures[asked] = agent.harness.secrets.mask(blamed_message(error))
        left = [model for model in self.models if model not in turn.failures]
        if not left:
            if len(turn.failures) < 2:
                return decision  # the only fallback is the model itself
            said = "".join(f"\n  {model}: {message}" for model, message in turn.failures.items())
            raise LlmError(f"none of the models answered:{said}", code="UNAVAILABLE") from error
        turn.model = left[0]
        agent.stash[_TURN] = turn
        agent.session.append(
            FallbackSwitch(number, step, asked, turn.model, turn.first, error.code, turn.failures[asked])
        )
        return NextStep()


def _why(adapter: Adapter) -> str:
    problem = getattr(getattr(adapter, "provider", None), "problem", None) or getattr(adapter, "broken", None)
    return problem if isinstance(problem, str) else "its provider has no key"


def _passes(error: LlmError) -> bool:
    """Whether the provider is to blame, and not the request."""
    return error.retryable or error.code in PROVIDERS_OWN


def _last(agent: Agent, number: int) -> Turn | None:
    """The last turn that went on with another model, also one before the session was resumed."""
    if _TURN not in agent.stash:
        agent.stash[_TURN] = _logged(agent.session.events, number)
    return agent.stash[_TURN]


def _logged(events: Sequence[Event], number: int) -> Turn | None:
    """What the last turn with a request before turn `number` came to: a change before that is long over."""
    asked = False
    for event in reversed(events):
        data = event.data
        if isinstance(data, FallbackSwitch):
            return Turn(data.turn, data.first, data.model)
        asked = asked or (isinstance(data, StepStart) and data.turn < number)
        if asked and isinstance(data, TurnStart):
            break
    return None
