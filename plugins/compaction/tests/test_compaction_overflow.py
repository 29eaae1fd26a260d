"""A provider refuses a request for its length: what follows, how often, and how it ends."""

from __future__ import annotations

from typing import Any

import pytest

from dsh.messages import text_of
from dsh.session.events import EndReason
from dsh.testing import call, cut, fail, plugin_of, reply, shape, text, tool_of

TOO_LONG = fail("the prompt has 140000 tokens and the limit is 131072", code="CONTEXT_OVERFLOW", status=400)
WORDS = tool_of("words", lambda call: "one two three " * 100)
LARGE = {"context_window": 1_000_000, "prune": False}


def calls(count: int, letter: str = "c") -> list[Any]:
    return [call("words", id=f"{letter}{number}") for number in range(count)]


async def test_a_refused_request_is_followed_by_a_shorter_one(writer: Any, talk: Any, check: Any) -> None:
    model = writer(*calls(8), TOO_LONG, text("done"))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        result = await agent.run("do it")
        check(agent.session, model)
        log = shape(agent.session.events)
    assert result.text == "done"
    assert "S+9 D(compaction nextstep) S-9 compact/start compact/summary U compact/end S+10" in log
    assert len(model.steps[-1].messages) < len(model.steps[-2].messages)


async def test_long_results_are_enough(writer: Any, talk: Any, check: Any) -> None:
    long = tool_of("words", lambda call: "x" * 40_000)
    model = writer(*calls(3), TOO_LONG, text("done"))
    async with talk(model, {"context_window": 1_000_000}, {"words": long}) as agent:
        assert (await agent.run("do it")).text == "done"
        check(agent.session, model)
    assert model.asked == []


async def test_c01_every_request_is_refused(writer: Any, talk: Any, check: Any) -> None:
    """A few tries, each with less; then the provider's own words, this plugin's name, and what to do."""
    model = writer(*calls(8), summaries=(TOO_LONG,) * 20, otherwise=TOO_LONG)
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        reason = (await agent.run("do it")).reason
        check(agent.session, model)
        assert len(agent.session.derive_messages()) == 17
    assert reason is not None
    assert (reason.kind, reason.code) == ("error", "CONTEXT_OVERFLOW")
    assert "140000 tokens" in (reason.message or "")
    assert "compaction" in (reason.message or "")
    assert "new session" in (reason.message or "")
    assert len(model.steps) == 9
    assert 2 <= len(model.asked) <= 4
    sizes = [sum(len(str(message)) for message in asked.messages) for asked in model.asked]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)


async def test_c01_shorter_and_still_refused(writer: Any, talk: Any, check: Any) -> None:
    model = writer(*calls(8), otherwise=TOO_LONG)
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        reason = (await agent.run("do it")).reason
        check(agent.session, model)
    assert reason is not None
    assert reason.kind == "error"
    assert len(model.steps) <= 11
    assert len(model.asked) <= 2


async def test_c01_a_conversation_with_nothing_in_it(writer: Any, talk: Any) -> None:
    model = writer(otherwise=TOO_LONG)
    async with talk(model, LARGE) as agent:
        for _ in range(3):
            reason = (await agent.run("hello")).reason
            assert reason is not None
            assert "140000 tokens" in (reason.message or "")
            assert "finds nothing" in (reason.message or "")
        assert "compact/" not in shape(agent.session.events)
    assert (len(model.steps), model.asked) == (3, [])


async def test_c03_off_means_off_for_refusals_as_well(writer: Any, talk: Any) -> None:
    model = writer(*calls(8), TOO_LONG, otherwise=text("should not be a summary"))
    async with talk(model, {**LARGE, "enabled": False}, {"words": WORDS}) as agent:
        reason = (await agent.run("do it")).reason
        assert len(agent.session.derive_messages()) == 17
        assert "compact/" not in shape(agent.session.events)
    assert reason is not None
    assert reason.kind == "error"
    assert "compaction is off" in (reason.message or "")
    assert model.asked == []


async def test_c04_the_request_for_the_summary_is_too_long_as_well(writer: Any, talk: Any, check: Any) -> None:
    """It is made again of less: long results and arguments first, then the oldest messages."""
    model = writer(*calls(12), TOO_LONG, text("done"), summaries=(TOO_LONG, text("we did X")))
    big = tool_of("words", lambda call: "one two three " * 500)
    async with talk(model, {**LARGE, "prune": False}, {"words": big}) as agent:
        assert (await agent.run("remember the task")).text == "done"
        check(agent.session, model)
        told = next(event.data for event in agent.session.events if event.type == "compact/summary")
    assert told.level == 2
    sizes = [sum(len(str(message)) for message in asked.messages) for asked in model.asked]
    refused = sum(len(str(message)) for message in model.steps[-2].messages)
    assert refused > 2 * sizes[0] > 3 * sizes[1]
    assert len(model.asked[0].messages) == len(model.steps[-2].messages) - 1  # the newest exchange stays
    assert text_of(model.asked[1].messages[0].content) == "remember the task"


