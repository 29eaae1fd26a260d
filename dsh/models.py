"""What is known of models: how much they take in and give out, and what they cost.

The settings win over what a service says of its own models, and that wins over what plugins know
(`model_facts`).  Nothing is guessed: what nobody says is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import Attribute, evolve, field, frozen

from .errors import ConfigError, DshError
from .hooks.collector import Collector
from .messages import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config
    from .harness import Harness
    from .llm.listing import ListedModel

__all__ = ["ASK_SECONDS", "FACTS", "CollectedFacts", "ModelConfig", "ModelFacts", "Models", "Price"]

ASK_SECONDS = 5.0
"""How long a service may take to say what models it has, where the answer is only nice to have."""
FACTS = ("context_window", "max_output", "price")
CONFIG, SERVER = "config", "server"


def _above_zero(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0, got {value:g}")


def _not_negative(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 <= value < float("inf"):
        raise ValueError(f"{attribute.name} must not be less than 0, got {value:g}")


@frozen
class Price:
    """Dollars a million tokens.

    Cached input costs as much as other input where nothing is said; what is written for an hour then costs twice as
    much, as with the service that tells it apart
    (https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing).
    """

    input: float = field(validator=_not_negative)
    output: float = field(validator=_not_negative)
    cache_read: float | None = field(default=None, validator=_not_negative)
    cache_write: float | None = field(default=None, validator=_not_negative)
    cache_write_1h: float | None = field(default=None, validator=_not_negative)

    def cost(self, usage: TokenUsage) -> float | None:
        """Dollars for one request; None if this price cannot say."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        dollars = usage.input_tokens * self.input + usage.output_tokens * self.output
        dollars += (usage.cache_read_tokens or 0) * read + (usage.cache_write_tokens or 0) * written
        return dollars / 1e6 + self.hours(usage)

    def hours(self, usage: TokenUsage) -> float:
        """Dollars that what was written for an hour costs beyond what was written for minutes."""
        written = self.input if self.cache_write is None else self.cache_write
        hour = max(2 * self.input, written) if self.cache_write_1h is None else self.cache_write_1h
        return (usage.cache_write_1h_tokens or 0) * (hour - written) / 1e6


@frozen
class ModelConfig:
    """One of ``[models."provider/model"]``.

    Attributes:
        context_window, max_output: tokens.
        price: dollars a million tokens: ``{ input = 1.0, output = 2.0, cache_read = 0.1, cache_write = 1.0 }``; and
            ``cache_write_1h``, for what is kept for an hour.
    """

    context_window: int | None = field(default=None, validator=_above_zero)
    max_output: int | None = field(default=None, validator=_above_zero)
    price: Price | None = None


@frozen
class ModelFacts:
    """What is known of one model; None is unknown.

    Attributes:
        context_window: tokens that a request and its answer may have together, as far as services agree on that.
        max_output: tokens that an answer may have.
        sources: for each fact that is known, who says so: ``config``, ``server``, or the name of a plugin's source.
    """

    context_window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    sources: Mapping[str, str] = field(factory=dict, eq=False)


LookUp: TypeAlias = "Callable[[str], ModelFacts | None]"


class CollectedFacts(Collector[tuple[str, LookUp]]):
    """The collector of ``model_facts``."""

    def add(self, source: str, look_up: LookUp, order: int = 0) -> None:
        """Offer facts; those of lower orders win.

        Args:
            source: what to call it, in a word or two.
            look_up: gives what is known of ``provider/name``, or None.  It is called often and must not wait; its
                `sources` are not read.
        """
        self.collect((source, look_up), order)


class Models:
    """The facts of a harness, as ``harness.models``."""

    def __init__(self, harness: Harness) -> None:
        """Raises: ConfigError: the table ``[models]`` is wrong."""
        self._harness = harness
        self._own = _own(harness.config)
        self._plugins: list[tuple[str, LookUp]] | None = None
        self._listed: dict[str, dict[str, ListedModel]] = {}
        self._silent: set[str] = set()
        self._loading = trio.Lock()

    def facts(self, model: str) -> ModelFacts:
        """What is known of ``provider/name`` by now: by the settings, and after `look_up` by the others, too.

        It never waits.
        """
        found = ModelFacts()
        for source, facts in self._said(model):
            news = {
                name: getattr(facts, name)
                for name in FACTS
                if getattr(found, name) is None and getattr(facts, name) is not None
            }
            if news:
                found = evolve(found, **news, sources={**found.sources, **dict.fromkeys(news, source)})
        return found

    async def look_up(self, model: str, *, ask: bool = False) -> ModelFacts:
        """`facts`, after plugins have read what they know.

        Args:
            ask: also ask the model's service, once, where the context window is not known otherwise; that takes
                `ASK_SECONDS` at most, and not being told is no error.

        Raises:
            Exception: a plugin's hook did.

        Being cancelled, it asks again the next time.
        """
        await self.load()
        facts = self.facts(model)
        provider = model.partition("/")[0]
        if not ask or facts.context_window is not None or provider in self._listed or provider in self._silent:
            return facts
        try:
            with trio.move_on_after(ASK_SECONDS) as scope:
                if await self.listed(provider) is None:
                    self._silent.add(provider)
        except (DshError, OSError):
            self._silent.add(provider)
        if scope.cancelled_caught:
            self._silent.add(provider)
        return self.facts(model)

    async def load(self) -> None:
        """Have plugins read what they know, once; `facts` has it from then on.

        Raises:
            Exception: a plugin's hook did.
        """
        if self._plugins is not None:
            return  # as with each step but the first, which would pay for the lock
        async with self._loading:
            if self._plugins is None:
                collected = CollectedFacts()
                await self._harness.hook.model_facts(harness=self._harness, facts=collected)
                self._plugins = list(collected)

    async def listed(self, provider: str) -> Sequence[ListedModel] | None:
        """The models that the service of `provider` says it has, asked anew; None if it cannot be asked that.

        Raises:
            LlmError: there is no such provider, or it did not answer.

        Being cancelled, it closes the connection.
        """
        from .llm.listing import list_models

        found = await list_models(self._harness.llm, provider)
        if found is not None:
            self._listed[provider] = {f"{provider}/{model.name}": model for model in found}
        return found

    def named(self) -> list[str]:
        """The models that the settings say something about."""
        return list(self._own)

    def _said(self, model: str) -> list[tuple[str, ModelFacts | ModelConfig]]:
        """Everything that is said of a model, what wins first."""
        said: list[tuple[str, ModelFacts | ModelConfig]] = []
        if model in self._own:
            said.append((CONFIG, self._own[model]))
        listed = self._listed.get(model.partition("/")[0], {}).get(model)
        if listed is not None:
            said.append((SERVER, listed.facts))
        for source, look_up in self._plugins or ():
            facts = look_up(model)
            if facts is not None:
                said.append((source, facts))
        return said


def _own(config: Config) -> Mapping[str, ModelConfig]:
    own = config.section("models", dict[str, ModelConfig])
    for name in own:
        if not all(name.partition("/")):
            raise ConfigError(f'models."{name}": a model is written provider/name, as in [models."openai/gpt-5-mini"]')
    return own
