"""Compaction among everything else: cancelling, going on, forks, children, replays, budgets, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dsh_budget
import dsh_compaction
import dsh_jsonl
import dsh_replay
import trio

import dsh.loop
from dsh import AgentOptions, Message, OtherBlock, Text, TokenUsage, ToolResult
from dsh.config import Config
from dsh.harness import open_harness
from dsh.llm.scripted import ScriptedModel
from dsh.messages import text_of
from dsh.session import Session, interrupted_turn_closers
from dsh.session.events import HookDecision
from dsh.session.grammar import problems
from dsh.testing import call, hang, memory_harness, on_event, plugin_of, reply, shape, text, tool_of

WORDS = tool_of("words", lambda call: "one two three " * 100)


def calls(count: int, letter: str = "c") -> list[Any]:
    return [call("words", id=f"{letter}{number}") for number in range(count)]


async def test_cancelled_while_the_summary_is_written(writer: Any, talk: Any, check: Any) -> None:
    from dsh_compaction.events import CompactStart

    model = writer(*calls(14), text("done"), summaries=(hang("half a summ"),))
    agents: list[Any] = []

    def cancel(event: object) -> None:
        agents[0].start_soon(later)

    async def later() -> None:
        await trio.testing.wait_all_tasks_blocked()
        agents[0].cancel("enough")

    plugins = {"words": WORDS, "cancel": on_event(CompactStart, cancel)}
    async with talk(model, plugins=plugins) as agent:
        agents.append(agent)
        before = await agent.run("do it")
        assert before.reason is not None
        assert (before.reason.kind, before.reason.reason) == ("aborted", "enough")
        log = agent.session.events
        assert shape(log).endswith("S-9 compact/start compact/end T-(aborted enough)")
        assert log[len(log) - 2].data.error == "cancelled"
        assert len(agent.session.derive_messages()) == 19
        check(agent.session, model)
        # What was cut off is made up for in the next turn.
        assert (await agent.run("go on")).text == "done"
        assert "compact/summary" in shape(agent.session.events)
        check(agent.session, model)


async def test_disposed_while_the_summary_is_written(writer: Any) -> None:
    model = writer(*calls(14), text("done"), summaries=(hang(),))
    config = Config(tables={"compaction": {"context_window": 4000}})
    async with memory_harness(model=model, plugins={"compaction": dsh_compaction, "words": WORDS}, config=config) as it:
        handle = it.create_agent(options=AgentOptions(model="scripted/model"))
        handle.agent.send("do it")
        while not model.asked:
            await trio.testing.wait_all_tasks_blocked()
        await handle.dispose()
        session = handle.agent.session
    assert shape(session.events).endswith("compact/start compact/end T-(disposed)")
    assert problems(session.events) == []


async def test_gone_on_with_from_the_file(writer: Any, check: Any, tmp_path: Path) -> None:
    """A resumed session goes on from its summary, and is compacted again when it is time."""
    config = Config(tables={"compaction": {"context_window": 4000}})

    async def part(model: Any, session_id: str | None) -> tuple[Session, str]:
        plugins = {
            "loop": dsh.loop,
            "model": model,
            "jsonl": dsh_jsonl,
            "compaction": dsh_compaction,
            "words": WORDS,
        }
        async with open_harness(config, plugins=plugins, discover=False, home=tmp_path) as harness:
            options = AgentOptions(model="scripted/model")
            if session_id is None:
                handle = harness.create_agent(options=options, cwd=str(tmp_path))
            else:
                handle = await harness.resume_agent(session_id, options=options)
            result = await handle.agent.run("the next part")
            await handle.dispose()
            return handle.agent.session, result.text

    first, _ = await part(writer(*calls(12), text("one")), None)
    seen = first.derive_messages()
    model = writer(*calls(10, "d"), text("two"))
    second, said = await part(model, first.id)
    assert said == "two"
    assert model.steps[0].messages[: len(seen)] == tuple(seen)
    assert model.asked
    assert problems(second.events) == []
    check(second)
    third, _ = await part(writer(text("three")), first.id)
    assert third.derive_messages()[0] == second.derive_messages()[0]


async def test_a_program_that_died_while_the_summary_was_written(writer: Any, check: Any) -> None:
    """What it left open keeps nothing from being compacted later."""
    config = Config(tables={"compaction": {"context_window": 4000}})
    plugins = {"compaction": dsh_compaction, "words": WORDS}
    model = writer(*calls(12), text("one"))
    async with memory_harness(model=model, plugins=plugins, config=config) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
        await agent.run("the task")
        events = list(agent.session.events)
    died = next(event.seq for event in events if event.type == "compact/start") + 1
    seed = [*events[:died], *interrupted_turn_closers(events[:died])]
    assert [event.type for event in seed[-2:]] == ["compact/start", "turn/end"]
    model = writer(*calls(6), text("two"))
    async with memory_harness(model=model, plugins=plugins, config=config) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model"), seed=seed).agent
        assert (await agent.run("go on")).text == "two"
        check(agent.session)
    assert model.asked


async def test_a_fork_has_the_summary_too(writer: Any, check: Any) -> None:
    model = writer(*calls(12), text("one"), *calls(12, "d"), text("two"))
    config = Config(tables={"compaction": {"context_window": 4000}})
    async with memory_harness(model=model, plugins={"compaction": dsh_compaction, "words": WORDS}, config=config) as it:
        options = AgentOptions(model="scripted/model")
        agent = it.create_agent(options=options).agent
        await agent.run("the task")
        fork = it.create_agent(options=options, seed=list(agent.session.events), parent_session=agent.session.id).agent
        assert fork.session.derive_messages() == agent.session.derive_messages()
        await fork.run("another way")
        check(fork.session)
        first = text_of(fork.session.derive_messages()[0].content)
    assert "the task" in first
    assert any("another way" in str(message) for message in model.steps[-1].messages)
    assert f"summary number {len(model.asked)}" in first
    assert len(model.asked) > 2


async def test_the_tokens_of_a_summary_count(writer: Any, talk: Any) -> None:
    """A child's summaries are a part of what the run takes."""
    model = writer(*calls(20), text("done"), summaries=(reply("short", usage=TokenUsage(5000, 10)),))
    plugins = {"words": WORDS, "budget": dsh_budget}
    tables = {"budget": {"max_tokens": 4000}}
    async with talk(model, plugins=plugins, tables=tables) as parent:
        child = parent.harness.create_agent(options=AgentOptions(model="scripted/model"), parent=parent).agent
        reason = (await child.run("do it")).reason
        assert "compact/summary" in shape(child.session.events)
        counted = [request.usage.input_tokens for request in dsh_budget_requests(child.session)]
    assert reason is not None
    assert (reason.kind, reason.code) == ("error", "LIMIT_TOKENS")
    assert 5000 in counted


