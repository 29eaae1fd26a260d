"""Limits of a run: when they are reached, over which agents, and what the log says then."""

from __future__ import annotations

import random
from typing import Any

import dsh_budget
import pytest
import trio
from dsh_budget.account import account_of
from dsh_budget.events import BudgetReached
from dsh_budget.settings import BudgetConfig
from trio.testing import MockClock

from dsh import Agent, AgentOptions, CallConfig, ConfigError, Request, RunResult, TokenUsage, ToolCall
from dsh.config import Config
from dsh.llm.chunks import Usage
from dsh.llm.scripted import Reply, fail, reply
from dsh.models import CollectedFacts, ModelFacts, Price
from dsh.session.events import TurnEnd
from dsh.testing import (
    ScriptedModel,
    call,
    hang,
    memory_agent,
    memory_harness,
    plugin_of,
    shape,
    text,
    tool_of,
    wrapper_of,
)

PLUGINS = {"budget": dsh_budget, "tool": tool_of("work")}
PRICE = {"scripted/model": {"price": {"input": 1.0, "output": 10.0}}}


def limits(models: dict[str, Any] | None = None, **table: object) -> Config:
    return Config(tables={"budget": table, **({} if models is None else {"models": models})})


def again(usage: TokenUsage | None = None) -> Reply:
    """An answer that calls a tool; its id is made unique by the loop."""
    return reply(calls=[("c", "work", {})], usage=usage)


def reached(agent: Agent) -> list[BudgetReached]:
    return [event.data for event in agent.session.events if isinstance(event.data, BudgetReached)]


def ended(result: RunResult) -> tuple[str, str | None]:
    assert result.reason is not None
    return result.reason.kind, result.reason.code


def said(result: RunResult) -> str:
    assert result.reason is not None
    return result.reason.message or ""


async def test_without_limits_nothing_is_in_the_way() -> None:
    async with memory_agent(*[again()] * 20, text("done"), plugins=PLUGINS) as agent:
        assert (await agent.run("go")).text == "done"
        assert "budget" not in shape(agent.session.events)


async def test_requests_are_counted_and_the_answer_so_far_stays() -> None:
    looking = reply("I will look.", calls=[("c1", "work", {})])
    async with memory_agent(looking, again(), text("unasked"), plugins=PLUGINS, config=limits(max_requests=2)) as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "LIMIT_REQUESTS")
        assert result.text == "I will look."
        line = shape(agent.session.events)
        assert line.endswith("TR(c) S-2 budget/reached T-(error 3)")
        (event,) = reached(agent)
        assert (event.turn, event.code, event.requests) == (1, "LIMIT_REQUESTS", 2)
        assert event.message == "the model was asked 2 times, which is the limit of the run"
        assert said(result).startswith(event.message)


async def test_a_run_that_fits_is_not_touched() -> None:
    async with memory_agent(again(), text("done"), plugins=PLUGINS, config=limits(max_requests=2)) as agent:
        assert ended(await agent.run("go")) == ("completed", None)
        assert ended(await agent.run("more")) == ("error", "LIMIT_REQUESTS")


async def test_a_request_that_is_sent_again_counts_once() -> None:
    from dsh import Retry

    retry = plugin_of(agent_request_error=lambda attempt: Retry())
    plugins = {**PLUGINS, "mine": retry}
    replies = (fail(), fail(), text("done"))
    async with memory_agent(*replies, plugins=plugins, config=limits(max_requests=1)) as agent:
        assert ended(await agent.run("go")) == ("completed", None)
        assert account_of(agent).requests == 1


async def test_tokens_of_all_kinds_count() -> None:
    used = TokenUsage(100, 50, cache_read_tokens=800, cache_write_tokens=49, reasoning_tokens=40)
    async with memory_agent(again(used), again(used), plugins=PLUGINS, config=limits(max_tokens=1000)) as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "LIMIT_TOKENS")
        assert len(reached(agent)) == 1
        assert reached(agent)[0].tokens == 1998
        assert "the run took 1998 tokens; its limit is 1000" in said(result)


async def test_money_is_counted_by_the_price_of_the_settings() -> None:
    used = TokenUsage(100_000, 10_000)  # 0.2 dollars
    config = limits(models=PRICE, max_usd=0.4)
    async with memory_agent(again(used), again(used), text("unasked"), plugins=PLUGINS, config=config) as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "LIMIT_COST")
        assert reached(agent)[0].usd == pytest.approx(0.4)
        assert "the run cost 0.4 dollars; its limit is 0.4" in said(result)


