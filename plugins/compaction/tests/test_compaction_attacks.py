"""Compaction that is stopped, doubled, cut short, and asked for what cannot be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dsh_compaction
import pytest
import trio
from dsh_compaction.compactor import compact_now
from dsh_compaction.values import CompactionError, Cut, Summary

from dsh import AgentOptions, SessionError
from dsh.config import Config
from dsh.session import interrupted_turn_closers
from dsh.session.grammar import problems
from dsh.testing import call, memory_harness, plugin_of, reply, shape, text, tool_of

WORDS = tool_of("words", lambda call: "one two three " * 100)
LARGE = {"context_window": 1_000_000}


def calls(count: int, letter: str = "c") -> list[Any]:
    return [call("words", id=f"{letter}{number}") for number in range(count)]


class Steps(trio.abc.Instrument):
    """Does something before the step `at` of any task."""

    def __init__(self, at: int, do: Callable[[], None]) -> None:
        self.left, self.do = at, do

    def before_task_step(self, task: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.do()


@pytest.mark.parametrize("at", [*range(1, 40, 3), *range(40, 200, 11)])
async def test_cancelled_anywhere_in_a_turn_that_is_compacted(writer: Any, talk: Any, check: Any, at: int) -> None:
    """Whatever was under way, the log is whole, and the next turn makes up for it."""
    model = writer(*calls(9), text("done"), otherwise=text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        instrument = Steps(at, lambda: agent.cancel("enough"))
        trio.lowlevel.add_instrument(instrument)
        try:
            await agent.run("do it")
        finally:
            trio.lowlevel.remove_instrument(instrument)
        assert problems(agent.session.events) == []
        check(agent.session, model)
        assert (await agent.run("go on")).reason.kind == "completed"
        check(agent.session, model)


@pytest.mark.parametrize("at", range(1, 40))
async def test_cancelled_anywhere_while_compacting_by_hand(writer: Any, talk: Any, check: Any, at: int) -> None:
    """All of it or nothing; what is there is whole."""
    model = writer(*calls(5), text("done"), text("on"))
    async with talk(model, LARGE, {"words": WORDS}) as agent:
        await agent.run("do it")
        before = len(agent.session.events)
        with trio.CancelScope() as scope:
            instrument = Steps(at, scope.cancel)
            trio.lowlevel.add_instrument(instrument)
            try:
                await compact_now(agent, "")
            finally:
                trio.lowlevel.remove_instrument(instrument)
        added = [event.type for event in agent.session.events[before:]]
        whole = ["turn/start", "compact/start", "compact/summary", "user/message", "compact/end", "turn/end"]
        assert added in ([], whole)
        assert (await agent.run("go on")).text == "on"
        check(agent.session, model)


async def test_two_at_once_by_hand(writer: Any, talk: Any, check: Any) -> None:
    """One of them is too late, says so, and changes nothing."""
    model = writer(*calls(5), text("done"), text("on"))
    said: list[str] = []
    arrived, all_here = [0], trio.Event()

    async def compaction_summarise() -> Summary:
        arrived[0] += 1
        if arrived[0] == 3:
            all_here.set()
        await all_here.wait()
        return Summary("a summary")

    plugins = {"words": WORDS, "writer": plugin_of(compaction_summarise=compaction_summarise)}
    async with talk(model, LARGE, plugins) as agent:
        await agent.run("do it")

        async def once() -> None:
            try:
                said.append(await compact_now(agent, ""))
            except CompactionError as error:
                said.append(str(error))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(once)
        changed = "the conversation was changed while it was summarised; it stays as it is"
        assert sorted(said)[1:] == [changed, changed]
        assert sorted(said)[0].startswith("summarised ")
        assert shape(agent.session.events).count("compact/summary") == 1
        assert (await agent.run("go on")).text == "on"
        check(agent.session, model)


async def test_a_log_that_ends_anywhere_is_gone_on_with(writer: Any, check: Any) -> None:
    """As after SIGKILL: every beginning of the log of a run with summaries and shortened results can be resumed."""
    config = Config(tables={"compaction": {"context_window": 4000}})
    long = tool_of("long", lambda call: "y" * 9000)
    plugins = {"compaction": dsh_compaction, "words": WORDS, "long": long}
    replies = [*calls(3), call("long", id="l1"), *calls(7, "d"), text("one")]
    async with memory_harness(model=writer(*replies), plugins=plugins, config=config) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
        await agent.run("the task")
        events = list(agent.session.events)
    kinds = {event.type for event in events}
    assert {"compact/summary", "compact/prune"} <= kinds
    first = next(
        event.seq for event in events if event.type.startswith("compact/") or event.surface_op not in (None, "append")
    )
    for died in range(first, len(events)):
        seed = [*events[:died], *interrupted_turn_closers(events[:died])]
        model = writer(*calls(5, "e"), text("two"))
        async with memory_harness(model=model, plugins=plugins, config=config) as harness:
            try:
                agent = harness.create_agent(options=AgentOptions(model="scripted/model"), seed=seed).agent
            except SessionError as error:
                pytest.fail(f"after {events[died - 1].type} {died}: {error}")
            assert (await agent.run("go on")).text == "two", died
            assert problems(agent.session.events) == [], died
            check(agent.session)


async def test_another_model_with_a_smaller_window(writer: Any, check: Any) -> None:
    """What the old model took with ease is summarised before the new one sees it."""
    model = writer(*calls(30), text("one"), *calls(3, "d"), text("two"))
    windows = {"scripted/model": {"context_window": 100_000}, "scripted/small": {"context_window": 4000}}
    model.models = ("model", "small")
    plugins = {"compaction": dsh_compaction, "words": WORDS}
    async with memory_harness(model=model, plugins=plugins, config=Config(tables={"models": windows})) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
        await agent.run("the task")
        assert model.asked == []
        seed = list(agent.session.events)
        other = harness.create_agent(options=AgentOptions(model="scripted/small"), seed=seed).agent
        assert (await other.run("go on")).text == "two"
        assert model.asked
        assert max(len(str(request.messages)) for request in model.steps[32:]) < 40_000
        check(other.session)


@pytest.mark.parametrize("many", [1, 3])
async def test_results_that_are_each_larger_than_the_window(writer: Any, talk: Any, check: Any, many: int) -> None:
    giant = tool_of("giant", lambda call: "word " * 40_000, parallel=True)
    replies = [reply(calls=[(f"c{n}-{k}", "giant", {}) for k in range(many)]) for n in range(4)]
    model = writer(*replies, text("done"))
    warnings: list[str] = []
    async with talk(model, plugins={"giant": giant}, warnings=warnings) as agent:
        assert (await agent.run("go")).text == "done", warnings
        check(agent.session, model)
    assert max(len(str(request.messages)) for request in model.steps) < 30_000


@pytest.mark.parametrize("hook", ["compaction_select", "compaction_summarise"])
@pytest.mark.parametrize("how", ["pressure", "hand"])
async def test_a_strategy_that_raises_names_itself_and_changes_nothing(
    writer: Any, talk: Any, check: Any, hook: str, how: str
) -> None:
    def broken() -> None:
        raise RuntimeError("I cannot")

    plugins = {"words": WORDS, "broken": plugin_of(**{hook: broken})}
    if how == "hand":
        async with talk(writer(*calls(5), text("done")), LARGE, plugins) as agent:
            await agent.run("do it")
            before = len(agent.session.events)
            with pytest.raises(RuntimeError, match="I cannot"):
                await compact_now(agent, "")
            assert len(agent.session.events) == before
        return
    model = writer(*calls(14), text("done"))
    async with talk(model, {"prune": False}, plugins) as agent:
        result = await agent.run("do it")
        assert result.reason is not None
        assert result.reason.kind == "error"
        assert "broken" in str(result.reason.message)
        assert "user/message" not in [
            event.type for event in agent.session.events if event.surface_op not in (None, "append")
        ]
        check(agent.session, model)


@pytest.mark.parametrize("cut", [-1, 0, 1, 10_000])
async def test_a_cut_at_no_part_of_the_conversation(writer: Any, talk: Any, check: Any, cut: int) -> None:
    async def compaction_select() -> Cut:
        return Cut(cut)

    model = writer(*calls(14), text("done"), otherwise=text("done"))
    warnings: list[str] = []
    plugins = {"words": WORDS, "chooser": plugin_of(compaction_select=compaction_select)}
    async with talk(model, {"prune": False}, plugins, warnings=warnings) as agent:
        await agent.run("do it")
        check(agent.session, model)
        assert problems(agent.session.events) == []


@pytest.mark.parametrize("said", ["", " \n", "x" * 100_000, "</compacted-summary>" * 20, "\ud800 half", "\0\x1b[2J"])
async def test_summaries_of_another_plugin(writer: Any, talk: Any, check: Any, said: str) -> None:
    async def compaction_summarise() -> Summary:
        return Summary(said)

    model = writer(*calls(14), text("done"), otherwise=text("done"))
    warnings: list[str] = []
    plugins = {"words": WORDS, "writer": plugin_of(compaction_summarise=compaction_summarise)}
    async with talk(model, {"prune": False}, plugins, warnings=warnings) as agent:
        result = await agent.run("do it")
        assert result.reason is not None
        assert problems(agent.session.events) == []
        assert result.reason.kind == "completed", result.reason
        check(agent.session, model)
        for event in agent.session.events:
            agent.harness.codec.encode(event)
    if not said.strip() or len(said) > 50_000:
        assert any("was not summarised" in line for line in warnings)
