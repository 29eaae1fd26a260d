"""Children in stored sessions: lineage, and what becomes of them when the program ends and the parent goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dsh_jsonl
import dsh_subagents
import trio
import trio.testing

from dsh import AgentOptions, Config, Harness
from dsh.llm.scripted import ScriptedModel
from dsh.session.store import SessionQuery, SessionsFound
from dsh.testing import call, hang, memory_harness, plugin_of, reply, shape, text

OPTIONS = AgentOptions(model="scripted/model")
TASK = {"description": "a part", "prompt": "do it"}


def stored(tmp_path: Path, *replies: Any, child: Sequence[Any] = ()) -> Any:
    """A harness that stores sessions; children have a script of their own."""
    config = Config(tables={"jsonl": {"root": str(tmp_path / "sessions")}})
    model = ScriptedModel(*child)
    route = plugin_of(llm_stream=lambda agent, request: model.stream(request, "") if agent.depth else None)
    plugins = {"jsonl": dsh_jsonl, "subagents": dsh_subagents, "route": route}
    return memory_harness(model=ScriptedModel(*replies), plugins=plugins, config=config)


async def listed(harness: Harness, **query: Any) -> list[Any]:
    found = SessionsFound()
    await harness.hook.session_list(query=SessionQuery(**query), found=found)
    return list(found)


async def test_children_are_stored_with_their_lineage(tmp_path: Path) -> None:
    script = [call("subagent", TASK), text("done"), call("subagent_fork", TASK, id="f"), text("y")]
    async with stored(tmp_path, *script, child=[text("part"), text("x")]) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        await agent.run("go")
        await agent.run("again")
        id = agent.session.id
    async with stored(tmp_path) as harness:
        children = await listed(harness, parent=id)
        assert sorted(info.seed_length is None for info in children) == [False, True]
        assert {info.parent_session for info in children} == {id}
        plain = await harness.hook.session_read(session_id=next(c.id for c in children if c.seed_length is None))
        assert shape(plain.events).startswith("T+1 U S+1 H(initial)")


async def test_a_resumed_parent_is_told_of_children_that_are_gone(tmp_path: Path) -> None:
    """Once: the second time there is nothing new.  And the names of those that were are not used again."""
    background = reply(calls=[("c1", "subagent", {**TASK, "background": True})])
    async with stored(tmp_path, background, text("idle"), child=[hang()]) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        id = agent.session.id

    more = [call("subagent_list", {}, id="l"), call("subagent", TASK, id="c2"), text("done")]
    async with stored(tmp_path, *more, child=[text("part")]) as harness:
        agent = (await harness.resume_agent(id, options=OPTIONS)).agent
        said = [event.data.content[0].text for event in agent.session.events if event.type == "context/message"]
        assert len(said) == 1
        assert "- subagent-1 (a part), session " in said[0]
        await agent.run("go on")
        results = [event.data.content[0].text for event in agent.session.events if event.type == "tool/result"]
        assert results[-2] == "subagent-1 (a part, in the background): lost when the program ended"
        started = [event.data.id for event in agent.session.events if event.type == "subagent/start"]
        assert started == ["subagent-1", "subagent-2"]

    async with stored(tmp_path) as harness:
        agent = (await harness.resume_agent(id, options=OPTIONS)).agent
        assert sum(event.type == "context/message" for event in agent.session.events) == 1


async def test_who_resumes_and_says_nothing_is_told_once(tmp_path: Path) -> None:
    """The ends stand beside the notice: a program that looks at the session and goes leaves nothing to tell again."""
    background = reply(calls=[("c1", "subagent", {**TASK, "background": True})])
    async with stored(tmp_path, background, text("idle"), child=[hang()]) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        id = agent.session.id
    for _ in range(3):
        async with stored(tmp_path) as harness:
            agent = (await harness.resume_agent(id, options=OPTIONS)).agent
            await trio.testing.wait_all_tasks_blocked()
            assert shape(agent.session.events).count("CX") == 1
            ends = [event.data.reason for event in agent.session.events if event.type == "subagent/end"]
            assert ends == ["lost"]


async def test_a_child_that_had_finished_is_not_lost(tmp_path: Path) -> None:
    async with stored(tmp_path, call("subagent", TASK), text("done"), child=[text("part")]) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        await agent.run("go")
        id = agent.session.id
    async with stored(tmp_path) as harness:
        agent = (await harness.resume_agent(id, options=OPTIONS)).agent
        assert "CX" not in shape(agent.session.events)


async def test_a_fork_of_a_session_does_not_lose_what_was_never_its_own(tmp_path: Path) -> None:
    """A child that begins as its parent did is no parent of that one's children."""
    background = reply(calls=[("c1", "subagent", {**TASK, "background": True})])
    async with stored(tmp_path, background, text("idle"), text("fork"), child=[hang()]) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        await agent.run("go")
        fork = harness.create_agent(options=OPTIONS, seed=agent.session.events.head(len(agent.session.events)))
        await fork.agent.run("hello")
        id = fork.agent.session.id
    async with stored(tmp_path) as harness:
        agent = (await harness.resume_agent(id, options=OPTIONS)).agent
        assert "CX" not in shape(agent.session.events)