async def test_an_agent_without_a_price_does_not_start() -> None:
    async with memory_harness(plugins=PLUGINS, config=limits(max_usd=1.0)) as harness:
        with pytest.raises(
            ConfigError, match=r"the price of scripted/model is not known: .*\[models\.\"scripted/model"
        ):
            harness.create_agent(options=AgentOptions(model="scripted/model"))
        assert harness.agents.list() == []


async def test_a_model_without_a_price_that_is_chosen_later_is_not_asked() -> None:
    def agent_request() -> Any:
        yield
        return CallConfig("scripted/other")

    model = ScriptedModel(text("unasked"))
    plugins = {**PLUGINS, "chooser": wrapper_of(agent_request=agent_request)}
    async with memory_agent(model=model, plugins=plugins, config=limits(models=PRICE, max_usd=1.0)) as agent:
        assert ended(await agent.run("go")) == ("error", "LIMIT_PRICE_UNKNOWN")
        assert model.requests == []


async def test_a_plugin_that_knows_a_price_is_heard_before_an_agent_starts() -> None:
    async def model_facts(facts: CollectedFacts) -> None:
        facts.add("house", lambda model: ModelFacts(price=Price(0.0, 0.0)))

    house = plugin_of(model_facts=model_facts)
    async with memory_agent(text("done"), plugins={**PLUGINS, "house": house}, config=limits(max_usd=0.01)) as agent:
        assert ended(await agent.run("go")) == ("completed", None)


async def test_a_model_that_does_not_tell_its_tokens_is_not_asked_again() -> None:
    silent = Reply([chunk for chunk in again().chunks if not isinstance(chunk, Usage)])
    async with memory_agent(silent, text("unasked"), plugins=PLUGINS, config=limits(max_tokens=1000)) as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "LIMIT_UNMEASURED")
        assert "scripted/model does not say how many tokens" in said(result)


async def test_watching_leaves_no_trace_in_the_log() -> None:
    async with memory_agent(text("done"), plugins=PLUGINS, config=limits(max_tokens=1000)) as agent:
        await agent.run("go")
        assert "D(" not in shape(agent.session.events)


async def test_requests_outside_of_steps_are_counted_and_stopped() -> None:
    async def agent_pre_step(agent: Agent) -> None:
        stream = await agent.harness.llm.stream(Request("scripted/model", ()), agent)
        async for _ in stream:
            pass

    used = TokenUsage(600, 0)
    replies = [reply("a summary", usage=used), again(used), text("unasked")]
    plugins = {**PLUGINS, "summary": plugin_of(agent_pre_step=agent_pre_step)}
    async with memory_agent(*replies, plugins=plugins, config=limits(max_tokens=1100)) as agent:
        assert ended(await agent.run("go")) == ("error", "LIMIT_TOKENS")
        assert account_of(agent).tokens == 1200
        assert account_of(agent).requests == 1


async def test_the_whole_tree_of_agents_is_one_run() -> None:
    """A child's requests are its parent's; where the child is refused, the parent is, too."""

    async def delegate(call: ToolCall) -> str:
        assert call.agent is not None
        handle = call.agent.harness.create_agent(parent=call.agent, options=call.agent.options)
        result = await handle.agent.run("look")
        assert result.reason is not None
        await handle.dispose()
        return f"{result.reason.kind} {result.reason.code}"

    plugins = {**PLUGINS, "delegate": tool_of("delegate", delegate)}
    replies = [call("delegate", {}), again(), again(), text("unasked")]
    async with memory_agent(*replies, plugins=plugins, config=limits(max_requests=3)) as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "LIMIT_REQUESTS")
        assert account_of(agent).requests == 3
        told = [event.data.content[0].text for event in agent.session.events if event.type == "tool/result"]
        assert told == ["error LIMIT_REQUESTS"]


