"""Random trees of children that are started, cancelled, fail and finish: every call is answered, nothing stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import dsh_subagents
import trio
import trio.testing
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh import AgentOptions, Config, hookimpl
from dsh.llm.scripted import Reply, ScriptedModel, call, fail, hang, reply, text
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.session.grammar import problems
from dsh.testing import memory_harness, plugin_of, tool_of

ENDINGS = ("finish", "fail", "hang", "cut", "silent", "slow", "crash")


@define
class Plan:
    """What a child does: it starts its own, some of them in the background, then ends in a way of its own."""

    ending: str
    background: bool
    fork: bool
    schema: bool
    children: list[Plan] = field(factory=list)


def plans() -> st.SearchStrategy[Plan]:
    def plan(children: st.SearchStrategy[list[Plan]]) -> st.SearchStrategy[Plan]:
        return st.builds(Plan, st.sampled_from(ENDINGS), st.booleans(), st.booleans(), st.booleans(), children)

    return st.recursive(plan(st.just([])), lambda inner: plan(st.lists(inner, max_size=3)), max_leaves=8)


class Cast:
    """Plays every child by its own plan, which its prompt names."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {}
        self._scripts: dict[str, Iterator[Reply]] = {}

    def prompt(self, plan: Plan) -> str:
        name = f"plan-{len(self.plans)}"
        self.plans[name] = plan
        return name

    def _script(self, plan: Plan) -> Iterator[Reply]:
        if plan.children:
            yield reply("starting", calls=list(self._calls(plan.children)))
        match plan.ending:
            case "finish":
                yield text("done")
            case "fail":
                yield fail("broken", code="AUTH")
            case "hang":
                yield hang("half")
            case "cut":
                yield reply("half", finish="max-tokens")
            case "silent":
                yield reply("")
            case "slow":
                yield call("nap")
                yield text("late")
            case "crash":
                yield call("crash")
        while True:
            yield text("more")

    def _calls(self, plans: Sequence[Plan]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for number, plan in enumerate(plans):
            arguments = {"description": "x", "prompt": self.prompt(plan), "background": plan.background}
            if plan.schema:
                arguments["output_schema"] = {"type": "object"}
            yield f"c{number}", "subagent_fork" if plan.fork else "subagent", arguments

    @hookimpl
    def llm_stream(self, agent: Any, request: Any) -> Any:
        session = agent.session
        if session.id not in self._scripts:
            own = range(session.header.seed_length or 0, len(session.events))
            said = next(e.data for e in (session.events[n] for n in own) if isinstance(e.data, ev.UserMessage))
            name = text_of(said.content).partition("\n")[0]
            self._scripts[session.id] = self._script(self.plans[name])
        return ScriptedModel(next(self._scripts[session.id])).stream(request, request.model)


@given(plan=plans(), cancel_after=st.integers(0, 40), how=st.sampled_from(["run", "cancel", "dispose", "child"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_random_trees_come_home(
    plan: Plan, cancel_after: int, how: str, autojump_clock: trio.testing.MockClock
) -> None:
    cast, sessions = Cast(), []

    async def nap(call: Any) -> str:
        await trio.sleep(5)
        return "rested"

    async def crash(call: Any) -> str:
        raise RuntimeError("a bug")

    plugins = {
        "subagents": dsh_subagents,
        "cast": cast,
        "watch": plugin_of(session_created=lambda session: sessions.append(session)),
        "nap": tool_of("nap", nap, parallel=True),
        "crash": tool_of("crash", crash),
    }
    config = Config(tables={"subagents": {"timeout": 60, "depth": 3, "concurrency": 6}})
    async with memory_harness(plugins=plugins, config=config) as harness:
        handle = harness.create_agent(options=AgentOptions("scripted/model", one_turn=True))
        agent = handle.agent
        agent.send(cast.prompt(plan))
        for _ in range(cancel_after):
            await trio.lowlevel.checkpoint()
        if how == "cancel":
            agent.cancel("enough")
        elif how == "dispose":
            await handle.dispose()
        elif how == "child":
            for child in harness.agents.list()[1:2]:
                child.cancel("that one")
        with trio.fail_after(10_000):
            if plan.ending == "hang" and how in ("run", "child"):
                await trio.sleep(1000)  # all that is bounded has ended by then
                agent.cancel("at last")
            await agent.when_idle()
            await trio.sleep(1000)
        left = [other.id for other in harness.agents.list() if other is not agent]
        assert left == []
        for session in sessions:
            assert problems(session.events, since=session.header.seed_length or 0) == []
            assert session.open_turn is None
            own = [session.events[n].data for n in range(session.header.seed_length or 0, len(session.events))]
            called = [data.call_id for data in own if isinstance(data, ev.ToolCall)]
            answered = [data.call_id for data in own if isinstance(data, ev.ToolResult)]
            assert sorted(called) == sorted(answered)
            assert len(set(answered)) == len(answered)
            started = [data.id for data in own if data.type == "subagent/start"]
            ended = [data.id for data in own if data.type == "subagent/end"]
            assert len(set(ended)) == len(ended)
            assert set(ended) <= set(started)
        await handle.dispose()
