"""Prices: those of the settings, those of the data set, and those that nobody knows."""

from __future__ import annotations

import pytest
from dsh_budget.prices import Prices, tokens_of
from dsh_budget.settings import Price
from hypothesis import given
from hypothesis import strategies as st

from dsh import TokenUsage

counts = st.integers(0, 10**7)
usages = st.builds(TokenUsage, counts, counts, st.none() | counts, st.none() | counts, st.none() | counts)


@given(first=usages, second=usages)
def test_tokens_add_up(first: TokenUsage, second: TokenUsage) -> None:
    assert tokens_of(first) + tokens_of(second) == tokens_of(first + second)


@given(usage=usages)
def test_cached_tokens_cost_as_much_as_others_unless_something_is_said(usage: TokenUsage) -> None:
    plain = Prices({"a/b": Price(2.0, 4.0)}).cost("a/b", usage)
    full = Prices({"a/b": Price(2.0, 4.0, 2.0, 2.0)}).cost("a/b", usage)
    assert plain == pytest.approx(full)
    assert plain == pytest.approx((2.0 * (tokens_of(usage) - usage.output_tokens) + 4.0 * usage.output_tokens) / 1e6)


def test_every_kind_has_a_price() -> None:
    usage = TokenUsage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    assert Prices({"a/b": Price(1.0, 10.0, 0.1, 1.25)}).cost("a/b", usage) == pytest.approx(1 + 20 + 0.3 + 5)


@pytest.mark.parametrize("model", ["nobody/knows", "openai/no-such-model", "bare", "", "openai/"])
def test_what_is_not_known_is_not_guessed(model: str) -> None:
    prices = Prices()
    assert prices.cost(model, TokenUsage(1, 1)) is None
    assert not prices.knows(model)
    assert f"the price of {model} is not known" in prices.missing(model)


def test_the_data_set_knows_the_usual_models() -> None:
    pytest.importorskip("genai_prices", reason="the data set is not installed (the extra `prices`)")
    prices = Prices()
    prices.load()
    for model in ("openai/gpt-5", "anthropic/claude-sonnet-4-5", "deepseek/deepseek-chat"):
        fresh = prices.cost(model, TokenUsage(1_000_000, 0))
        cached = prices.cost(model, TokenUsage(0, 0, cache_read_tokens=1_000_000))
        assert fresh is not None
        assert cached is not None
        assert 0 < cached < fresh
        assert prices.knows(model)


def test_the_settings_go_before_the_data_set() -> None:
    assert Prices({"openai/gpt-5": Price(0.0, 0.0)}).cost("openai/gpt-5", TokenUsage(10**9, 10**9)) == 0