async def test_c04_many_short_messages(writer: Any, talk: Any, check: Any) -> None:
    """Nothing in it is long, so that the oldest messages are left out."""
    model = writer(*calls(30), TOO_LONG, text("done"), summaries=(TOO_LONG, text("we did X")))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        assert (await agent.run("remember the task")).text == "done"
        check(agent.session, model)
    sizes = [sum(len(str(message)) for message in asked.messages) for asked in model.asked]
    assert sizes[0] > 1.5 * sizes[1]
    assert len(model.asked[1].messages) < 50 < len(model.steps[-2].messages)
    assert text_of(model.asked[1].messages[0].content) == "remember the task"
    assert "older messages were left out" in text_of(model.asked[1].messages[1].content)


async def test_c04_it_is_not_tried_turn_after_turn(writer: Any, talk: Any) -> None:
    model = writer(*calls(8), summaries=(TOO_LONG,) * 100, otherwise=TOO_LONG)
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        for number in range(6):
            reason = (await agent.run(f"prompt {number}")).reason
            assert reason is not None
            assert reason.kind == "error"
    assert len(model.asked) <= 8
    assert "not tried again" in (reason.message or "")


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (cut("half a summ"), "cut off"),
        (text("  \n"), "no text"),
        (reply("I go on", calls=[("s1", "words", {})]), "called a tool"),
        (reply("I cannot help with that.", finish="refusal"), "refused"),
        (text("word " * 5000), "not shorter"),
    ],
)
async def test_an_answer_that_cannot_be_used(writer: Any, talk: Any, check: Any, bad: Any, complaint: str) -> None:
    model = writer(*calls(12), text("done"), summaries=(bad, text("a good one")))
    ran: list[str] = []

    def work(called: Any) -> str:
        ran.append(called.id)
        return "one two three " * 100

    words = tool_of("words", work)
    async with talk(model, plugins={"words": words}) as agent:
        assert (await agent.run("do it")).text == "done"
        check(agent.session, model)
        told = next(event.data for event in agent.session.events if event.type == "compact/summary")
    assert text_of(told.summary) == "a good one"
    assert complaint in text_of(model.asked[1].messages[-1].content)
    assert complaint in told.instruction
    assert "s1" not in ran
    # Both answers count.
    assert told.usage.input_tokens == 20


async def test_no_answer_can_be_used(writer: Any, talk: Any, check: Any) -> None:
    """Near the limit that is a warning: the turn goes on, and the next try waits until there is more."""
    warnings: list[str] = []
    model = writer(*calls(9), text("done"), summaries=(cut("half"),) * 50)
    async with talk(model, plugins={"words": WORDS}, warnings=warnings) as agent:
        assert (await agent.run("do it")).text == "done"
        check(agent.session, model)
        ends = [event.data for event in agent.session.events if event.type == "compact/end"]
    assert len(model.asked) == 2
    assert "cut off" in ends[0].error
    assert ends[0].usage.input_tokens == 20
    assert "the conversation was not summarised" in warnings[0]


async def test_a_provider_that_is_away_for_a_moment(writer: Any, talk: Any, autojump_clock: Any) -> None:
    away = fail("try later", code="SERVER", status=503, retryable=True)
    model = writer(*calls(12), text("done"), summaries=(away, text("a summary")))
    async with talk(model, plugins={"words": WORDS}) as agent:
        assert (await agent.run("do it")).text == "done"
        assert "compact/summary" in shape(agent.session.events)


async def test_a_plugin_that_fails_in_a_summary_ends_the_turn(writer: Any, talk: Any) -> None:
    def broken(agent: Any, shadowed: Any) -> None:
        raise RuntimeError("no summaries today")

    model = writer(*calls(12), text("done"))
    strategy = plugin_of(compaction_summarise=broken)
    async with talk(model, plugins={"words": WORDS, "strategy": strategy}) as agent:
        reason = (await agent.run("do it")).reason
    assert isinstance(reason, EndReason)
    assert reason.kind == "error"
    assert "no summaries today" in (reason.message or "")
    assert "strategy" in (reason.message or "")
