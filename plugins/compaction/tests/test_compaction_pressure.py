"""A conversation near the limit of its model: when something is done, what is asked, and what the log says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from dsh_compaction.events import CompactEnd, CompactStart, CompactSummary
from dsh_compaction.words import CLOSING, OPENING

from dsh import PluginSource, TokenUsage
from dsh.config import Config
from dsh.messages import text_of
from dsh.models import ModelFacts
from dsh.session.events import Replace, TodoItem, TodoWrite, ToolResult, UserMessage
from dsh.testing import call, memory_agent, plugin_of, reply, shape, text, tool_of

WORDS = tool_of("words", lambda call: "one two three " * 100)
"""Each result is about 350 tokens."""


def calls(count: int, **more: Any) -> list[Any]:
    return [call("words", id=f"c{number}", **more) for number in range(count)]


async def test_a_summary_takes_the_place_of_the_beginning(writer: Any, talk: Any, check: Any) -> None:
    model = writer(*calls(12), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        result = await agent.run("do it")
        events = agent.session.events
        check(agent.session, model)
    assert result.text == "done"
    start = next(event for event in events if isinstance(event.data, CompactStart))
    told, landed, end = events[start.seq + 1], events[start.seq + 2], events[start.seq + 3]
    assert shape(events[start.seq - 1 : end.seq + 2]) == "S-9 compact/start compact/summary U compact/end S+10"
    data = told.data
    assert isinstance(data, CompactSummary)
    assert text_of(data.summary) == "summary number 1"
    assert (data.model, data.max_tokens, data.level) == ("scripted/model", 500, 0)
    assert (data.shadowed_range.start, data.shadowed_range.end) == (data.shadowed_seqs[0], data.shadowed_seqs[-1])
    assert data.shadowed_token_count > 2000
    assert landed.data.source == PluginSource("compact")
    assert landed.surface_op == Replace(data.shadowed_seqs[0], data.shadowed_seqs[-1])
    assert landed.source_event_seqs == (start.seq, told.seq, *data.shadowed_seqs)
    assert f"{OPENING}\nsummary number 1\n{CLOSING}" in text_of(landed.data.content)
    assert end.data == CompactEnd(1)


async def test_the_question_stands_behind_what_was_sent_before(writer: Any, talk: Any) -> None:
    """What a provider has cached of the conversation serves the summary, too."""
    model = writer(*calls(12), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        await agent.run("do it")
    asked = model.asked[0]
    before = max(
        (step for step in model.steps if step.messages[:3] == asked.messages[:3]), key=lambda s: len(s.messages)
    )
    assert len(asked.messages) > 8
    assert asked.messages[:-1] == before.messages[: len(asked.messages) - 1]
    assert (asked.system, asked.tools, asked.model) == (before.system, before.tools, before.model)
    assert asked.session_id == before.session_id


async def test_below_the_threshold_nothing_happens(writer: Any, talk: Any) -> None:
    model = writer(*calls(3), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        await agent.run("do it")
    assert model.asked == []


async def test_off_means_off(writer: Any, talk: Any) -> None:
    model = writer(*calls(20), text("done"))
    async with talk(model, {"enabled": False}, {"words": WORDS}) as agent:
        result = await agent.run("do it")
        assert "compact" not in shape(agent.session.events)
    assert (result.text, model.asked) == ("done", [])


@pytest.mark.parametrize("by", ["settings", "plugin"])
async def test_the_window_is_that_of_the_model(writer: Any, by: str) -> None:
    import dsh_compaction

    model = writer(*calls(40), text("done"))
    facts = plugin_of(model_facts=lambda facts: facts.add("test", lambda model: ModelFacts(context_window=11_000)))
    own = {"scripted/model": {"context_window": 11_000}} if by == "settings" else {}
    plugins = {"compaction": dsh_compaction, "words": WORDS, **({"facts": facts} if by == "plugin" else {})}
    async with memory_agent(model=model, plugins=plugins, config=Config(tables={"models": own})) as agent:
        await agent.run("do it")
    assert model.asked


async def test_of_a_model_nobody_knows_only_a_refusal_counts(writer: Any) -> None:
    import dsh_compaction

    model = writer(*calls(20), text("done"))
    async with memory_agent(model=model, plugins={"compaction": dsh_compaction, "words": WORDS}) as agent:
        await agent.run("do it")
    assert model.asked == []


async def test_the_task_the_list_and_the_files_stay(writer: Any, talk: Any, check: Any) -> None:
    def work(called: Any) -> str:
        if called.id == "c0":
            todos = (TodoItem("find the bug", "completed"), TodoItem("mend the parser", "in_progress"))
            called.agent.session.append(TodoWrite(todos))
        return "one two three " * 100

    script = [
        call("edit", {"file_path": "/src/parser.py"}, id="c0"),
        call("read", {"file_path": "/src/lexer.py"}, id="c1"),
        *[call("words", id=f"c{number}") for number in range(2, 30)],
        text("done"),
    ]
    plugins = {name: tool_of(name, work) for name in ("edit", "read", "words")}
    model = writer(*script)
    async with talk(model, plugins=plugins) as agent:
        await agent.run("the parser loses commas; TASK-4711")
        check(agent.session, model)
    assert len(model.asked) > 2
    first = text_of(model.steps[-1].messages[0].content)
    for fact in (
        "the parser loses commas; TASK-4711",
        "in_progress: mend the parser",
        "completed: find the bug",
        "/src/parser.py",
        "/src/lexer.py",
    ):
        assert fact in first
    assert first.count("TASK-4711") == 1


async def test_what_the_person_said_last_stays(writer: Any, talk: Any) -> None:
    model = writer(text("hello"), text("well"), *calls(14), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        for said in ("first words", "second words", "third words, the running task"):
            await agent.run(said)
    first = text_of(model.steps[-1].messages[0].content)
    assert [said in first for said in ("first words", "second words", "third words, the running task")] == [True] * 3


async def test_context_of_plugins_that_instruct_stays(writer: Any, talk: Any) -> None:
    model = writer(*calls(14), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        agent.inject("never touch the folder vendor", PluginSource("instructions"))
        agent.inject("it rains", PluginSource("weather"))
        await agent.run("do it")
    first = text_of(model.steps[-1].messages[0].content)
    assert ("never touch the folder vendor" in first, "it rains" in first) == (True, False)


async def test_an_attached_file_pushes_nothing_out_of_what_stays(writer: Any, talk: Any) -> None:
    edits = tool_of("edit", lambda call: "one two three " * 100)
    replies = [call("edit", {"file_path": f"/work/f{number}"}, id=f"c{number}") for number in range(14)]
    model = writer(*replies, text("done"))
    async with talk(model, plugins={"edits": edits}) as agent:
        agent.inject("never touch the folder vendor", PluginSource("instructions"))
        agent.inject("<attachment>" + "y" * 3000 + "</attachment>", PluginSource("instructions"))
        await agent.run("do it")
    first = text_of(model.steps[-1].messages[0].content)
    assert "never touch the folder vendor" in first
    assert "- /work/f5" in first
    assert "- /work/f0\n" in first + "\n"
    assert "<attachment>" not in first


# -- old results


async def test_long_old_results_are_shortened_first(writer: Any, talk: Any, check: Any) -> None:
    """That often makes a summary unnecessary; all of them at once, so that the cached beginning changes seldom."""

    def long(called: Any) -> str:
        return f"first line of {called.id}\n" + "x" * 9000 + f"\nlast line of {called.id}"

    model = writer(*[call("long", id=f"c{number}") for number in range(10)], text("done"))
    plugins = {"long": tool_of("long", long)}
    settings = {"context_window": 20_000, "prune_head": 500, "prune_tail": 200}
    async with talk(model, settings, plugins) as agent:
        await agent.run("do it")
        events = agent.session.events
        check(agent.session, model)
    shortened = [event for event in events if isinstance(event.data, ToolResult) and event.surface_op != "append"]
    assert model.asked == []
    assert len(shortened) >= 4
    content = text_of(shortened[0].data.content)
    assert content.startswith("first line of c0")
    assert content.endswith("last line of c0")
    assert "characters" in content
    assert "cut out" in content
    assert len(content) < 1000
    original = events[shortened[0].source_event_seqs[0]]
    assert len(text_of(original.data.content)) > 9000
    assert shortened[0].data.meta["pruned"] == {"by": "compaction", "of": original.seq}
    steps = [agent.session.events[event.seq - 1].type for event in shortened]
    assert steps.count("step/end") == 1  # one batch


async def test_c09_one_giant_result_at_the_end(writer: Any, talk: Any, check: Any) -> None:
    model = writer(call("giant"), text("done"))
    async with talk(model, {"context_window": 50_000}, {"giant": tool_of("giant", lambda c: "x" * 1_900_000)}) as agent:
        result = await agent.run("do it")
        check(agent.session, model)
    assert result.text == "done"
    assert sum(len(str(message)) for message in model.steps[-1].messages) < 50_000


# -- what providers count


@pytest.mark.parametrize("last", [TokenUsage(0, 0), None, TokenUsage(1, 1)])
async def test_c07_usage_that_says_nothing(writer: Any, talk: Any, last: Any) -> None:
    """The last count that can be believed, and what came since, says when to compact."""
    silent = call("words", id="c9")
    silent = (
        type(silent)([c for c in silent.chunks if c.type != "usage"])
        if last is None
        else reply(calls=[("c9", "words", {})], usage=last)
    )
    counted = [reply(calls=[(f"c{n}", "words", {})], usage=TokenUsage(n * 300 + 100, 10)) for n in range(6)]
    model = writer(*counted, silent, *[call("words", id=f"d{n}") for n in range(6)], text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        await agent.run("do it")
    assert model.asked


async def test_c07_a_count_before_and_zero_after(writer: Any, talk: Any) -> None:
    big = tool_of("words", lambda call: "one two three " * 2000)
    counted = reply(calls=[("c0", "words", {})], usage=TokenUsage(100_000, 10))
    nothing = reply(calls=[("c1", "words", {})], usage=TokenUsage(0, 0))
    model = writer(counted, nothing, text("done"))
    async with talk(model, {"context_window": 131_072, "prune": False}, {"words": big}) as agent:
        await agent.run("do it")
    assert len(model.asked) == 1


async def test_c05_nothing_is_done_where_nothing_can_be_freed(writer: Any, talk: Any) -> None:
    """The count is near the limit because of what stands before the conversation."""
    warnings: list[str] = []
    replies = [reply(f"r{number}", usage=TokenUsage(127_000, 3)) for number in range(6)]
    model = writer(*replies)
    async with talk(model, {"context_window": 131_072}, warnings=warnings) as agent:
        for number in range(6):
            assert (await agent.run("go on")).text == f"r{number}"
        assert "compact" not in shape(agent.session.events)
    assert model.asked == []
    assert len(warnings) == 1
    assert "nothing of the conversation can be summarised" in warnings[0]


async def test_c06_many_compactions_are_one_summary_and_what_came_after(writer: Any, talk: Any, check: Any) -> None:
    model = writer(*calls(60), text("done"))
    async with talk(model, {"context_window": 2500}, {"words": WORDS}) as agent:
        await agent.run("do it")
        check(agent.session, model)
        summaries = [e for e in agent.session.events if isinstance(e.data, UserMessage) and e.surface_op != "append"]
        assert len(summaries) == len(model.asked) > 8
        # Each takes the place of the one before it.
        for before, after in pairwise(summaries):
            assert before.seq in after.source_event_seqs
    assert max(len(step.messages) for step in model.steps) < 20
