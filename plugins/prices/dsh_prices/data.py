"""The data set, asked for one model at a time."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from attrs import field, frozen

from dsh import TokenUsage
from dsh.models import ModelFacts, Price

__all__ = ["DataPrice", "read"]

HOUR = "cache_write_1h"
"""What the data set calls what is written to a cache for an hour; older ones do not know it."""


@frozen
class DataPrice(Price):
    """A price that may depend on how long a prompt is, and on the day.

    Attributes:
        provider, model: as the data set was asked for them.
    """

    provider: str = field(default="", kw_only=True)
    model: str = field(default="", kw_only=True)

    def cost(self, usage: TokenUsage) -> float | None:
        """Dollars for one request, today; None if the data set cannot say."""
        found = _calculated(self.provider, self.model, usage)
        if found is None:
            return None
        # Where the data set does not tell them apart, all that is written costs the same.
        return float(found.total_price) + (self.hours(usage) if self.cache_write_1h is None else 0.0)


def read() -> Callable[[str], ModelFacts | None] | None:
    """Import the data set, which takes a fifth of a second, and give what looks a model up; None if it is missing."""
    try:
        import_module("genai_prices.data")
    except ImportError:
        return None
    known: dict[str, ModelFacts | None] = {}

    def look_up(model: str) -> ModelFacts | None:
        if model not in known:
            known[model] = _facts(*model.partition("/")[::2])
        return known[model]

    return look_up


def _facts(provider: str, name: str) -> ModelFacts | None:
    found = _calculated(provider, name, TokenUsage()) if provider and name else None
    if found is None:
        return None
    prices = found.model_price
    into, out = (_dollars(getattr(prices, f"{kind}_mtok", None)) for kind in ("input", "output"))
    price = None
    if into is not None and out is not None:
        read, written = (_dollars(getattr(prices, f"cache_{kind}_mtok", None)) for kind in ("read", "write"))
        hour = _dollars(getattr(prices, f"{HOUR}_mtok", None))
        price = DataPrice(into, out, read, written, hour, provider=provider, model=name)
    window = found.model.context_window
    return ModelFacts(context_window=window if window and window > 0 else None, price=price)


def _calculated(provider: str, name: str, usage: TokenUsage) -> Any:
    """What the data set says of a request; None if it does not know the model."""
    import genai_prices

    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    # There, the cached tokens are a part of the input.
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens + read + written,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
    }
    if usage.cache_write_1h_tokens and hasattr(genai_prices.Usage(), f"{HOUR}_tokens"):
        counts[f"{HOUR}_tokens"] = usage.cache_write_1h_tokens
    try:
        return genai_prices.calc_price(genai_prices.Usage(**counts), name, provider_id=provider)
    except (LookupError, ValueError):
        return None


def _dollars(price: Any) -> float | None:
    """A price of the data set as a number: the lowest step, where it has steps."""
    price = getattr(price, "base", price)
    return None if price is None else float(price)
