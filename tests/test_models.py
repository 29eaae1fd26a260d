"""What is known of models, and whose word counts."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from dsh import ConfigError, LlmError, TokenUsage, hookimpl
from dsh.config import Config
from dsh.llm.listing import read_models
from dsh.models import ASK_SECONDS, CollectedFacts, ModelFacts, Price
from dsh.testing import ScriptedModel, memory_harness, plugin_of

counts = st.integers(0, 10**7)
usages = st.builds(TokenUsage, counts, counts, st.none() | counts, st.none() | counts, st.none() | counts)


def settings(**table: Any) -> Config:
    return Config(tables={"models": {"scripted/model": table}})


class Listing(ScriptedModel):
    """A service that tells what models it has."""

    def __init__(self, *, error: Exception | None = None, wait: float = 0, **facts: int) -> None:
        super().__init__()
        self.facts, self.error, self.wait, self.asked = facts, error, wait, 0

    async def fetch_models(self) -> Any:
        self.asked += 1
        await trio.sleep(self.wait)
        if self.error is not None:
            raise self.error
        return {"data": [{"id": "model", **self.facts}]}


def knowing(source: str, facts: ModelFacts, order: int = 0) -> object:
    async def model_facts(facts: CollectedFacts) -> None:
        facts.add(source, lambda model: known if model == "scripted/model" else None, order)

    known = facts
    return plugin_of(model_facts=model_facts)


@given(usage=usages)
def test_cached_tokens_cost_as_much_as_others_unless_something_is_said(usage: TokenUsage) -> None:
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    plain, full = Price(2.0, 4.0).cost(usage), Price(2.0, 4.0, 2.0, 2.0).cost(usage)
    assert plain == pytest.approx(full)
    assert plain == pytest.approx((2.0 * (usage.input_tokens + read + written) + 4.0 * usage.output_tokens) / 1e6)


def test_every_kind_of_tokens_has_its_price() -> None:
    usage = TokenUsage(1_000_000, 2_000_000, 3_000_000, 4_000_000)
    assert Price(1.0, 10.0, 0.1, 1.25).cost(usage) == pytest.approx(1 + 20 + 0.3 + 5)


async def test_what_nobody_says_is_unknown() -> None:
    async with memory_harness() as harness:
        assert harness.models.facts("scripted/model") == ModelFacts()
        assert await harness.models.look_up("scripted/model", ask=True) == ModelFacts()
        assert await harness.models.look_up("nobody/model", ask=True) == ModelFacts()


async def test_settings_win_over_the_service_and_the_service_over_plugins_fact_by_fact() -> None:
    service = Listing(context_window=2, max_output=20)
    plugin = knowing("a book", ModelFacts(3, 30, Price(3, 3)))
    async with memory_harness(model=service, plugins={"book": plugin}, config=settings(context_window=1)) as harness:
        assert harness.models.facts("scripted/model") == ModelFacts(context_window=1)
        await harness.models.listed("scripted")
        facts = await harness.models.look_up("scripted/model")

    assert facts == ModelFacts(1, 20, Price(3, 3))
    assert facts.sources == {"context_window": "config", "max_output": "server", "price": "a book"}


async def test_of_two_plugins_the_lower_order_wins_whatever_their_names_are() -> None:
    plugins = {"a": knowing("late", ModelFacts(1), 5), "b": knowing("early", ModelFacts(2), -5)}
    async with memory_harness(plugins=plugins) as harness:
        facts = await harness.models.look_up("scripted/model")
    assert (facts.context_window, facts.sources["context_window"]) == (2, "early")


async def test_plugins_are_asked_once_and_only_when_somebody_wants_to_know() -> None:
    asked: list[str] = []

    async def model_facts(facts: CollectedFacts) -> None:
        asked.append("facts")
        await trio.lowlevel.checkpoint()
        facts.add("book", lambda model: ModelFacts(7))

    async with memory_harness(plugins={"book": plugin_of(model_facts=model_facts)}) as harness:
        assert harness.models.facts("scripted/model").context_window is None
        assert asked == []
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(harness.models.look_up, "scripted/model")
        assert asked == ["facts"]
        assert harness.models.facts("scripted/model").context_window == 7


async def test_a_plugin_that_fails_reaches_who_asked_and_is_asked_again() -> None:
    class Once:
        failed = False

        @hookimpl
        async def model_facts(self, facts: CollectedFacts) -> None:
            if not self.failed:
                self.failed = True
                raise ValueError("no table")
            facts.add("book", lambda model: ModelFacts(7))

    async with memory_harness(plugins={"book": Once()}) as harness:
        with pytest.raises(ValueError, match="no table"):
            await harness.models.look_up("scripted/model")
        assert (await harness.models.look_up("scripted/model")).context_window == 7


async def test_a_service_is_asked_once_and_only_for_a_window_that_nobody_else_knows() -> None:
    service = Listing(context_window=9)
    async with memory_harness(model=service) as harness:
        assert (await harness.models.look_up("scripted/model")).context_window is None
        assert service.asked == 0
        assert (await harness.models.look_up("scripted/model", ask=True)).context_window == 9
        assert (await harness.models.look_up("scripted/other", ask=True)).context_window is None
        assert service.asked == 1

    known = Listing()
    async with memory_harness(model=known, config=settings(context_window=5)) as harness:
        assert (await harness.models.look_up("scripted/model", ask=True)).context_window == 5
        assert known.asked == 0


async def test_a_service_that_fails_leaves_the_window_unknown_and_is_not_asked_again() -> None:
    service = Listing(error=LlmError("down", code="UNAVAILABLE"))
    async with memory_harness(model=service) as harness:
        for _ in range(2):
            assert await harness.models.look_up("scripted/model", ask=True) == ModelFacts()
        assert service.asked == 1
        with pytest.raises(LlmError, match="down"):
            await harness.models.listed("scripted")


async def test_a_service_that_does_not_answer_is_not_waited_for(autojump_clock: MockClock) -> None:
    service = Listing(wait=1000)
    async with memory_harness(model=service) as harness:
        start = trio.current_time()
        assert await harness.models.look_up("scripted/model", ask=True) == ModelFacts()
        assert trio.current_time() - start == pytest.approx(ASK_SECONDS)


async def test_an_adapter_that_cannot_list_says_so_and_no_provider_is_an_error() -> None:
    async with memory_harness() as harness:
        assert await harness.models.listed("scripted") is None
        with pytest.raises(LlmError, match="no provider 'nobody'"):
            await harness.models.listed("nobody")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"a/b": {"context_window": 0}}, 'models."a/b": context_window must be more than 0'),
        ({"a/b": {"max_output": "many"}}, "expected a whole number, got a string"),
        ({"a/b": {"contextwindow": 5}}, "unknown key, did you mean context_window"),
        ({"a/b": {"price": {"input": -1, "output": 2}}}, "input must not be less than 0"),
        ({"a/b": {"price": {"input": 1}}}, "output: is missing"),
        ({"gpt-5": {"context_window": 5}}, "a model is written provider/name"),
    ],
)
async def test_a_wrong_table_says_where_it_is_wrong(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        async with memory_harness(config=Config(tables={"models": table})):
            pass


def facts_of(answer: Any) -> dict[str, ModelFacts] | None:
    found = read_models(answer)
    return None if found is None else {model.name: model.facts for model in found}


@pytest.mark.parametrize(
    ("item", "facts"),
    [
        ({"id": "m", "object": "model", "owned_by": "x"}, ModelFacts()),
        ({"id": "m", "context_window": 131072, "max_completion_tokens": 65536}, ModelFacts(131072, 65536)),
        ({"id": "m", "max_model_len": 32768}, ModelFacts(32768)),
        ({"id": "m", "max_context_length": 131072, "capabilities": {"vision": True}}, ModelFacts(131072)),
        ({"id": "m", "meta": {"n_ctx_train": 4096, "n_ctx": 2048}}, ModelFacts(2048)),
        ({"id": "m", "max_input_tokens": 200000, "max_tokens": 64000}, ModelFacts(200000, 64000)),
        (
            {
                "id": "a/m",
                "context_length": 8192,
                "top_provider": {"context_length": 4096, "max_completion_tokens": 1024},
                "pricing": {"prompt": "0.0000005", "completion": "0.0000015", "input_cache_read": "0.00000005"},
            },
            ModelFacts(8192, 1024, Price(0.5, 1.5, 0.05)),
        ),
        ({"id": "auto", "pricing": {"prompt": "-1", "completion": "-1"}}, ModelFacts()),
        ({"id": "m", "pricing": {"input": 3, "output": 4}}, ModelFacts()),
        ({"id": "m", "context_length": None, "max_model_len": "big", "context_window": True}, ModelFacts()),
    ],
)
def test_what_services_say_of_a_model_is_read_in_their_words(item: dict[str, Any], facts: ModelFacts) -> None:
    assert facts_of({"object": "list", "data": [item]}) == {item["id"]: facts}
    assert facts_of([item]) == {item["id"]: facts}


def test_models_may_be_names_alone_and_count_once() -> None:
    assert list(facts_of({"models": [{"name": "a"}, {"model": "b"}, "c", "a", 5]}) or ()) == ["a", "b", "c"]
    assert facts_of({"data": []}) == {}


@pytest.mark.parametrize("answer", [None, 5, "models", {}, {"error": "x"}, {"data": "x"}, {"data": [1, {}]}])
def test_what_is_no_list_of_models_is_not_taken_for_one(answer: Any) -> None:
    assert facts_of(answer) is None


@given(
    answer=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["data", "models", "id", "name", "pricing", "prompt", "completion", "meta", "n_ctx"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_a_service_says_reading_it_does_not_fail(answer: Any) -> None:
    facts_of(answer)
