"""Where two things meet: a cancel and the moment between two answers, a broken listener, wakes and prompts."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dsh_subagents
import trio
import trio.testing
from dsh_subagents import subagents_of
from dsh_subagents.family import alive_below, family_of
from dsh_subagents.provider import Answer, Task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh import Agent, AgentError, AgentOptions, Allow, Config, Deny, TokenUsage
from dsh.conversation import Jobs
from dsh.llm.scripted import ScriptedModel
from dsh.messages import PluginSource, text_of
from dsh.session import events as ev
from dsh.session.grammar import problems
from dsh.testing import (
    call,
    hang,
    memory_harness,
    on_event,
    plugin_of,
    reply,
    shape,
    text,
    tool_of,
)

TASK = {"description": "a part", "prompt": "do it"}
BEHIND = {**TASK, "background": True}
OPTIONS = AgentOptions(model="scripted/model")


class Elsewhere:
    """A provider whose children are no agents, and hang."""

    tool = "subagent_elsewhere"
    wording = "It runs elsewhere."
    types = False
    session_id = None
    usage = TokenUsage()

    def __init__(self, end: Callable[[], Awaitable[None]] | None = None) -> None:
        self.open_now = 0
        self._end = end

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        self.open_now += 1
        try:
            yield self
        finally:
            if self._end is not None:
                with trio.CancelScope(shield=True):
                    await self._end()
            self.open_now -= 1

    async def ask(self, prompt: str) -> Answer:
        if prompt != "answer":
            await trio.sleep_forever()
        return Answer("completed", "yes")

    def tell(self, message: str) -> None:
        pass

    def said(self) -> str:
        return ""

    def progress(self, since: int) -> tuple[Sequence[str], int]:
        return [], 0


async def test_a_cancel_of_an_idle_parent_reaches_children_that_are_no_agents(stage: Any) -> None:
    provider = Elsewhere()
    script = [call("subagent_elsewhere", BEHIND), text("idle"), text("never")]
    offered = plugin_of(subagent_providers=lambda providers: providers.add("elsewhere", provider))
    async with stage.agent(*script, plugins={"elsewhere": offered}) as agent:
        await agent.run("go")
        assert provider.open_now == 1
        agent.cancel("enough")
        await trio.testing.wait_all_tasks_blocked()
        assert provider.open_now == 0
        assert agent.status == "idle"
        assert shape(agent.session.events).endswith("T-(completed) T+2 CX subagent/end T-(completed)"), (
            "nobody was asked"
        )


async def test_whoever_waits_for_a_cancelled_parent_waits_for_the_end_of_all_below(stage: Any) -> None:
    """Also of those in the background that take their time to end, and are no agents."""
    ending, may_end = trio.Event(), trio.Event()

    async def end() -> None:
        ending.set()
        await may_end.wait()

    provider = Elsewhere(end)
    script = [reply(calls=[("c1", "subagent_elsewhere", BEHIND), ("c2", "wait", {})])]
    offered = plugin_of(subagent_providers=lambda providers: providers.add("elsewhere", provider))

    async def hang_on(call: Any) -> str:
        await trio.sleep_forever()
        return ""

    hanging = tool_of("wait", hang_on)
    async with stage.agent(*script, plugins={"elsewhere": offered, "wait": hanging}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("enough")
        await ending.wait()
        await trio.testing.wait_all_tasks_blocked()
        found = (agent.status, provider.open_now)
        may_end.set()
        assert found == ("running", 1)
        await agent.when_idle()
        assert provider.open_now == 0
        assert shape(agent.session.events).count("S+") == 1, "its model is not asked again"


async def test_a_child_that_had_answered_when_its_parent_was_cancelled_wakes_nobody(stage: Any) -> None:
    may_end = trio.Event()
    provider = Elsewhere(may_end.wait)
    script = [call("subagent_elsewhere", {**BEHIND, "prompt": "answer"}), text("idle"), text("never")]
    offered = plugin_of(subagent_providers=lambda providers: providers.add("elsewhere", provider))
    async with stage.agent(*script, plugins={"elsewhere": offered}) as agent:
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel("enough")
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.asked(agent.session)[-1].endswith("has finished. Its answer:\n\nyes"), "it is told all the same"
        assert shape(agent.session.events).count("S+") == 2, "its model is not asked again"


async def test_a_cancel_between_an_answer_and_its_repair(stage: Any) -> None:
    """The child's turn has ended and is being stored: it has nothing to cancel, and is not asked again all the same."""
    stored, may_end = trio.Event(), trio.Event()

    async def flush(session: Any) -> None:
        if session.header.parent_session:
            stored.set()
            await may_end.wait()

    schema = {"type": "object"}
    script = [call("subagent", {**BEHIND, "output_schema": schema}), text("idle"), text("never")]
    below = [[text("no JSON"), text("{}")]]
    async with stage.agent(*script, below=below, plugins={"flush": plugin_of(session_flush=flush)}) as agent:
        await agent.run("go")
        await stored.wait()
        agent.cancel("enough")
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert agent.harness.agents.list() == [agent]
        assert shape(stage.children[0].session.events).count("T+") == 1
        assert "was cancelled" in stage.asked(agent.session)[-1]
        assert shape(agent.session.events).count("S+") == 2, "its model is not asked again"