@pytest.mark.parametrize("most", [1, 4, 17])
async def test_agents_beside_each_other_do_not_get_past_the_limit(autojump_clock: MockClock, most: int) -> None:
    """Whoever has been let through is counted before anybody else is asked."""
    rng = random.Random(most)

    async def agent_pre_step() -> None:
        await trio.sleep(rng.random())

    model = ScriptedModel(otherwise=again())
    plugins = {**PLUGINS, "slow": plugin_of(agent_pre_step=agent_pre_step)}
    async with memory_harness(model=model, plugins=plugins, config=limits(max_requests=most)) as harness:
        options = AgentOptions(model="scripted/model")
        root = harness.create_agent(options=options).agent
        children = [harness.create_agent(options=options, parent=root).agent for _ in range(5)]
        for child in children:
            child.send("go")
        for child in children:
            await child.when_idle()
        assert len(model.requests) == most
        assert [event.code for child in children for event in reached(child)] == ["LIMIT_REQUESTS"] * 5


async def test_two_runs_of_one_program_are_two() -> None:
    async with memory_harness(text("one"), text("two"), plugins=PLUGINS, config=limits(max_requests=1)) as harness:
        for expected in ("one", "two"):
            agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
            assert (await agent.run("go")).text == expected


# -- time


async def test_what_runs_when_the_time_is_up_is_cancelled(autojump_clock: MockClock) -> None:
    async with memory_agent(hang("so far"), text("unasked"), plugins=PLUGINS, config=limits(timeout="10m")) as agent:
        result = await agent.run("go")
        assert trio.current_time() == pytest.approx(600, abs=0.1)
        assert result.reason is not None
        assert (result.reason.kind, result.reason.reason) == (
            "aborted",
            "the run took longer than 10 min, which is its limit",
        )
        assert result.text == "so far"
        assert [event.code for event in reached(agent)] == ["LIMIT_TIMEOUT"]
        assert ended(await agent.run("more")) == ("error", "LIMIT_TIMEOUT")


async def test_the_time_of_idle_children_and_of_others_runs_as_well(autojump_clock: MockClock) -> None:
    """Every agent of the tree is cancelled, and no agent of another."""
    replies = [hang(), hang()]
    async with memory_harness(*replies, plugins=PLUGINS, config=limits(timeout=5)) as harness:
        options = AgentOptions(model="scripted/model")
        root = harness.create_agent(options=options).agent
        child = harness.create_agent(options=options, parent=root).agent
        root.send("go")
        await trio.sleep(1)
        child.send("go")
        other = harness.create_agent(options=options).agent
        await child.when_idle()
        assert trio.current_time() == pytest.approx(5, abs=0.1)
        ends = [event.data for event in child.session.events if isinstance(event.data, TurnEnd)]
        assert [end.reason.kind for end in ends] == ["aborted"]
        assert reached(other) == []


async def test_the_clock_starts_with_the_first_turn(autojump_clock: MockClock) -> None:
    async with memory_agent(text("done"), text("late"), plugins=PLUGINS, config=limits(timeout=5)) as agent:
        await trio.sleep(100)
        assert ended(await agent.run("go")) == ("completed", None)
        await trio.sleep(5)
        assert ended(await agent.run("go")) == ("error", "LIMIT_TIMEOUT")


# -- settings


@pytest.mark.parametrize(("value", "seconds"), [(90, 90), (1.5, 1.5), ("90", 90), ("10m", 600), ("1h30m", 5400)])
def test_times(value: object, seconds: float) -> None:
    assert BudgetConfig(timeout=value).timeout == seconds


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"max_requests": 0}, "max_requests must be more than 0, got 0"),
        ({"max_usd": -1}, "max_usd must be more than 0, got -1"),
        ({"max_turns": 3}, "budget.max_turns: unknown key"),
        ({"timeout": "soon"}, "expected a time above 0, as in 90, 10m or 1h30m, got 'soon'"),
        ({"timeout": True}, "timeout: expected a number of seconds"),
        ({"timeout": 0}, "timeout must be more than 0"),
    ],
)
async def test_wrong_settings_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with memory_harness(plugins=PLUGINS, config=limits(**table)):
            pass


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"a/b": {"price": {"input": 1}}}, "output: is missing"),
        ({"a/b": {"price": {"input": -1, "output": 1}}}, "input must not be less than 0"),
        ({"a/b": {"prices": {}}}, "unknown key, did you mean price"),
    ],
)
async def test_wrong_prices_are_refused(models: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        async with memory_harness(plugins=PLUGINS, config=limits(models=models)):
            pass
