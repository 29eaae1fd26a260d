"""What a request costs: by the settings, else by the data set of ``genai-prices``, if it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from attrs import field, frozen

from dsh import TokenUsage

from .settings import Price

__all__ = ["Prices", "tokens_of"]

FREE = ("local",)
"""Providers whose models run on this machine, inside of dsh."""

_NO_TOKENS = TokenUsage()


def tokens_of(usage: TokenUsage) -> int:
    """All tokens of a request: in, out, read from and written to the cache."""
    return usage.input_tokens + usage.output_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)


@frozen
class Prices:
    """Prices by ``provider/model``.

    Attributes:
        own: those of the settings.
    """

    own: Mapping[str, Price] = field(factory=dict)
    _known: dict[str, bool] = field(factory=dict, init=False, repr=False, eq=False)

    def knows(self, model: str) -> bool:
        """Whether there is a price for `model`."""
        if model not in self._known:
            self._known[model] = self.cost(model, _NO_TOKENS) is not None
        return self._known[model]

    def load(self) -> None:
        """Import the data set, if it is there; takes a moment, and may be called in a thread."""
        with suppress(ImportError):
            import_module("genai_prices.data")

    def cost(self, model: str, usage: TokenUsage) -> float | None:
        """Dollars for one request; None if the price is not known.

        The first call for a model of the data set imports it, which takes a moment.
        """
        price = self.own.get(model)
        if price is not None:
            return _by(price, usage)
        provider, _, name = model.partition("/")
        if provider in FREE:
            return 0.0
        return _by_data_set(provider, name, usage) if name else None

    def missing(self, model: str) -> str:
        """What to do about a price that is not known."""
        has_data = find_spec("genai_prices") is not None
        install = "" if has_data else "install the data set with pip install 'dsh-harness[prices]', or "
        return (
            f"the price of {model} is not known: {install}set it in config.toml, in dollars a million tokens: "
            f'[models."{model}"] price = {{ input = 1.0, output = 2.0 }}'
        )


def _by(price: Price, usage: TokenUsage) -> float:
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    dollars = usage.input_tokens * price.input + usage.output_tokens * price.output
    return (dollars + (usage.cache_read_tokens or 0) * read + (usage.cache_write_tokens or 0) * written) / 1e6


def _by_data_set(provider: str, name: str, usage: TokenUsage) -> float | None:
    try:
        # Brings pydantic and takes a while; only those who ask for a price pay for it.
        import genai_prices
    except ImportError:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    # There, the cached tokens are a part of the input.
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens + read + written,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }
    try:
        return float(genai_prices.calc_price(genai_prices.Usage(**counts), name, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None