async def test_work_in_the_background_is_told_to_who_asks_for_jobs(stage: Any) -> None:
    async with stage.agent(reply(calls=[("c1", "subagent", BEHIND)]), text("idle"), below=[[hang()]]) as agent:
        await agent.run("go")
        jobs = Jobs()
        agent.hook.agent_jobs(agent=agent, jobs=jobs)
        assert [(job.id, job.title) for job in jobs] == [("subagent-1", "a part")]


async def test_a_listener_that_fails_at_a_start_leaves_no_start_without_an_end(stage: Any) -> None:
    from dsh_subagents.events import SubagentStart

    def broken(event: Any) -> None:
        raise RuntimeError("no room")

    for task in (TASK, BEHIND):
        stage.children.clear()
        script = [call("subagent", task), text("done")]
        plugins = {"broken": on_event(SubagentStart, broken)}
        async with stage.agent(*script, below=[[text("part")]], plugins=plugins) as agent:
            await agent.run("go")
            ((result, code),) = stage.results(agent.session)
            assert (code, "no room" in result) == ("SUBAGENT_FAILED", True)
            assert stage.links(agent.session) == [("start", "subagent-1", None), ("end", "subagent-1", "error")]
            assert agent.harness.agents.list() == [agent]
            assert not alive_below(agent)


async def test_a_fork_in_the_middle_of_calls_beside_each_other(stage: Any) -> None:
    """It begins where the last turn ended, whatever the calls beside it have done until then."""
    fork = ("f", "subagent_fork", TASK)
    beside = [("a", "subagent", TASK), fork, ("b", "subagent", TASK), ("g", "subagent_fork", TASK)]
    below = [[text(f"part {n}") for n in range(4)]]
    async with stage.agent(text("hello"), reply(calls=beside), text("done"), below=below) as agent:
        await agent.run("one")
        await agent.run("two")
        assert sorted(said for said, _ in stage.results(agent.session)) == [f"part {n}" for n in range(4)]
        seeds = [child.session.header.seed_length for child in stage.children]
        first = next(e.seq for e in agent.session.events if isinstance(e.data, ev.TurnEnd)) + 1
        assert seeds == [None, first, None, first]
        for child in stage.children:
            assert problems(child.session.events, since=child.session.header.seed_length or 0) == []


async def test_what_is_decided_in_a_call_that_hangs_is_in_the_log(stage: Any) -> None:
    """Calls beside each other keep what plugins decide in them until they are concluded; a cancel must not lose it."""

    async def hanging(call: Any) -> str:
        await trio.sleep_forever()
        return ""

    async def deciding(agent: Agent | None) -> None:
        assert agent is not None
        await agent.hook.agent_prompt_submit(agent=agent, content=(), source=PluginSource("x"))
        await trio.sleep_forever()

    gate = plugin_of(agent_prompt_submit=lambda source: Allow() if source.kind == "plugin" else None)
    tools = {
        "one": tool_of("one", hanging, parallel=True),
        "two": tool_of("two", lambda call: deciding(call.agent), parallel=True),
    }
    script = [reply(calls=[("c1", "one", {}), ("c2", "two", {})])]
    async with stage.agent(*script, plugins={**tools, "gate": gate}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        agent.cancel()
        await agent.when_idle()
        decided = [e.data.plugin for e in agent.session.events if isinstance(e.data, ev.HookDecision)]
        assert decided == ["gate"]
        assert shape(agent.session.events).endswith("TR!(c1) TR!(c2) S-1 T-(aborted cancelled)")


async def test_what_is_decided_in_children_of_calls_beside_each_other_is_in_their_own_logs(stage: Any) -> None:
    """When it was decided, and not when the call ends that started them: by then their logs are closed."""

    def stream(agent: Agent, request: Any) -> Any:
        calls = [("w", "work", {}), *([("n", "subagent", TASK)] if agent.depth == 1 else [])]
        said = reply(calls=calls) if agent.session.open_step == 1 else text("part")
        return ScriptedModel(said).stream(request, "") if agent.depth else None

    guard = plugin_of(tools_pre_execute=lambda call: Deny("never") if call.name == "work" else None, llm_stream=stream)
    script = [reply(calls=[("a", "subagent", TASK), ("b", "subagent", TASK)]), text("done")]
    plugins = {"guard": guard, "work": tool_of("work", parallel=True)}
    async with stage.agent(*script, plugins=plugins) as agent:
        await agent.run("go")
        assert [said for said, _ in stage.results(agent.session)] == ["part", "part"]
        assert [child.depth for child in stage.children] == [1, 1, 2, 2]
        for child in stage.children:
            assert "TC(w) D(guard deny)" in shape(child.session.events)
        assert "D(" not in shape(agent.session.events)


async def test_a_parent_that_is_summarised_while_a_child_works(stage: Any) -> None:
    """The child goes on, its end wakes the parent, and a fork of that begins with the summary."""
    import dsh_compaction
    from dsh_compaction.compactor import compact_now

    may_end = trio.Event()

    async def wait(call: Any) -> str:
        await may_end.wait()
        return "waited"

    script = [call("subagent", BEHIND), text("idle"), text("more"), text("short"), text("heard of it")]
    fork = [call("subagent_fork", TASK, id="f"), text("done")]
    below = [[call("wait"), text("part"), text("forked")]]
    plugins = {"wait": tool_of("wait", wait), "compaction": dsh_compaction}
    async with stage.agent(*script, *fork, below=below, plugins=plugins) as agent:
        await agent.run("a long story " * 4000)
        await agent.run("and another one " * 4000)
        said = await compact_now(agent, "")
        assert any(event.type == "compact/end" for event in agent.session.events), said
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.asked(agent.session)[-1].startswith("subagent-1 (a part) has finished. Its answer:\n\npart")
        await agent.run("fork")
        assert stage.results(agent.session)[-1] == ("forked", None)
        assert [(kind, id) for kind, id, _ in stage.links(agent.session)] == [
            ("start", "subagent-1"),
            ("end", "subagent-1"),
            ("start", "subagent-2"),
            ("end", "subagent-2"),
        ]
        for session in (agent.session, *(child.session for child in stage.children)):
            assert problems(session.events, since=session.header.seed_length or 0) == []


async def test_nothing_stays_of_a_thousand_children_but_their_logs() -> None:
    seen = weakref.WeakSet[Agent]()
    script = ScriptedModel(*[text("part")] * 1000)
    watch = plugin_of(
        llm_stream=lambda agent, request: script.stream(request, "") if agent.depth else None,
        agent_created=lambda agent: seen.add(agent),
    )
    plugins = {"subagents": dsh_subagents, "watch": watch}
    async with memory_harness(plugins=plugins, check_logs=False, invariants=False) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        subagents = subagents_of(harness)
        for _ in range(200):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(subagents.run, "spawn", Task(agent, "a part", "do it"))
        family = family_of(agent)
        assert (family.number, len(family.live), alive_below(agent)) == (1000, 0, set())
        assert len(family.ended) == 100
        assert harness.agents.list() == [agent]
        gc.collect()
        assert len(seen) <= 3, "the last ones may still be held by a frame"


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "start", "cancel", "stop"]), st.integers(0, 12)), min_size=1, max_size=8
)


