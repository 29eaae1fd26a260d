"""When a turn goes on with another model, with which one, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dsh_fallback
import dsh_retry
import pytest
from dsh_fallback.events import FallbackSwitch
from trio.testing import MockClock

from dsh import Agent, AgentOptions, CallConfig, ConfigError, LlmError, Retry, RunResult, hookimpl
from dsh.config import Config
from dsh.llm.adapter import Adapters
from dsh.llm.scripted import Reply, fail, reply
from dsh.messages import Reasoning
from dsh.session.events import AssistantMessage, RequestHeader, RequestHeaderDelta
from dsh.testing import ScriptedModel, memory_harness, shape, text, tool_of


class Providers:
    """Providers ``one``, ``two`` and ``three``, each with a model ``model``."""

    def __init__(self, **scripts: tuple[Reply, ...]) -> None:
        self.models = {name: ScriptedModel(*scripts.get(name, ())) for name in ("one", "two", "three")}
        self.models["three"].default_model = ""

    @hookimpl
    def llm_adapters(self, adapters: Adapters) -> None:
        for name, model in self.models.items():
            adapters.add(name, model)

    def asked(self) -> dict[str, int]:
        return {name: len(model.requests) for name, model in self.models.items() if model.requests}


def down(code: str = "OVERLOADED", *, retryable: bool = True, after: str = "") -> Reply:
    return fail(f"no answer ({code})", code=code, retryable=retryable, after=after)


def settings(*models: str, **more: object) -> Config:
    return Config(tables={"fallback": {"models": list(models)}, **more})


@asynccontextmanager
async def agent_of(
    providers: Providers, *models: str, warnings: list[str] | None = None, model: str = "one/model", **more: object
) -> AsyncIterator[Agent]:
    plugins = {"providers": providers, "fallback": dsh_fallback, "tool": tool_of("work")}
    if "retry" in more:
        plugins["retry"] = dsh_retry
    async with memory_harness(plugins=plugins, config=settings(*models, **more), warnings=warnings) as harness:
        yield harness.create_agent(options=AgentOptions(model=model)).agent


def switches(agent: Agent) -> list[tuple[str, str]]:
    return [(e.data.failed, e.data.model) for e in agent.session.events if isinstance(e.data, FallbackSwitch)]


def models(agent: Agent) -> list[str]:
    """The models of the headers in the log."""
    found = []
    for event in agent.session.events:
        if isinstance(event.data, RequestHeader):
            found.append(event.data.header.config.model)
        elif isinstance(event.data, RequestHeaderDelta) and event.data.config is not None:
            found.append(event.data.config.model)
    return found


def ended(result: RunResult) -> tuple[str, str | None]:
    assert result.reason is not None
    return result.reason.kind, result.reason.code


@pytest.mark.parametrize(
    "failure",
    [
        down(),
        down("RATE_LIMIT"),
        down("TIMEOUT"),
        down("EMPTY_RESPONSE"),
        down("QUOTA", retryable=False),
        down("UNAVAILABLE", retryable=False),
    ],
)
async def test_a_provider_that_cannot_answer_makes_room_for_the_next(failure: Reply) -> None:
    providers = Providers(one=(failure,), two=(text("from two"),))
    async with agent_of(providers, "two/model") as agent:
        result = await agent.run("go")

        assert (result.text, ended(result)) == ("from two", ("completed", None))
        assert switches(agent) == [("one/model", "two/model")]
        assert models(agent) == ["one/model", "two/model"]
        assert providers.asked() == {"one": 1, "two": 1}


@pytest.mark.parametrize("code", ["AUTH", "INVALID_REQUEST", "NOT_FOUND", "CONTEXT_OVERFLOW", "REFUSED"])
async def test_what_is_wrong_with_the_request_is_not_asked_elsewhere(code: str) -> None:
    providers = Providers(one=(down(code, retryable=False),), two=(text("unasked"),))
    async with agent_of(providers, "two/model") as agent:
        assert ended(await agent.run("go")) == ("error", code)
        assert providers.asked() == {"one": 1}
        assert switches(agent) == []


async def test_it_waits_until_retries_are_over(autojump_clock: MockClock) -> None:
    providers = Providers(one=(down(), down(), down()), two=(text("from two"),))
    async with agent_of(providers, "two/model", retry={"tries": 3}) as agent:
        result = await agent.run("go")

        assert result.text == "from two"
        assert providers.asked() == {"one": 3, "two": 1}
        (switch,) = [event.data for event in agent.session.events if isinstance(event.data, FallbackSwitch)]
        assert switch.notice == "[fallback] going on with two/model: no answer (OVERLOADED) (gave up after 3 tries)"
        assert "fallback/switch" in shape(agent.session.events)


async def test_a_shown_part_of_an_answer_is_not_followed_by_another_models() -> None:
    providers = Providers(one=(down(after="Half an ans"),), two=(text("unasked"),))
    async with agent_of(providers, "two/model") as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "OVERLOADED")
        assert providers.asked() == {"one": 1}


async def test_thoughts_that_were_shown_are_no_obstacle() -> None:
    providers = Providers(one=(reply(reasoning="Hm.", calls=[("c", "work", {})]), down()), two=(text("from two"),))
    async with agent_of(providers, "two/model") as agent:
        result = await agent.run("go")
        assert result.text == "from two"
        (request,) = providers.models["two"].requests
        assert [message.role for message in request.messages] == ["user", "assistant", "user"]


async def test_models_are_asked_in_order_and_any_failure_of_a_fallback_makes_room_for_the_next() -> None:
    providers = Providers(one=(down(),), two=(down("AUTH", retryable=False),), three=(text("from three"),))
    async with agent_of(providers, "two/model", "three/model") as agent:
        result = await agent.run("go")
        assert result.text == "from three"
        assert switches(agent) == [("one/model", "two/model"), ("two/model", "three/model")]


async def test_when_all_fail_the_error_names_each_and_counts_as_unavailable() -> None:
    providers = Providers(one=(down("QUOTA", retryable=False),), two=(down("NOT_FOUND", retryable=False),))
    async with agent_of(providers, "two/model") as agent:
        result = await agent.run("go")
        assert ended(result) == ("error", "UNAVAILABLE")
        assert result.reason is not None
        assert result.reason.message is not None
        assert result.reason.message.startswith(
            "none of the models answered:\n  one/model: no answer (QUOTA)\n  two/model: no answer (NOT_FOUND)"
        )


async def test_the_steps_of_the_turn_stay_with_the_fallback_and_the_next_turn_begins_with_the_first_again() -> None:
    calls = reply(calls=[("c", "work", {})])
    providers = Providers(one=(down(), text("one again")), two=(calls, text("from two")))
    async with agent_of(providers, "two/model") as agent:
        assert (await agent.run("go")).text == "from two"
        assert providers.asked() == {"one": 1, "two": 2}
        assert (await agent.run("and now?")).text == "one again"
        assert models(agent) == ["one/model", "two/model", "one/model"]


async def test_a_turn_may_fall_back_again() -> None:
    providers = Providers(one=(down(), down()), two=(text("first"), text("second")))
    async with agent_of(providers, "two/model") as agent:
        assert (await agent.run("go")).text == "first"
        assert (await agent.run("go")).text == "second"
        assert len(switches(agent)) == 2


async def test_who_names_the_fallback_as_model_means_it() -> None:
    providers = Providers(one=(down(),), two=(text("first"), text("second")))
    async with agent_of(providers, "one/model", "two/model", model="two/model") as agent:
        assert (await agent.run("go")).text == "first"
        assert (await agent.run("go")).text == "second"
        assert providers.asked() == {"two": 2}


async def test_a_model_that_is_its_own_only_fallback_fails_as_ever() -> None:
    providers = Providers(one=(down(),))
    async with agent_of(providers, "one/model") as agent:
        assert ended(await agent.run("go")) == ("error", "OVERLOADED")
        assert providers.asked() == {"one": 1}


async def test_without_fallbacks_nothing_is_changed() -> None:
    providers = Providers(one=(down(),))
    async with agent_of(providers) as agent:
        assert ended(await agent.run("go")) == ("error", "OVERLOADED")
        assert "fallback" not in shape(agent.session.events)


async def test_who_decides_that_a_request_is_sent_again_goes_first() -> None:
    class Again:
        @hookimpl
        def agent_request_error(self, attempt: int) -> Retry | None:
            return Retry(0.0) if attempt < 3 else None

    providers = Providers(one=(down(), down(), text("one after all")))
    async with agent_of(providers, "two/model") as agent:
        agent.plugins.register(Again(), name="again")
        assert (await agent.run("go")).text == "one after all"
        assert switches(agent) == []


async def test_thoughts_of_the_first_model_stay_in_the_log_with_their_maker() -> None:
    thinking = reply(reasoning="Let me see.", calls=[("c", "work", {})])
    providers = Providers(one=(thinking, down()), two=(text("from two"),))
    async with agent_of(providers, "two/model") as agent:
        await agent.run("go")
        first = next(e.data for e in agent.session.events if isinstance(e.data, AssistantMessage))
        assert any(isinstance(block, Reasoning) for block in first.content)


async def test_a_provider_alone_stands_for_its_default_model() -> None:
    providers = Providers(one=(down(),), two=(text("from two"),))
    async with agent_of(providers, "two") as agent:
        await agent.run("go")
        assert switches(agent) == [("one/model", "two/model")]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nobody/model", "no provider serves 'nobody/model'"),
        ("two/", "two has no default model"),
        ("three", "three has no default model"),
    ],
)
async def test_a_name_that_cannot_be_asked_keeps_the_harness_from_opening(name: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        async with agent_of(Providers(), name):
            pass


async def test_a_fallback_without_a_key_is_left_out_and_said() -> None:
    warnings: list[str] = []
    providers = Providers(one=(down(),), three=(text("from three"),))
    providers.models["two"].configured = False
    async with agent_of(providers, "two/model", "three/model", warnings=warnings) as agent:
        assert (await agent.run("go")).text == "from three"
    assert warnings == ["the fallback model two/model is left out: its provider has no key"]


async def test_a_session_that_goes_on_begins_with_the_first_model_and_may_fall_back_again() -> None:
    providers = Providers(one=(down(), down()), two=(text("first"), text("second")))
    plugins = {"providers": providers, "fallback": dsh_fallback}
    async with memory_harness(plugins=plugins, config=settings("two/model")) as harness:
        agent = harness.create_agent(options=AgentOptions(model="one/model")).agent
        assert (await agent.run("go")).text == "first"
        seed = tuple(agent.session.events)

        class LikeTheCommand:
            """Has an agent without a model go on with the one of its log's last request."""

            @hookimpl(trylast=True)
            def agent_request(self, agent: Agent, config: CallConfig) -> CallConfig | None:
                header = agent.session.request_header()
                return None if config.model or header is None else header.config

        harness.plugins.register(LikeTheCommand(), name="command")
        resumed = harness.create_agent(options=AgentOptions(), seed=seed).agent
        assert (await resumed.run("and now?")).text == "second"
        assert models(resumed) == ["one/model", "two/model", "one/model", "two/model"]


def test_the_error_of_all_is_one_that_exits_with_75() -> None:
    from dsh.cli.outcome import is_unavailable

    assert is_unavailable(LlmError("x", code="UNAVAILABLE").code)
