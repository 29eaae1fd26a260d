"""Opening and closing: settings are read, plugins are heard, and nothing is left running."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
import trio
import trio.testing
from attrs import frozen

from dsh.agents import AgentOptions
from dsh.config import Config, PluginsConfig, dsh_home
from dsh.errors import AgentError, ConfigError, PluginError
from dsh.harness import Harness, open_harness
from dsh.session import events as ev
from dsh.testing import ScriptedModel, call, hang, memory_agent, memory_harness, plugin_of, shape, text, tool_of

OPTIONS = AgentOptions(model="scripted/model")


@frozen
class Settings:
    size: int = 1


@frozen
class Noted:
    type: ClassVar[str] = "notes/noted"
    text: str


def test_the_home_is_named_by_the_environment_or_in_the_persons_own(tmp_path: Path) -> None:
    assert dsh_home({"DSH_HOME": str(tmp_path)}) == tmp_path
    assert dsh_home({}) == Path.home() / ".dsh"
    assert dsh_home({"DSH_HOME": "~/x"}) == Path.home() / "x"


async def test_plugins_hear_opening_and_closing() -> None:
    heard: list[str] = []
    plugin = plugin_of(
        dsh_configure=lambda harness: heard.append(f"configure {type(harness).__name__}"),
        dsh_unconfigure=lambda harness: heard.append(f"unconfigure with {len(harness.agents.list())} agents"),
    )
    async with memory_harness(plugins={"p": plugin}) as harness:
        harness.create_agent()
        assert heard == ["configure Harness"]
    assert heard == ["configure Harness", "unconfigure with 0 agents"]


async def test_a_plugin_reads_its_table() -> None:
    read: list[Settings] = []
    plugin = plugin_of(dsh_configure=lambda harness: read.append(harness.config.section("mine", Settings)))
    async with memory_harness(plugins={"mine": plugin}, config=Config(tables={"mine": {"size": 3}})):
        assert read == [Settings(3)]


async def test_a_table_that_nobody_reads_is_an_error_with_a_guess() -> None:
    with pytest.raises(ConfigError, match=r"modle: .*did you mean model\?"):
        async with memory_harness(config=Config(tables={"modle": {}})):
            pass


@pytest.mark.parametrize(
    "hook", ["dsh_configure", "llm_adapters", "agent_factory", "session_event_types", "secrets_register"]
)
async def test_an_error_while_opening_comes_out_as_itself_and_names_the_plugin(hook: str) -> None:
    def broken() -> None:
        raise ValueError("no")

    closed: list[int] = []
    plugins = {"bad": plugin_of(**{hook: broken}), "good": plugin_of(dsh_unconfigure=lambda: closed.append(1))}
    with pytest.raises(ValueError, match="no") as caught:
        async with memory_harness(plugins=plugins):
            pass
    assert any("'bad'" in note for note in caught.value.__notes__)
    assert closed == [1]


async def test_an_error_in_the_block_comes_out_as_itself() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with memory_harness():
            raise KeyError("mine")


async def test_a_group_raised_in_the_block_comes_out_whole() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with memory_harness():
            raise ExceptionGroup("mine", [KeyError("a"), ValueError("b")])
    assert [type(error) for error in caught.value.exceptions] == [KeyError, ValueError]


async def test_an_error_in_the_block_is_not_hidden_by_one_of_closing() -> None:
    def broken() -> None:
        raise ValueError("while closing")

    warnings: list[str] = []
    with pytest.raises(KeyError, match="mine"):
        async with memory_harness(plugins={"bad": plugin_of(dsh_unconfigure=broken)}, warnings=warnings):
            raise KeyError("mine")
    assert any("while closing" in warning and "'bad'" in warning for warning in warnings)


async def test_every_plugin_is_closed_even_if_one_raises() -> None:
    closed: list[str] = []

    def broken() -> None:
        raise ValueError("no")

    plugins = {
        "a": plugin_of(dsh_unconfigure=lambda: closed.append("a")),
        "b": plugin_of(dsh_unconfigure=broken),
        "c": plugin_of(dsh_unconfigure=lambda: closed.append("c")),
    }
    with pytest.raises(ValueError, match="no"):
        async with memory_harness(plugins=plugins):
            pass
    assert sorted(closed) == ["a", "c"]


async def test_a_plugin_that_does_not_close_is_left_behind_with_a_warning(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def stuck() -> None:
        await trio.sleep_forever()

    warnings: list[str] = []
    async with memory_harness(plugins={"stuck": plugin_of(dsh_unconfigure=stuck)}, warnings=warnings):
        pass
    assert any("took longer than 10 s" in warning for warning in warnings)


# -- tasks


async def test_tasks_end_with_the_harness() -> None:
    ended: list[str] = []

    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("task")

    plugin = plugin_of(dsh_unconfigure=lambda: ended.append("unconfigure"))
    async with memory_harness(plugins={"p": plugin}) as harness:
        harness.start_soon(task)
        await trio.testing.wait_all_tasks_blocked()
    assert ended == ["task", "unconfigure"]


async def test_a_task_that_dies_is_a_warning() -> None:
    async def dies() -> None:
        raise ValueError("mine")

    warnings: list[str] = []
    async with memory_harness(text("a"), warnings=warnings) as harness:
        harness.start_soon(dies)
        await trio.testing.wait_all_tasks_blocked()
        assert len(warnings) == 1
        assert "mine" in warnings[0]
        assert (await harness.create_agent(options=OPTIONS).agent.run("go")).text == "a"


async def test_a_task_that_fails_while_the_program_is_cancelled_is_a_warning() -> None:
    async def fails_late() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("cleanup failed")

    warnings: list[str] = []
    with trio.CancelScope() as scope:
        async with memory_harness(warnings=warnings) as harness:
            harness.start_soon(fails_late)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert any("cleanup failed" in warning for warning in warnings)


# -- closing while agents work


async def test_closing_ends_the_agents_that_work() -> None:
    async with memory_harness(hang("so far")) as harness:
        agent = harness.create_agent(options=OPTIONS).agent
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
    assert shape(agent.session.events) == "T+1 U S+1 H(initial) C×2 A~ S-1 T-(disposed)"
    assert agent.status == "disposed"


async def test_a_cancelled_program_closes_its_logs_and_flushes_them() -> None:
    """All of it is shielded; only then does the cancellation go on."""
    flushed: list[str] = []

    async def flush() -> None:
        await trio.lowlevel.checkpoint()
        flushed.append(shape(agent.session.events)[-12:])

    async def unconfigure() -> None:
        await trio.lowlevel.checkpoint()
        flushed.append("unconfigure")

    plugin = plugin_of(session_flush=flush, dsh_unconfigure=unconfigure)
    with trio.CancelScope() as scope:
        async with memory_harness(call("work"), plugins={"p": plugin, "work": tool_of("work", stuck)}) as harness:
            agent = harness.create_agent(options=OPTIONS).agent
            agent.send("go")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert shape(agent.session.events).endswith("A TC(c1) TR!(c1) S-1 T-(disposed)")
    assert flushed == ["T-(disposed)", "unconfigure"]


async def stuck(call: object) -> None:
    await trio.sleep_forever()


async def test_a_program_cancelled_during_a_flush_waits_for_it() -> None:
    flushed: list[str] = []

    async def flush() -> None:
        await trio.sleep(0.01)
        flushed.append("done")

    with trio.CancelScope() as scope:
        async with memory_harness(text("a"), plugins={"p": plugin_of(session_flush=flush)}) as harness:
            harness.create_agent(options=OPTIONS).agent.send("go")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert flushed == ["done"]


async def test_a_flush_that_never_ends_does_not_keep_the_program(autojump_clock: trio.testing.MockClock) -> None:
    async def flush() -> None:
        await trio.sleep_forever()

    warnings: list[str] = []
    async with memory_harness(text("a"), plugins={"p": plugin_of(session_flush=flush)}, warnings=warnings) as harness:
        harness.create_agent(options=OPTIONS).agent.send("go")
        await trio.sleep(3600)
    assert any("flushing took longer" in warning for warning in warnings)


async def test_an_error_of_a_tool_in_a_cancelled_program_does_not_replace_the_cancellation() -> None:
    async def work(call: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("cleanup failed")

    with trio.CancelScope() as scope:
        async with memory_harness(call("work"), plugins={"work": tool_of("work", work)}) as harness:
            agent = harness.create_agent(options=OPTIONS).agent
            agent.send("go")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert shape(agent.session.events).endswith("TR!(c1) S-1 T-(disposed)")


async def test_cancelling_around_run_in_a_block_of_ones_own() -> None:
    with trio.CancelScope() as scope:
        async with memory_agent(hang()) as agent, trio.open_nursery() as nursery:
            nursery.start_soon(agent.run, "go")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert shape(agent.session.events).endswith("A~ S-1 T-(disposed)") or shape(agent.session.events).endswith(
        "A~ S-1 T-(aborted cancelled)"
    )


async def test_a_closing_harness_makes_no_agents() -> None:
    refused: list[str] = []

    def disposed(agent: object) -> None:
        try:
            harness.create_agent()
        except AgentError as error:
            refused.append(str(error))

    async with memory_harness(plugins={"p": plugin_of(agent_disposed=disposed)}) as harness:
        harness.create_agent()
    assert refused == ["the harness is closing; it makes no more agents"]


async def test_two_harnesses_in_one_program() -> None:
    async with memory_agent(text("a")) as one, memory_agent(text("b")) as two:
        assert (await one.run("go")).text == "a"
        assert (await two.run("go")).text == "b"
        assert one.harness is not two.harness


async def test_plugins_given_take_the_place_of_installed_ones(tmp_path: Path) -> None:
    """But only of those that are disabled: nobody replaces a guard by its name alone."""
    with pytest.raises(PluginError, match="two plugins called 'chat'"):
        async with open_harness(plugins={"chat": plugin_of()}, home=tmp_path):
            pass
    config = Config(plugins=PluginsConfig(disabled=("chat",)))
    async with open_harness(config, plugins={"chat": plugin_of()}, home=tmp_path, warn=lambda _: None) as harness:
        (info,) = (info for info in harness.plugins.loaded() if info.name == "chat")
        assert info.distribution is None
        assert isinstance(harness, Harness)
        assert harness.home == tmp_path


async def test_plugins_own_events_are_in_the_log() -> None:
    model = ScriptedModel(text("a"))
    plugins = {"notes": plugin_of(session_event_types=lambda types: types.add(Noted))}
    async with memory_agent(model=model, plugins=plugins) as agent:
        agent.plugins.register(plugin_of(agent_pre_step=lambda: agent.session.append(Noted("x")) and None))
        await agent.run("go")
        (noted,) = (e.data for e in agent.session.events if e.type == "notes/noted")
        assert noted == Noted("x")
        assert len(model.requests[0].messages) == 1
        assert isinstance(agent.session.events[0].data, ev.TurnStart)


async def test_nobody_waits_for_a_driver_that_the_program_has_cancelled() -> None:
    with trio.CancelScope() as scope:
        async with memory_agent(hang()) as agent:
            agent.send("go")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                await agent.when_idle()
    assert shape(agent.session.events).endswith("T-(disposed)")