def dsh_budget_requests(session: Session) -> list[Any]:
    from dsh_budget.stats import requests_in

    return list(requests_in(session.id, session.events))


async def test_what_a_run_took_includes_its_summaries(writer: Any, talk: Any) -> None:
    used = TokenUsage(5000, 10)
    model = writer(*calls(9), text("done"), summaries=(reply("", usage=used), reply("short", usage=used)))
    async with talk(model, plugins={"words": WORDS}) as agent:
        result = await agent.run("do it")
    assert len(model.asked) == 2
    assert result.usage.input_tokens == 10 * 10 + 2 * 5000


async def test_a_limit_that_is_reached_in_a_summary_ends_the_turn(writer: Any, talk: Any) -> None:
    model = writer(*calls(20), text("done"))
    tables = {"budget": {"max_tokens": 130}}
    async with talk(model, plugins={"words": WORDS, "budget": dsh_budget}, tables=tables) as agent:
        reason = (await agent.run("do it")).reason
        assert problems(agent.session.events) == []
    assert reason is not None
    assert reason.code == "LIMIT_TOKENS"


async def test_a_recording_is_played_with_its_summaries(writer: Any, talk: Any, tmp_path: Path) -> None:
    def data(session: Session) -> list[Any]:
        return [event.data for event in session.events if not isinstance(event.data, HookDecision)]

    model = writer(*calls(20), text("done"))
    async with talk(model, plugins={"words": WORDS}) as agent:
        await agent.run("do it")
        session = agent.session
    path = tmp_path / "recorded.jsonl"
    path.write_bytes(b"\n".join([session.codec.encode_header(session.header), *session.events.lines()]) + b"\n")
    tables = {"replay": {"file": str(path)}}
    plugins = {"words": WORDS, "replay": dsh_replay}
    async with talk(ScriptedModel(), plugins=plugins, tables=tables) as again:
        assert (await again.run("do it")).text == "done"
        assert shape(again.session.events).count("compact/summary") == len(model.asked) > 1
        assert again.session.derive_messages() == session.derive_messages()
        assert [event.type for event in again.session.events if event.type != "hook/decision"] == [
            event.type for event in session.events
        ]


