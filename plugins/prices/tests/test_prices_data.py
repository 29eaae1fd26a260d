"""What the data set says, and that nothing is guessed where it says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dsh_prices
import pytest

from dsh import TokenUsage
from dsh.config import Config
from dsh.models import ModelFacts, Price
from dsh.testing import memory_harness

PLUGINS = {"prices": dsh_prices}


@pytest.fixture(scope="module")
def look_up() -> Callable[[str], ModelFacts | None]:
    pytest.importorskip("genai_prices", reason="the data set is not installed (the extra `prices`)")
    from dsh_prices.data import read

    found = read()
    assert found is not None
    return found


@pytest.mark.parametrize("model", ["openai/gpt-5", "anthropic/claude-sonnet-4-5", "deepseek/deepseek-chat"])
def test_the_usual_models_are_known(look_up: Callable[[str], ModelFacts | None], model: str) -> None:
    facts = look_up(model)

    assert facts is not None
    assert facts.context_window is not None
    assert facts.context_window > 10_000
    assert facts.max_output is None
    assert facts.price is not None
    assert facts.price.cache_read is not None
    assert 0 < facts.price.cache_read < facts.price.input < facts.price.output


def test_cached_input_is_counted_once_and_costs_less(look_up: Callable[[str], ModelFacts | None]) -> None:
    facts = look_up("openai/gpt-5")
    assert facts is not None
    assert facts.price is not None
    price = facts.price
    assert price.cache_read is not None

    assert price.cost(TokenUsage(1_000_000, 0)) == pytest.approx(price.input)
    assert price.cost(TokenUsage(0, 1_000_000)) == pytest.approx(price.output)
    assert price.cost(TokenUsage(0, 0, cache_read_tokens=1_000_000)) == pytest.approx(price.cache_read)


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4-5", "openrouter/anthropic/claude-sonnet-4.5"])
def test_what_is_written_for_an_hour_costs_twice_as_much_as_other_input(
    look_up: Callable[[str], ModelFacts | None], model: str
) -> None:
    facts = look_up(model)
    assert facts is not None
    price = facts.price
    assert price is not None
    assert price.cache_write is not None

    parts = (0, 50_000, 100_000)
    short, half, long = (
        price.cost(TokenUsage(cache_write_tokens=100_000, cache_write_1h_tokens=hours)) for hours in parts
    )
    assert short == pytest.approx(price.cache_write / 10)
    assert long == pytest.approx(2 * price.input / 10)
    assert half == pytest.approx((price.cache_write + 2 * price.input) / 20)


def test_a_price_with_steps_depends_on_the_length_of_the_prompt(look_up: Callable[[str], ModelFacts | None]) -> None:
    facts = look_up("google/gemini-2.5-pro")
    assert facts is not None
    assert facts.price is not None
    short, long = facts.price.cost(TokenUsage(10_000)), facts.price.cost(TokenUsage(1_000_000))
    assert short is not None
    assert long is not None
    assert short == pytest.approx(facts.price.input / 100)
    assert long > 100 * short


@pytest.mark.parametrize("model", ["nobody/knows", "openai/no-such-model", "bare", "", "openai/", "/gpt-5"])
def test_what_the_data_set_does_not_have_is_not_guessed(
    look_up: Callable[[str], ModelFacts | None], model: str
) -> None:
    assert look_up(model) is None


async def test_settings_win_fact_by_fact() -> None:
    pytest.importorskip("genai_prices", reason="the data set is not installed (the extra `prices`)")
    table: dict[str, Any] = {"openai/gpt-5": {"context_window": 1000}}
    async with memory_harness(plugins=PLUGINS, config=Config(tables={"models": table})) as harness:
        before = harness.models.facts("openai/gpt-5")
        facts = await harness.models.look_up("openai/gpt-5")

    assert before == ModelFacts(context_window=1000)
    assert facts.context_window == 1000
    assert isinstance(facts.price, Price)
    assert facts.sources == {"context_window": "config", "price": "data set"}


async def test_without_a_data_set_all_is_unknown() -> None:
    async with memory_harness() as harness:
        assert await harness.models.look_up("openai/gpt-5") == ModelFacts()
