"""What a request begins with: a change is logged with the plugin that made it, and nothing is logged without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import dsh_prefix
import pytest
from dsh_prefix.events import PrefixChanged
from dsh_prefix.pieces import difference, excerpt
from hypothesis import given
from hypothesis import strategies as st

from dsh import Agent, Tool
from dsh.config import Config
from dsh.llm.scripted import Reply
from dsh.messages import Message, PluginSource, Text
from dsh.prompt import Prefix, Sections, Variables
from dsh.session.events import Replace, ToolResult, TurnEnd, UserMessage
from dsh.testing import call, memory_agent, memory_harness, plugin_of, shape, text, tool_of, wrapper_of

STEPS = 4


def steps(count: int = STEPS) -> list[Reply]:
    return [*(call("look", {}, id=f"c{number}") for number in range(count - 1)), text("done")]


def changes(agent: Agent) -> list[PrefixChanged]:
    return [event.data for event in agent.session.events if isinstance(event.data, PrefixChanged)]


async def changed_by(plugin: object, *, strict: bool = False, count: int = STEPS) -> tuple[list[PrefixChanged], str]:
    """What is logged of a run with a plugin called ``culprit``, and how its log looks."""
    plugins = {"prefix": dsh_prefix, "looking": tool_of("look"), "culprit": plugin}
    config = Config(tables={"prefix": {"strict": strict}})
    async with memory_agent(*steps(count), plugins=plugins, config=config) as agent:
        await agent.run("go")
        return changes(agent), shape(agent.session.events)


def counted(at: int) -> Callable[[], bool]:
    """True from the call `at` on, counted from 1."""
    calls = 0

    def later() -> bool:
        nonlocal calls
        calls += 1
        return calls >= at

    return later


def section(text_at: Callable[[bool], str], at: int) -> object:
    later = counted(at)

    def prompt_sections(sections: Sections) -> None:
        sections.add("mine", text_at(later()), 50)

    return plugin_of(prompt_sections=prompt_sections)


async def test_a_run_that_only_grows_logs_nothing() -> None:
    found, _ = await changed_by(section(lambda later: "always the same", 2))
    assert found == []


async def test_a_section_that_changes_names_its_plugin() -> None:
    found, line = await changed_by(section(lambda later: "It is 10:0" + ("4" if later else "3"), 3))

    (change,) = found
    assert (change.turn, change.step) == (1, 3)
    assert (change.segment, change.name, change.plugin, change.cause) == ("system", "mine", "culprit", "changed")
    assert (change.at, change.before, change.after) == (10, "It is 10:03", "It is 10:04")
    assert change.before_hash != change.after_hash
    assert "HD prefix/changed" in line


async def test_a_section_that_changes_every_step_is_named_every_step() -> None:
    numbers = iter(range(100))
    found, _ = await changed_by(
        plugin_of(prompt_sections=lambda sections: sections.add("clock", f"tick {next(numbers)}", 50))
    )
    assert [change.step for change in found] == [2, 3, 4]


async def test_a_section_that_comes_and_one_that_goes() -> None:
    (added,), _ = await changed_by(section(lambda later: "here" if later else "", 2))
    assert (added.segment, added.name, added.plugin, added.cause) == ("system", "mine", "culprit", "added")
    (removed,), _ = await changed_by(section(lambda later: "" if later else "here", 2))
    assert (removed.segment, removed.name, removed.plugin, removed.cause) == ("system", "mine", "culprit", "removed")


async def test_a_variable_that_changes_names_who_sets_it() -> None:
    later = counted(2)
    culprit = plugin_of(prompt_variables=lambda variables: variables.set("mood", "bad" if later() else "good"))
    plugins = {
        "prefix": dsh_prefix,
        "looking": tool_of("look"),
        "culprit": culprit,
        "innocent": plugin_of(prompt_sections=lambda sections: sections.add("mood", "The mood is {{mood}}.")),
    }
    async with memory_agent(*steps(2), plugins=plugins) as agent:
        await agent.run("go")
        (change,) = changes(agent)
    assert (change.name, change.plugin, change.before) == ("mood", "culprit", "The mood is good.")


async def test_who_rewrites_what_others_gave_is_named() -> None:
    later = counted(3)

    def prompt_assemble(agent: Agent) -> Any:
        assembly = yield
        if not later():
            return assembly
        first = attrs.evolve(assembly.sections[0], text="rewritten")
        return attrs.evolve(assembly, sections=(first, *assembly.sections[1:]))

    found, _ = await changed_by(wrapper_of(prompt_assemble=prompt_assemble))
    (change,) = found
    assert (change.segment, change.plugin, change.after) == ("system", "culprit", "rewritten")


def tools_from(at: int, before: list[str], after: list[str], note: str = "") -> object:
    later = counted(at)

    def tools_register(tools: Any) -> None:
        now = later()
        for name in after if now else before:
            described = f"The tool {name}.{note if now else ''}"
            tools.add(Tool(name, described, {"type": "object"}, lambda arguments, call: "done"))

    return plugin_of(tools_register=tools_register)


@pytest.mark.parametrize(
    ("before", "after", "note", "name", "cause"),
    [
        (["a", "b"], ["a", "b", "c"], "", "c", "added"),
        (["a", "b"], ["b"], "", "a", "removed"),
        (["a", "z"], ["a", "z"], "!", "a", "changed"),
        ([], ["zz"], "", "zz", "added"),
    ],
)
async def test_a_tool_that_changes_names_its_plugin(
    before: list[str], after: list[str], note: str, name: str, cause: str
) -> None:
    found, _ = await changed_by(tools_from(3, before, after, note))
    (change,) = found
    assert (change.segment, change.name, change.plugin, change.cause) == ("tools", name, "culprit", cause)


async def test_strict_ends_the_turn_and_names_the_plugin() -> None:
    found, line = await changed_by(section(lambda later: "b" if later else "a", 2), strict=True)
    assert len(found) == 1
    assert line.endswith("HD prefix/changed D(prefix raised) S-2 T-(error 2)")

    plugins = {"prefix": dsh_prefix, "looking": tool_of("look"), "culprit": section(lambda x: "b" if x else "a", 2)}
    config = Config(tables={"prefix": {"strict": True}})
    async with memory_agent(*steps(2), plugins=plugins, config=config) as agent:
        await agent.run("go")
        end = agent.session.events[-1].data
    assert isinstance(end, TurnEnd)
    assert end.reason.code == "PREFIX_CHANGED"
    assert "by culprit" in (end.reason.message or "")


async def test_a_replacement_in_the_log_is_named_and_never_an_error() -> None:
    """What compaction does is in the log; strict is about what nobody logged."""

    def agent_pre_step(agent: Agent, turn: int, step: int) -> None:
        if step == 3:
            seqs = [seq for seq in agent.session.surface if isinstance(agent.session.events[seq].data, UserMessage)]
            data = UserMessage((Text("shorter"),), PluginSource("culprit"))
            agent.session.append(data, replace=Replace(seqs[0], seqs[0]), sources=seqs[:1])

    found, line = await changed_by(plugin_of(agent_pre_step=agent_pre_step), strict=True)
    (change,) = found
    assert (change.segment, change.name, change.plugin, change.cause) == ("message", "0", "culprit", "replaced")
    assert line.endswith("T-(completed)")


async def test_a_replaced_result_is_laid_to_the_plugin_whose_event_stands_before_it() -> None:
    @attrs.frozen
    class Cut:
        type = "culprit/cut"

    Cut.__module__ = "culprit_package.events"

    class Culprit:
        pass

    def agent_pre_step(agent: Agent, turn: int, step: int) -> None:
        events = agent.session.events
        if step == 3:
            seq = next(seq for seq in agent.session.surface if isinstance(events[seq].data, ToolResult))
            agent.session.append(Cut())
            agent.session.append(
                attrs.evolve(events[seq].data, content=(Text("cut"),)), replace=Replace(seq, seq), sources=[seq]
            )

    culprit = plugin_of(agent_pre_step=agent_pre_step, session_event_types=lambda types: types.add(Cut))
    Culprit.__module__ = "culprit_package"
    named = Culprit()
    named.__dict__.update(culprit.__dict__)
    found, _ = await changed_by(named)
    (change,) = found
    assert (change.segment, change.plugin, change.cause) == ("message", "culprit", "replaced")


async def test_another_model_is_named_and_never_an_error() -> None:
    def agent_request(agent: Agent, step: int) -> Any:
        config = yield
        return attrs.evolve(config, model="scripted/other") if step >= 3 else config

    found, line = await changed_by(wrapper_of(agent_request=agent_request), strict=True)
    (change,) = found
    assert (change.segment, change.before, change.after) == ("model", "scripted/model", "scripted/other")
    assert line.endswith("T-(completed)")


def prefix_of(*texts: str) -> object:
    def agent_session_prefix(prefix: Prefix) -> None:
        for number, words in enumerate(texts):
            prefix.add(words, order=number)

    return plugin_of(agent_session_prefix=agent_session_prefix)


@pytest.mark.parametrize(
    ("first", "second", "segment", "name", "plugin"),
    [
        (
            {"a": prefix_of("one"), "b": prefix_of("two")},
            {"a": prefix_of("one"), "b": prefix_of("2")},
            "prefix",
            "1",
            "b",
        ),
        (
            {"a": plugin_of(prompt_sections=lambda sections: sections.add("s", "old"))},
            {"a": plugin_of(prompt_sections=lambda sections: sections.add("s", "new"))},
            "system",
            "s",
            "a",
        ),
        ({"a": tool_of("alpha")}, {"a": tool_of("beta")}, "tools", "alpha", ""),
        ({}, {}, "", "", ""),
    ],
)
async def test_a_session_that_goes_on_elsewhere_is_compared_with_its_log(
    first: dict[str, object], second: dict[str, object], segment: str, name: str, plugin: str
) -> None:
    """What a resumed session sends is compared with what its log says was sent last."""
    async with memory_agent(text("one"), plugins={"prefix": dsh_prefix, **first}) as agent:
        await agent.run("first")
        events = list(agent.session.events)
    async with memory_agent(text("two"), plugins={"prefix": dsh_prefix, **second}, seed=events) as agent:
        await agent.run("second")
        found = changes(agent)
    assert [(change.segment, change.name) for change in found] == ([(segment, name)] if segment else [])
    if plugin:
        assert found[0].plugin == plugin


async def test_the_segments_of_a_request_have_their_plugins_and_hashes() -> None:
    plugins = {
        "prefix": dsh_prefix,
        "looking": tool_of("look"),
        "first": prefix_of("hello"),
        "words": plugin_of(prompt_sections=lambda sections: sections.add("mine", "My section.", 50)),
    }
    async with memory_agent(*steps(2), plugins=plugins) as agent:
        assert dsh_prefix.segments(agent) == []
        await agent.run("go")
        found = dsh_prefix.segments(agent)
    assert [(segment.kind, segment.name, segment.plugin) for segment in found] == [
        ("model", "", ""),
        ("system", "harness:identity", "dsh"),
        ("system", "harness:environment", "dsh"),
        ("system", "mine", "words"),
        ("tools", "look", "looking"),
        ("prefix", "0", "first"),
        ("message", "1", ""),
        ("message", "2", ""),
        ("message", "3", ""),
    ]
    assert len({segment.hash for segment in found}) == len(found)
    assert all(len(segment.hash) == 64 for segment in found)


async def test_requests_that_are_no_steps_are_left_alone() -> None:
    async def agent_pre_step(agent: Agent, step: int) -> None:
        from dsh import Request

        request = Request("scripted/model", (Message("user", "sum it up"),))
        async for _ in await agent.harness.llm.stream(request, agent):
            pass

    plugins = {"prefix": dsh_prefix, "asking": plugin_of(agent_pre_step=agent_pre_step)}
    async with memory_agent(text("aside"), text("one"), text("aside"), text("two"), plugins=plugins) as agent:
        await agent.run("first")
        await agent.run("second")
        assert changes(agent) == []


async def test_agents_are_told_apart() -> None:
    plugins = {"prefix": dsh_prefix, "looking": tool_of("look")}
    async with memory_harness(*steps(2), *steps(2), plugins=plugins) as harness:
        from dsh import AgentOptions

        agents = [
            harness.create_agent(options=AgentOptions(model="scripted/model", system_prompt=persona)).agent
            for persona in ("You are one.", "You are two.")
        ]
        for agent in agents:
            await agent.run("go")
        assert [changes(agent) for agent in agents] == [[], []]


@given(st.text(), st.text(), st.text())
def test_the_first_difference(common: str, one: str, other: str) -> None:
    at = difference(common + one, common + other)
    assert at >= len(common)
    assert (common + one)[:at] == (common + other)[:at]
    assert (common + one)[at : at + 1] != (common + other)[at : at + 1] or common + one == common + other


@given(st.text(min_size=1, max_size=200), st.integers(0, 199))
def test_an_excerpt_is_short_and_shows_the_place(whole: str, at: int) -> None:
    shown = excerpt(whole, at)
    assert len(shown) <= 62
    assert whole[at : at + 1] in shown


def test_the_event_speaks() -> None:
    change = PrefixChanged(1, 3, "system", "clock", "culprit", "changed", 7, "10:03", "10:04")
    assert change.notice == (
        "[prefix] the request's beginning changed: system clock was changed by culprit, at character 7: "
        "'10:03' is '10:04' now"
    )


async def test_variables_that_nobody_uses_do_not_matter() -> None:
    numbers = iter(range(100))

    def prompt_variables(variables: Variables) -> None:
        variables.set("count", str(next(numbers)))

    found, _ = await changed_by(plugin_of(prompt_variables=prompt_variables))
    assert found == []
