"""Which requests are sent again, after how long, and what the log and the person are told."""

from __future__ import annotations

import random
from collections.abc import Sequence

import dsh_retry
import pytest
import trio
from dsh_retry import RANDOM
from dsh_retry.events import RetryWait
from dsh_retry.policy import Policy, RetryConfig, Wait
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from dsh import Agent, ConfigError, GiveUp, LlmError, RunResult
from dsh.config import Config
from dsh.llm.scripted import Reply, fail, reply
from dsh.messages import FinishReason
from dsh.session.events import AssistantMessage, TurnEnd
from dsh.testing import memory_agent, memory_harness, plugin_of, shape, text

PLUGINS = {"retry": dsh_retry}


def busy(message: str = "overloaded", code: str = "SERVER", after: str = "", asked: float | None = None) -> Reply:
    return fail(message, code=code, after=after, retryable=True, retry_after=asked)


def waits(agent: Agent) -> list[RetryWait]:
    return [event.data for event in agent.session.events if isinstance(event.data, RetryWait)]


def settings(**table: object) -> Config:
    return Config(tables={"retry": table})


async def run(*replies: Reply, config: Config | None = None) -> tuple[RunResult, list[RetryWait], float, str]:
    """The result, the waits, the seconds of the clock that it took, and the log."""
    async with memory_agent(*replies, plugins=PLUGINS, config=config) as agent:
        agent.stash[RANDOM] = random.Random(7)
        began = trio.current_time()
        result = await agent.run("go")
        return result, waits(agent), trio.current_time() - began, shape(agent.session.events)


async def test_a_request_that_failed_is_sent_again(autojump_clock: MockClock) -> None:
    result, log, took, line = await run(busy(), busy("later", "RATE_LIMIT"), text("done"))

    assert result.text == "done"
    assert [(wait.attempt, wait.code, wait.message) for wait in log] == [
        (1, "SERVER", "overloaded"),
        (2, "RATE_LIMIT", "later"),
    ]
    assert took == pytest.approx(sum(wait.wait_ms for wait in log) / 1000, abs=0.01)
    assert line.endswith("retry/wait D(retry retry) C×8 A S-1 T-(completed)")


async def test_the_waits_repeat_with_the_source_of_randomness(autojump_clock: MockClock) -> None:
    replies = (busy(), busy(), busy(), busy(), text("done"))
    _, log, _, _ = await run(*replies)
    _, again, _, _ = await run(*replies)

    assert log == again
    rng = random.Random(7)
    full = [500, 1000, 2000, 4000]
    assert [wait.wait_ms for wait in log] == [round(ms * rng.uniform(0.5, 1.0)) for ms in full]


async def test_the_event_reads_back_and_speaks(autojump_clock: MockClock) -> None:
    async with memory_agent(busy(), text("done"), plugins=PLUGINS) as agent:
        await agent.run("go")
        codec = agent.harness.codec
        (event,) = (event for event in agent.session.events if event.type == "retry/wait")
        line = codec.encode(event)
        assert b'"data":{"turn":1,"step":1,"attempt":1,"waitMs":' in line
        assert codec.decode(line).data == event.data
    spoken = RetryWait(1, 1, 1, 1250, "SERVER", "overloaded", 5)
    assert spoken.notice == "[retry] try 2 of 5 in 1.2 s: overloaded"


async def test_the_service_is_heeded_to_the_millisecond(autojump_clock: MockClock) -> None:
    _, log, took, _ = await run(busy(asked=3), busy(asked=1.5), text("done"))
    assert [wait.wait_ms for wait in log] == [3000, 1500]
    assert took == pytest.approx(4.5, abs=0.01)


async def test_a_wait_that_is_too_long_is_not_begun(autojump_clock: MockClock) -> None:
    result, log, took, _ = await run(busy("come back later", "RATE_LIMIT", asked=3600), text("unasked"))
    assert log == []
    assert took < 1
    assert result.reason is not None
    assert (result.reason.code, result.reason.message) == (
        "RATE_LIMIT",
        "come back later (gave up: the service asks to wait 3600 s, and retry.total_ms allows 300 s)",
    )


async def test_all_waits_together_have_a_limit(autojump_clock: MockClock) -> None:
    result, log, took, _ = await run(*[busy(asked=40)] * 9, config=settings(tries=9, total_ms=100_000))
    assert len(log) == 2
    assert took == pytest.approx(80, abs=0.01)
    assert result.reason is not None
    assert result.reason.kind == "error"


async def test_each_request_has_tries_and_waits_of_its_own(autojump_clock: MockClock) -> None:
    config = settings(tries=2, total_ms=1000)
    async with memory_agent(
        busy(asked=1), text("one"), busy(asked=1), text("two"), plugins=PLUGINS, config=config
    ) as agent:
        assert (await agent.run("go")).text == "one"
        assert (await agent.run("again")).text == "two"


async def test_it_gives_up_and_says_how_often_it_tried(autojump_clock: MockClock) -> None:
    async with memory_agent(*[busy(code="EMPTY_RESPONSE")] * 5, text("unasked"), plugins=PLUGINS) as agent:
        result = await agent.run("go")
        assert len(waits(agent)) == 4
        assert result.reason is not None
        assert (result.reason.code, result.reason.message) == ("EMPTY_RESPONSE", "overloaded (gave up after 5 tries)")
        assert not any(isinstance(event.data, AssistantMessage) for event in agent.session.events)
        assert (await agent.run("again")).text == "unasked"


