"""How agents come to be and go: all of it or nothing, in this order."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.agents import Agent, AgentHandle, AgentOptions, AgentRequest
from dsh.decisions import Block, Deny
from dsh.errors import AgentError, SessionError, SessionNotFound
from dsh.harness import open_harness
from dsh.session import events as ev
from dsh.session.store import SessionHeader, StoredSession
from dsh.testing import (
    ScriptedModel,
    call,
    hang,
    memory_agent,
    memory_harness,
    on_event,
    plugin_of,
    reply,
    shape,
    text,
    tool_of,
)
from dsh.tools.tool import ToolCall

OPTIONS = AgentOptions(model="scripted/model")


async def test_a_taken_id_makes_no_session() -> None:
    """I01."""
    async with memory_harness() as harness:
        harness.create_agent(agent_id="a")
        before = len(harness.sessions.list())
        with pytest.raises(AgentError, match="agent 'a' already"):
            harness.create_agent(agent_id="a")
        assert len(harness.sessions.list()) == before


async def test_a_taken_session_makes_no_agent() -> None:
    async with memory_harness() as harness:
        harness.create_agent(session_id="s")
        with pytest.raises(SessionError, match="'s' is live"):
            harness.create_agent(agent_id="b", session_id="s")
        assert harness.agents.get("b") is None


async def test_ids_are_made_up_where_none_is_given() -> None:
    async with memory_harness() as harness:
        first, second = harness.create_agent().agent, harness.create_agent().agent
        assert first.id != second.id
        assert first.session.id != second.session.id
        assert harness.agents.list() == [first, second]


async def test_a_session_starts_once_with_its_agent_in_the_registry() -> None:
    """I03."""
    heard: list[tuple[str, bool]] = []

    def start(agent: Agent, source: str) -> None:
        heard.append((source, agent.harness.agents.get(agent.id) is agent))

    async with memory_agent(text("a"), plugins={"start": plugin_of(agent_session_start=start)}) as agent:
        await agent.run("go")
        assert heard == [("startup", True)]


async def test_creation_is_heard_in_this_order() -> None:
    heard: list[str] = []
    plugin = plugin_of(
        session_created=lambda: heard.append("session_created"),
        agent_created=lambda: heard.append("agent_created"),
        agent_session_start=lambda: heard.append("agent_session_start"),
    )
    async with memory_harness(plugins={"order": plugin}) as harness:
        harness.create_agent(setup=lambda agent: heard.append("setup"))
        assert heard == ["session_created", "agent_created", "setup", "agent_session_start"]


@pytest.mark.parametrize("where", ["session_created", "agent_created", "setup"])
async def test_an_objection_undoes_everything(where: str) -> None:
    """I05."""
    objecting = True
    tasks: list[str] = []

    def object_() -> None:
        if objecting:
            raise RuntimeError("no")

    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            tasks.append("gone")

    started: list[Agent] = []

    def setup(agent: Agent) -> None:
        agent.start_soon(task)
        started.append(agent)
        if where == "setup":
            object_()

    plugins = {} if where == "setup" else {"objector": plugin_of(**{where: object_})}
    async with memory_harness(text("a"), plugins=plugins) as harness:
        with pytest.raises(RuntimeError, match="no"):
            harness.create_agent(agent_id="a", session_id="s", options=OPTIONS, setup=setup)
        assert harness.agents.list() == []
        assert harness.sessions.list() == []
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == len(started)
        for agent in started:
            with pytest.raises(AgentError, match="disposed"):
                agent.send("x")

        objecting = False
        again = harness.create_agent(agent_id="a", session_id="s", options=OPTIONS).agent
        assert (await again.run("go")).text == "a"


async def test_an_error_at_session_start_is_a_warning() -> None:
    def start() -> None:
        raise RuntimeError("no")

    warnings: list[str] = []
    async with memory_agent(
        text("a"), plugins={"start": plugin_of(agent_session_start=start)}, warnings=warnings
    ) as agent:
        assert (await agent.run("go")).text == "a"
        assert "no" in warnings[0]


async def test_setup_registers_before_the_session_starts() -> None:
    """I11."""
    heard: list[str] = []
    async with memory_harness() as harness:
        plugin = plugin_of(agent_session_start=lambda source: heard.append(source))

        def setup(agent: Agent) -> None:
            agent.plugins.register(plugin)

        harness.create_agent(setup=setup)
        assert heard == ["startup"]


async def test_the_end_comes_in_this_order() -> None:
    heard: list[str] = []

    def disposed(agent: Agent) -> None:
        listed = harness.agents.get(agent.id) is not None
        heard.append(f"agent_disposed, listed: {listed}, session: {harness.sessions.get('s') is not None}")

    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(session_id="s", options=OPTIONS)
        handle.agent.plugins.register(
            plugin_of(
                agent_status=lambda status: heard.append(status),
                session_flush=lambda: heard.append("flush"),
                agent_disposed=disposed,
            )
        )
        handle.agent.plugins.register(on_event(ev.TurnEnd, lambda _: heard.append("turn/end")))
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        await handle.dispose()
        assert heard == [
            "running",
            "disposed",
            "turn/end",
            "flush",
            "agent_disposed, listed: False, session: True",
        ]
        assert harness.sessions.get("s") is None
        assert handle.agent.plugins.loaded() == []


async def test_everyone_who_disposes_waits_for_the_same_end() -> None:
    ended: list[int] = []
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.plugins.register(plugin_of(agent_disposed=lambda: ended.append(1)))
        handle.agent.send("go")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(handle.dispose)
        assert ended == [1]


async def test_an_error_as_the_agent_goes_is_a_warning() -> None:
    def disposed() -> None:
        raise RuntimeError("no")

    warnings: list[str] = []
    async with memory_harness(warnings=warnings) as harness:
        handle = harness.create_agent()
        handle.agent.plugins.register(plugin_of(agent_disposed=disposed))
        await handle.dispose()
        assert "no" in warnings[0]
        assert harness.agents.list() == []


async def test_ids_are_free_again_after_the_end() -> None:
    async with memory_harness() as harness:
        for _ in range(2):
            handle = harness.create_agent(agent_id="a", session_id="s")
            await handle.dispose()


# -- tasks and children


async def test_tasks_end_with_their_agent() -> None:
    ended: list[str] = []

    async def task(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async with memory_harness() as harness:
        handle = harness.create_agent()
        handle.agent.start_soon(task, "one")
        handle.agent.start_soon(task, "two")
        await trio.testing.wait_all_tasks_blocked()
        await handle.dispose()
        assert sorted(ended) == ["one", "two"]
        with pytest.raises(AgentError, match="disposed"):
            handle.agent.start_soon(task, "three")


async def test_a_task_of_the_agent_may_dispose_it() -> None:
    """The end cancels the task that waits for it."""
    async with memory_harness(hang()) as harness:
        handle = harness.create_agent(options=OPTIONS)
        handle.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        handle.agent.start_soon(handle.dispose)
        await handle.agent.when_idle()
        await handle.dispose()
        assert shape(handle.agent.session.events).endswith("T-(disposed)")


async def test_children_end_before_their_parent() -> None:
    heard: list[str] = []
    async with memory_harness(hang(), hang()) as harness:
        parent = harness.create_agent(agent_id="parent", options=OPTIONS)
        child = harness.create_agent(agent_id="child", options=OPTIONS, parent=parent.agent)
        grandchild = harness.create_agent(agent_id="grandchild", options=OPTIONS, parent=child.agent)
        for handle in (parent, child, grandchild):
            handle.agent.plugins.register(plugin_of(agent_disposed=lambda agent: heard.append(agent.id)))
        assert [handle.agent.depth for handle in (parent, child, grandchild)] == [0, 1, 2]
        assert child.agent.session.header.parent_session == parent.agent.session.id
        grandchild.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        await parent.dispose()
        assert heard == ["grandchild", "child", "parent"]
        assert shape(grandchild.agent.session.events).endswith("T-(disposed)")


async def test_a_tool_that_waits_for_a_child_ends_with_the_parents_turn() -> None:
    handles: list[AgentHandle] = []

    async def ask(call: object) -> str:
        handle = harness.create_agent(options=OPTIONS, parent=parent.agent)
        handles.append(handle)
        return (await handle.agent.run("go")).text

    async with memory_harness(call("ask"), hang()) as harness:
        parent = harness.create_agent(options=OPTIONS)
        parent.agent.plugins.register(tool_of("ask", ask))
        parent.agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        parent.agent.cancel("x")
        await parent.agent.when_idle()
        assert shape(parent.agent.session.events).endswith("TR!(c1) S-1 T-(aborted x)")
        assert shape(handles[0].agent.session.events).endswith("T-(aborted x)")


async def test_a_cancel_reaches_the_children_of_an_idle_agent() -> None:
    async with memory_harness(hang(), hang()) as harness:
        parent = harness.create_agent(options=OPTIONS).agent
        child = harness.create_agent(options=OPTIONS, parent=parent).agent
        grandchild = harness.create_agent(options=OPTIONS, parent=child).agent
        child.send("go")
        grandchild.send("go")
        await trio.testing.wait_all_tasks_blocked()
        parent.cancel("x")
        await child.when_idle()
        await grandchild.when_idle()
        ends = [shape(agent.session.events).rpartition(" T-")[2] for agent in (child, grandchild)]
        assert ends == ["(aborted x)", "(aborted x)"]
        assert parent.status == "idle"


async def test_a_guard_of_the_parent_guards_its_children_and_its_listeners_do_not_hear_them() -> None:
    heard: list[str] = []
    model = ScriptedModel(call("work"), text("ok"))
    async with memory_harness(model=model, plugins={"work": tool_of("work")}) as harness:
        parent = harness.create_agent(options=OPTIONS).agent
        guard = plugin_of(tools_pre_execute=lambda: Deny("not here"), agent_status=lambda status: heard.append(status))
        parent.plugins.register(guard, "guard")
        child = harness.create_agent(options=OPTIONS, parent=parent).agent
        await child.run("go")
        assert "D(guard deny) TR!(c1)" in shape(child.session.events)
        assert heard == []


async def test_listeners_registered_to_be_inherited_hear_children() -> None:
    heard: list[str] = []
    async with memory_harness(text("a")) as harness:
        parent = harness.create_agent(options=OPTIONS).agent
        plugin = plugin_of(agent_status=lambda agent, status: heard.append(f"{agent.id} {status}"))
        parent.plugins.register(plugin, inherit=True)
        child = harness.create_agent(agent_id="child", options=OPTIONS, parent=parent).agent
        await child.run("go")
        assert heard == ["child running", "child idle"]


# -- resuming


def stored(events: list[ev.Event]) -> object:
    found = StoredSession(SessionHeader("old", 7, "/somewhere", "parent", 2), tuple(events))
    return plugin_of(session_open=lambda session_id: found if session_id == "old" else None)


async def test_a_resumed_session_goes_on() -> None:
    """I09."""
    sources: list[str] = []
    async with memory_harness(text("a"), text("b")) as harness:
        harness.plugins.register(plugin_of(agent_session_start=lambda source: sources.append(source)))
        first = harness.create_agent(options=OPTIONS).agent
        await first.run("one")
        harness.plugins.register(stored(list(first.session.events)))
        resumed = (await harness.resume_agent("old", options=OPTIONS)).agent
        await resumed.run("two")
        assert shape(resumed.session.events).endswith("T+2 U S+1 H(resume) C×5 A S-1 T-(completed)")
        assert [event.seq for event in resumed.session.events] == list(range(len(resumed.session.events)))
        header = resumed.session.header
        assert (header.created_at, header.cwd, header.parent_session, header.seed_length) == (
            *(7, "/somewhere", "parent", 2),
        )
        assert sources == ["startup", "resume"]


async def test_a_session_that_nobody_has_cannot_be_resumed() -> None:
    """I09."""
    async with memory_harness() as harness:
        with pytest.raises(SessionNotFound, match="'nowhere'"):
            await harness.resume_agent("nowhere")


async def test_an_id_taken_while_the_session_was_loaded_is_refused() -> None:
    async with memory_harness() as harness:

        async def opened(session_id: str) -> StoredSession:
            harness.create_agent(agent_id="a")
            await trio.lowlevel.checkpoint()
            return StoredSession(SessionHeader("old", 7), ())

        harness.plugins.register(plugin_of(session_open=opened))
        with pytest.raises(AgentError, match="'a' already"):
            await harness.resume_agent("old", agent_id="a")
        assert harness.sessions.get("old") is None


# -- factories


async def test_without_a_loop_nobody_makes_agents() -> None:
    """I02."""
    async with open_harness(discover=False) as harness:
        with pytest.raises(AgentError, match="`loop` is missing"):
            harness.create_agent()


async def test_another_plugin_may_make_the_agents() -> None:
    """I02."""

    class Factory:
        def create(self, request: AgentRequest) -> AgentHandle:
            raise AgentError(f"mine: {request.agent_id}")

    async with memory_harness(plugins={"mine": plugin_of(agent_factory=lambda: Factory())}) as harness:
        with pytest.raises(AgentError, match="mine: x"):
            harness.create_agent(agent_id="x")


async def test_sending_from_a_status_listener_starts_another_turn() -> None:
    sent: list[int] = []

    def status(status: str) -> None:
        if status == "idle" and len(sent) < 2:
            sent.append(1)
            agent.send("more")

    async with memory_agent(text("a"), text("b"), text("c")) as agent:
        agent.plugins.register(plugin_of(agent_status=status))
        agent.send("go")
        while agent.session.last_turn < 3 or agent.status == "running":
            await trio.lowlevel.checkpoint()
        assert shape(agent.session.events).count("T-(completed)") == 3


async def test_a_listener_that_always_sends_starves_nobody() -> None:
    """Its prompts are blocked, so that no turn ever waits for anything."""
    async with memory_harness() as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        agent.plugins.register(
            plugin_of(
                agent_prompt_submit=lambda: Block("no"),
                agent_status=lambda status: agent.send("more") if status == "idle" else None,
            )
        )
        agent.send("go")
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        await handle.dispose()
        assert agent.status == "disposed"


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("verb", ["run", "when_idle"])
async def test_a_tool_cannot_wait_for_its_own_turn(verb: str, parallel: bool) -> None:
    """Both would wait for ever, one for the other."""

    async def wait(call: ToolCall) -> str:
        assert call.agent is not None
        if verb == "when_idle":
            await call.agent.when_idle()
        return (await call.agent.run("more")).text

    calls = reply(calls=[("c1", "wait", {}), ("c2", "wait", {})])
    tool = tool_of("wait", wait, parallel=parallel)
    async with memory_agent(calls, text("done"), plugins={"tool": tool}) as agent:
        assert (await agent.run("go")).text == "done"
        errors = [event.data.error for event in agent.session.events if isinstance(event.data, ev.ToolResult)]
        assert errors == [ev.ErrorInfo("AgentError", "OWN_TURN")] * 2
        assert agent.session.last_turn == 1


async def test_a_hook_cannot_wait_for_its_own_turn() -> None:
    async with memory_agent(text("fine")) as agent:
        with agent.plugins.using(plugin_of(agent_pre_step=lambda agent: agent.when_idle()), "waits"):
            result = await agent.run("go")
        assert result.reason is not None
        assert result.reason.code == "OWN_TURN"
        assert (await agent.run("again")).text == "fine"


async def test_a_task_and_a_parent_can_wait_for_a_turn_that_began_them() -> None:
    """What waits for nothing that waits for it: a task of the agent's, and a parent for its child."""
    answers: list[str] = []

    async def later(agent: Agent) -> None:
        answers.append((await agent.run("later")).text)

    async def delegate(call: ToolCall) -> str:
        assert call.agent is not None
        call.agent.start_soon(later, call.agent)
        child = call.agent.harness.create_agent(options=OPTIONS, parent=call.agent)
        return (await child.agent.run("do it")).text

    script = (call("delegate"), text("the child's"), text("the parent's"), text("the task's"))
    async with memory_agent(*script, plugins={"tool": tool_of("delegate", delegate)}) as agent:
        # The task runs as soon as the tool waits, so its message is there when the turn ends.
        await agent.run("go")
        await trio.testing.wait_all_tasks_blocked()
        assert answers == ["the task's"]
