"""What requests cost: by the prices that are known, and by no guess."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dsh_budget
import pytest
from dsh_budget.prices import cost_of, missing, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from dsh import TokenUsage
from dsh.config import Config
from dsh.models import Models
from dsh.testing import memory_harness

counts = st.integers(0, 10**7)
some = st.none() | counts
usages = st.builds(TokenUsage, counts, counts, some, some, some, some)


@asynccontextmanager
async def models_of(**price: float) -> AsyncIterator[Models]:
    tables = {"models": {"a/b": {"price": price}}} if price else {}
    async with memory_harness(plugins={"budget": dsh_budget}, config=Config(tables=tables)) as harness:
        await harness.models.load()
        yield harness.models


@given(first=usages, second=usages)
def test_tokens_add_up(first: TokenUsage, second: TokenUsage) -> None:
    assert tokens_of(first) + tokens_of(second) == tokens_of(first + second)


async def test_every_kind_of_tokens_has_its_price() -> None:
    usage = TokenUsage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    async with models_of(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25) as models:
        assert cost_of(models, "a/b", usage) == pytest.approx(1 + 20 + 0.3 + 5)


@pytest.mark.parametrize(
    ("price", "dollars"),
    [
        ({"input": 3.0, "cache_write": 3.75, "cache_write_1h": 7.0}, 3 * 3.75 + 1 * 7.0),
        ({"input": 3.0, "cache_write": 3.75}, 3 * 3.75 + 1 * 6.0),
        ({"input": 3.0}, 3 * 3.0 + 1 * 6.0),
        ({"input": 0.0}, 0.0),
        ({"input": 1.0, "cache_write": 9.0}, 4 * 9.0),
        ({"input": 3.0, "cache_write_1h": 0.0}, 3 * 3.0),
    ],
)
async def test_what_is_written_for_an_hour_costs_more(price: dict[str, float], dollars: float) -> None:
    usage = TokenUsage(cache_write_tokens=4_000_000, cache_write_1h_tokens=1_000_000)
    async with models_of(output=10.0, **price) as models:
        assert cost_of(models, "a/b", usage) == pytest.approx(dollars)


@given(first=usages, second=usages)
def test_of_two_requests_the_hours_add_up(first: TokenUsage, second: TokenUsage) -> None:
    both = (first + second).cache_write_1h_tokens
    assert (both or 0) == (first.cache_write_1h_tokens or 0) + (second.cache_write_1h_tokens or 0)
    assert (both is None) == (first.cache_write_1h_tokens is None and second.cache_write_1h_tokens is None)


@pytest.mark.parametrize("model", ["nobody/knows", "openai/no-such-model", "bare", "", "openai/"])
async def test_what_is_not_known_is_not_guessed(model: str) -> None:
    async with models_of(input=1.0, output=1.0) as models:
        assert cost_of(models, model, TokenUsage(1, 1)) is None
    assert f"the price of {model} is not known" in missing(model)