async def test_one_try_is_never_again() -> None:
    result, log, _, _ = await run(busy(), text("unasked"), config=settings(tries=1))
    assert log == []
    assert result.reason is not None
    assert result.reason.message == "overloaded"


@pytest.mark.parametrize(
    "failed",
    [
        fail("no credit", code="RATE_LIMIT", status=429),
        fail("wrong key", code="AUTH", status=401),
        Reply((), error=ValueError("a bug")),
        reply(finish=FinishReason("error", "content filter")),
    ],
    ids=["no credit", "key", "bug", "finish"],
)
async def test_what_does_not_pass_is_not_tried_again(failed: Reply) -> None:
    result, log, _, _ = await run(failed, text("unasked"))
    assert log == []
    assert result.reason is not None
    assert result.reason.kind == "error"


async def test_what_was_shown_is_not_asked_for_again() -> None:
    async with memory_agent(busy(after="It is"), text("It is 42."), plugins=PLUGINS) as agent:
        result = await agent.run("go")
        assert waits(agent) == []
        (answer,) = (event.data for event in agent.session.events if isinstance(event.data, AssistantMessage))
        assert answer.interrupted
        assert result.text == "It is"
        assert result.reason is not None
        assert result.reason.message == "overloaded (not tried again, since a part of the answer was shown)"


async def test_a_part_of_an_earlier_try_or_step_does_not_count(autojump_clock: MockClock) -> None:
    void = busy("unreadable call", "TOOL_USE_FAILED", after="I will")
    result, log, _, _ = await run(void, busy(), text("done"))
    assert [wait.code for wait in log] == ["TOOL_USE_FAILED", "SERVER"]
    assert result.text == "done"


async def test_thoughts_calls_and_blanks_are_no_answer(autojump_clock: MockClock) -> None:
    begun = reply("\n\n", reasoning="hm", calls=[("c1", "nothing", {})]).chunks[:-2]
    result, log, _, _ = await run(Reply(begun, error=busy().error), text("done"))
    assert len(log) == 1
    assert result.text == "done"


async def test_a_cancel_ends_the_wait_at_once(autojump_clock: MockClock) -> None:
    async with memory_agent(busy(asked=100), text("unasked"), plugins=PLUGINS) as agent:
        agent.send("go")
        await trio.sleep(1)
        assert len(waits(agent)) == 1
        agent.cancel("enough")
        await agent.when_idle()
        assert trio.current_time() < 2
        (end,) = (event.data for event in agent.session.events if isinstance(event.data, TurnEnd))
        assert (end.reason.kind, end.reason.reason) == ("aborted", "enough")


async def test_others_decide_first() -> None:
    async with memory_agent(
        busy(), text("unasked"), plugins={**PLUGINS, "zz": plugin_of(agent_request_error=lambda error: GiveUp())}
    ) as agent:
        result = await agent.run("go")
        assert waits(agent) == []
        assert result.reason is not None
        assert result.reason.message == "overloaded"


async def test_a_secret_in_the_error_stays_out_of_the_log(autojump_clock: MockClock) -> None:
    secret = plugin_of(secrets_register=lambda secrets: secrets.add("hunter2hunter2", "PASSWORD"))
    async with memory_agent(busy("bad hunter2hunter2"), text("done"), plugins={**PLUGINS, "secret": secret}) as agent:
        await agent.run("go")
        assert [wait.message for wait in waits(agent)] == ["bad [secret PASSWORD]"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"tries": 0}, "retry: tries must be 1 or more, got 0"),
        ({"base_ms": -1}, "retry: base_ms must be 1 or more, got -1"),
        ({"base_ms": 1000, "max_ms": 10}, r"retry: max_ms must not be less than base_ms \(1000\), got 10"),
        ({"total_ms": "1 h"}, "retry.total_ms: expected a whole number, got a string"),
        ({"retries": 3}, "retry.retries: unknown key, did you mean tries"),
    ],
)
async def test_wrong_settings_are_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with memory_harness(plugins=PLUGINS, config=settings(**table)):
            pass


@given(
    attempt=st.integers(1, 10**6),
    base=st.integers(1, 10**6),
    more=st.integers(0, 10**6),
    seed=st.integers(),
)
def test_a_wait_is_between_half_and_all_of_the_full_one(attempt: int, base: int, more: int, seed: int) -> None:
    policy = Policy(RetryConfig(base_ms=base, max_ms=base + more))
    full = min(base + more, base * 2 ** min(attempt - 1, 60))
    assert full / 2000 <= policy.backoff(attempt, random.Random(seed)) <= full / 1000


@given(asked=st.lists(st.none() | st.floats(0, 1000), min_size=1, max_size=20), tries=st.integers(1, 20))
def test_tries_and_waits_never_exceed_the_limits(asked: Sequence[float | None], tries: int) -> None:
    config = RetryConfig(tries=tries, total_ms=60_000)
    waited, attempt = 0.0, 1
    for wish in asked:
        error = LlmError("busy", retryable=True, retry_after=wish)
        decision = Policy(config).decide(error, attempt, waited=waited, seen=lambda: False, rng=random.Random(1))
        if not isinstance(decision, Wait):
            break
        if wish:
            assert decision.seconds == wish
        waited += decision.seconds
        attempt += 1
    assert attempt <= tries
    assert waited <= 60