@given(steps=STEPS, dispose=st.booleans(), one_turn=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_wakes_and_prompts_and_cancels_at_any_time(
    steps: list[Step], dispose: bool, one_turn: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever meets: every end is told once, every prompt is answered or dropped by a cancel, and nothing stays."""
    sessions: list[Any] = []
    clock = iter(range(10_000))

    async def nap(call: Any) -> str:
        await trio.sleep(next(clock) % 7)
        return "rested"

    def stream(agent: Agent, request: Any) -> Any:
        if agent.depth and agent.session.open_step == 1:
            return ScriptedModel(call("nap")).stream(request, "")
        return ScriptedModel(text("part" if agent.depth else "heard")).stream(request, "")

    plugins = {
        "subagents": dsh_subagents,
        "watch": plugin_of(session_created=lambda session: sessions.append(session), llm_stream=stream),
        "nap": tool_of("nap", nap),
    }
    config = Config(tables={"subagents": {"concurrency": 20}})
    async with memory_harness(plugins=plugins, config=config) as harness:
        handle = harness.create_agent(options=AgentOptions("scripted/model", one_turn=one_turn))
        agent, subagents = handle.agent, subagents_of(harness)
        await agent.run("begin")
        started: list[str] = []
        cancelled = False
        for what, pause in steps:
            if what == "say":
                agent.send("something")
            elif what == "start":
                started.append((await subagents.start("spawn", Task(agent, "a part", "do it"))).id)
            elif what == "cancel":
                cancelled = True
                agent.cancel("enough")
            elif started and started[0] in family_of(agent).live:
                await subagents.stop(family_of(agent).live[started[0]])
            await trio.sleep(pause / 3)
        if dispose:
            await handle.dispose()
        else:
            await trio.sleep(100)
            await agent.when_idle()
        assert harness.agents.list() == ([] if dispose else [agent])
        assert not alive_below(agent)
        assert not family_of(agent).live
        for session in sessions:
            assert problems(session.events) == []
            assert session.open_turn is None
        told = [
            text_of(event.data.content)
            for event in agent.session.events
            if isinstance(event.data, ev.UserMessage | ev.SteeringMessage | ev.ContextMessage)
        ]
        for id in started:
            count = sum(said.startswith(f"{id} ") for said in told)
            assert count <= 1
            reason = family_of(agent).ended[id][1]
            assert count == 1 or cancelled or dispose or reason == "aborted"
        if dispose:
            try:
                await subagents.start("spawn", Task(agent, "late", "do it"))
            except AgentError:
                pass
            else:
                raise AssertionError("a disposed agent got a child")
            assert not alive_below(agent)
