"""Owners: unloading a plugin ends the agents and tasks that it owns, and takes it out."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh import Agent, AgentOptions, Harness, hookimpl
from dsh.config import Config, PluginsConfig
from dsh.errors import AgentError, LlmError, PluginError
from dsh.session import events as ev
from dsh.testing import ScriptedModel, hang, memory_harness, on_event, plugin_of, shape, tool_of

OPTIONS = AgentOptions(model="scripted/model")


async def test_unloading_an_owner_in_the_middle_of_a_turn() -> None:
    """I06."""
    log: list[tuple[str, bool, bool]] = []

    def note(what: str) -> None:
        log.append((what, harness.agents.get("mine") is not None, harness.sessions.get("s") is not None))

    watcher = plugin_of(agent_disposed=lambda agent: note("agent_disposed"))
    plugins = {
        "owner": plugin_of(dsh_unconfigure=lambda harness: note("dsh_unconfigure")),
        "end": on_event(ev.TurnEnd, lambda event: note("turn/end")),
        "watcher": watcher,
    }
    async with memory_harness(hang("so far"), plugins=plugins) as harness:
        mine = harness.create_agent(agent_id="mine", session_id="s", options=OPTIONS, owner="owner").agent
        other = harness.create_agent(agent_id="other", options=OPTIONS).agent
        mine.send("go")
        await trio.testing.wait_all_tasks_blocked()
        await harness.unload("owner")
        note("unloaded")
        assert not harness.plugins.has_plugin("owner")
        assert harness.agents.list() == [other]
        assert shape(mine.session.events).endswith("A~ S-1 T-(disposed)")
    assert log[:4] == [
        ("turn/end", True, True),
        ("agent_disposed", False, True),
        ("dsh_unconfigure", False, False),
        ("unloaded", False, False),
    ]
    assert [what for what, _, _ in log[4:]] == ["agent_disposed"]  # the other one, when the harness closes


async def test_an_owner_hears_of_the_end_of_its_agents() -> None:
    heard: list[str] = []
    async with memory_harness(plugins={"owner": plugin_of(agent_disposed=lambda agent: heard.append(agent.id))}) as h:
        h.create_agent(agent_id="mine", options=OPTIONS, owner="owner")
        await h.unload("owner")
    assert heard == ["mine"]


async def test_tasks_end_with_their_owner() -> None:
    ended: list[str] = []

    async def task(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(name)

    async with memory_harness(plugins={"owner": plugin_of(), "other": plugin_of()}) as harness:
        harness.start_soon(task, "mine", owner="owner")
        harness.start_soon(task, "other", owner="other")
        await trio.testing.wait_all_tasks_blocked()
        await harness.unload("owner")
        assert ended == ["mine"]
    assert ended == ["mine", "other"]


async def test_a_task_that_dies_is_a_warning_that_names_its_owner() -> None:
    async def dies() -> None:
        raise ValueError("oh")

    warnings: list[str] = []
    async with memory_harness(plugins={"owner": plugin_of()}, warnings=warnings) as harness:
        harness.start_soon(dies, owner="owner")
        await trio.testing.wait_all_tasks_blocked()
    assert warnings[-1:] == ["a task of owner: oh"]


async def test_children_of_an_owned_agent_end_with_it() -> None:
    async with memory_harness(plugins={"owner": plugin_of()}) as harness:
        mine = harness.create_agent(options=OPTIONS, owner="owner").agent
        harness.create_agent(parent=mine, options=OPTIONS)
        await harness.unload("owner")
        assert harness.agents.list() == []


async def test_a_plugin_that_is_unregistered_by_hand_leaves_nothing_either() -> None:
    ended = trio.Event()

    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async with memory_harness(hang(), plugins={"owner": plugin_of()}) as harness:
        mine = harness.create_agent(options=OPTIONS, owner="owner").agent
        mine.send("go")
        harness.start_soon(task, owner="owner")
        await trio.testing.wait_all_tasks_blocked()
        harness.plugins.unregister(name="owner")
        await mine.when_idle()
        await trio.testing.wait_all_tasks_blocked()
        assert harness.agents.list() == []
        assert ended.is_set()
        assert shape(mine.session.events).endswith("T-(disposed)")


async def test_an_agent_may_be_disposed_before_its_owner_is_unloaded() -> None:
    async with memory_harness(plugins={"owner": plugin_of()}) as harness:
        await harness.create_agent(agent_id="a", options=OPTIONS, owner="owner").dispose()
        kept = harness.create_agent(agent_id="a", options=OPTIONS).agent
        await harness.unload("owner")
        assert harness.agents.list() == [kept]


async def test_what_a_plugin_registered_is_gone_with_it() -> None:
    async with memory_harness(plugins={"tools": tool_of("work")}) as harness:
        agent: Agent = harness.create_agent(options=OPTIONS).agent
        assert agent.hook.tools_register is not None
        await harness.unload("tools")
        assert [impl.plugin_name for impl in agent.plugins.implementations("tools_register")] == []


async def test_an_error_while_unloading_is_a_warning() -> None:
    def broken(harness: Harness) -> None:
        raise ValueError("stuck")

    warnings: list[str] = []
    async with memory_harness(plugins={"owner": plugin_of(dsh_unconfigure=broken)}, warnings=warnings) as harness:
        await harness.unload("owner")
        assert not harness.plugins.has_plugin("owner")
    assert len(warnings) == 1
    assert "stuck" in warnings[0]


async def test_a_plugin_that_does_not_close_is_left_behind(autojump_clock: trio.testing.MockClock) -> None:
    class Stuck:
        @hookimpl
        async def dsh_unconfigure(self) -> None:
            await trio.sleep_forever()

    warnings: list[str] = []
    async with memory_harness(plugins={"stuck": Stuck()}, warnings=warnings) as harness:
        await harness.unload("stuck")
        assert not harness.plugins.has_plugin("stuck")
    assert "took longer than 10 s" in warnings[0]


async def test_an_owner_has_to_be_a_plugin() -> None:
    async with memory_harness(plugins={"owner": plugin_of()}) as harness:
        with pytest.raises(AgentError, match=r"no plugin 'owne' to own this; did you mean owner\?"):
            harness.create_agent(options=OPTIONS, owner="owne")
        with pytest.raises(AgentError, match="no plugin 'owne'"):
            harness.start_soon(trio.sleep_forever, owner="owne")
        assert harness.agents.list() == []


async def test_the_parts_of_a_plugin_go_with_it() -> None:
    closed: list[str] = []
    part = plugin_of(dsh_unconfigure=lambda: closed.append("part"))
    whole = plugin_of(
        dsh_configure=lambda harness: harness.plugins.register(part, "whole.part") and None,
        dsh_unconfigure=lambda: closed.append("whole"),
    )
    async with memory_harness(plugins={"whole": whole, "wholesome": plugin_of()}) as harness:
        await harness.unload("whole")
        assert sorted(closed) == ["part", "whole"]
        names = {name for name, _ in harness.plugins.list_name_plugin()}
        assert not names & {"whole", "whole.part"}
        assert "wholesome" in names
    assert sorted(closed) == ["part", "whole"]


async def test_models_of_a_plugin_are_gone_with_it() -> None:
    """K02."""

    class Other(ScriptedModel):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    other = Other(provider="other")
    async with memory_harness(plugins={"other": other}) as harness:
        assert sorted(harness.llm.adapters) == ["other", "scripted"]
        await harness.unload("other")
        assert other.closed == 1
        assert sorted(harness.llm.adapters) == ["scripted"]
        with pytest.raises(LlmError, match="no provider serves the model 'other/model'"):
            harness.llm.resolve("other/model")
    assert other.closed == 1


async def test_who_makes_agents_is_not_unloaded() -> None:
    async with memory_harness() as harness:
        with pytest.raises(PluginError, match="loop makes agents"):
            await harness.unload("loop")


async def test_guards_and_strangers_are_not_unloaded() -> None:
    config = Config(plugins=PluginsConfig(required=("guard",)))
    async with memory_harness(plugins={"guard": plugin_of()}, config=config) as harness:
        with pytest.raises(PluginError, match="required guard"):
            await harness.unload("guard")
        with pytest.raises(PluginError, match="no plugin 'gard' to unload; did you mean guard"):
            await harness.unload("gard")
