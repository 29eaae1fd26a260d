"""What requests take: tokens, and dollars as far as ``harness.models`` knows prices."""

from __future__ import annotations

from importlib.util import find_spec

from dsh import TokenUsage
from dsh.models import Models

__all__ = ["cost_of", "missing", "tokens_of"]


def tokens_of(usage: TokenUsage) -> int:
    """All tokens of a request: in, out, read from and written to the cache."""
    return usage.input_tokens + usage.output_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)


def cost_of(models: Models, model: str, usage: TokenUsage) -> float | None:
    """Dollars for one request; None if the price is not known."""
    price = models.facts(model).price
    return None if price is None else price.cost(usage)


def missing(model: str) -> str:
    """What to do about a price that is not known."""
    has_data = find_spec("genai_prices") is not None
    install = "" if has_data else "install the data set with pip install 'dsh-harness[prices]', or "
    return (
        f"the price of {model} is not known: {install}set it in config.toml, in dollars a million tokens: "
        f'[models."{model}"] price = {{ input = 1.0, output = 2.0 }}'
    )