async def test_pictures_weigh_little_and_are_left_out_when_old(writer: Any, talk: Any, check: Any) -> None:
    picture = OtherBlock({"type": "image", "mimeType": "image/png", "data": "A" * 200_000})
    shot = tool_of("words", lambda call: ToolResult((Text("a shot"), picture)))
    model = writer(*calls(8), text("done"))
    async with talk(model, {"context_window": 12_000}, {"words": shot}) as agent:
        await agent.run([Text("look at this"), picture])
        check(agent.session, model)
    first, last = model.steps[3].messages, model.steps[-1].messages
    assert sum("A" * 1000 in str(message) for message in first) == 4  # 50,000 tokens each, by their characters
    assert any("image left out" in str(message) for message in last)
    assert "A" * 1000 in str(last[-1])


async def test_reasoning_and_parallel_calls(writer: Any, talk: Any, check: Any) -> None:
    many = [
        reply("look", reasoning="think " * 50, calls=[(f"{n}-{k}", "words", {}) for k in range(3)]) for n in range(12)
    ]
    words = tool_of("words", lambda call: "one two three " * 60, parallel=True)
    model = writer(*many, text("done"))
    async with talk(model, plugins={"words": words}) as agent:
        await agent.run("do it")
        check(agent.session, model)
    assert len(model.asked) > 2


async def test_what_stands_before_the_conversation_is_never_summarised(writer: Any, talk: Any, check: Any) -> None:
    def first(prefix: Any) -> None:
        prefix.add(Message("user", "instructions of the first plugin"))

    def second(prefix: Any) -> None:
        prefix.add(Message("user", "instructions of the second plugin"))

    def sections(sections: Any) -> None:
        sections.add("house", "rules of the house")

    plugins = {
        "words": WORDS,
        "a": plugin_of(agent_session_prefix=first, prompt_sections=sections),
        "b": plugin_of(agent_session_prefix=second),
    }
    model = writer(*calls(20), text("done"))
    async with talk(model, plugins=plugins) as agent:
        await agent.run("do it")
        check(agent.session, model)
    assert len(model.asked) > 1
    for request in [*model.steps, *model.asked]:
        assert [text_of(message.content) for message in request.messages[:2]] == [
            "instructions of the first plugin",
            "instructions of the second plugin",
        ]
        assert "rules of the house" in (request.system or "")


async def test_secrets_stay_out_of_the_summary(writer: Any, talk: Any) -> None:
    secret = plugin_of(secrets_register=lambda secrets: secrets.add("hunter2-hunter2", "the password"))
    model = writer(*calls(12), text("done"), summaries=(text("the password is hunter2-hunter2"),))
    async with talk(model, plugins={"words": WORDS, "secret": secret}) as agent:
        await agent.run("do it")
        lines = b"\n".join(agent.session.events.lines())
    assert b"the password is" in lines
    assert b"hunter2-hunter2" not in lines


async def test_another_strategy(writer: Any, talk: Any, check: Any) -> None:
    """The example in the README: ten lines, and no model is asked."""
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = readme.split("```python\n")[1].split("```")[0]
    namespace: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), namespace)
    plugin = plugin_of()
    for name in ("compaction_select", "compaction_summarise"):
        setattr(plugin, name, namespace[name])
    model = writer(*calls(20), text("done"))
    async with talk(model, plugins={"words": WORDS, "mine": plugin}) as agent:
        assert (await agent.run("do it")).text == "done"
        check(agent.session, model)
        told = [event.data for event in agent.session.events if event.type == "compact/summary"]
        decisions = [event.data for event in agent.session.events if isinstance(event.data, HookDecision)]
    assert model.asked == []
    assert told
    assert told[0].model == "plugin"
    assert {(decision.hook, decision.plugin) for decision in decisions} == {
        ("compaction_select", "mine"),
        ("compaction_summarise", "mine"),
    }
