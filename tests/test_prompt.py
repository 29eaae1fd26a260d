"""The system prompt: sections in order, variables that must have a value, and the tools an agent has."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from dsh.agents import Agent, AgentOptions
from dsh.config import Config
from dsh.errors import ConfigError, PluginError, PromptError
from dsh.prompt import Assembly, Section, Sections, Variables, assemble, render
from dsh.testing import memory_agent, memory_harness, plugin_of, tool_of


def rendered(text: str, **variables: str | None) -> str:
    return render(Assembly((Section("s", 0, text),), variables, ()))


async def test_sections_stand_by_order_then_plugin_name() -> None:
    """J12."""

    def adding(name: str, order: int) -> object:
        def sections(sections: Sections) -> None:
            sections.add(name, f"<{name}>", order)

        return plugin_of(prompt_sections=sections)

    plugins = {"z": adding("first", 100), "b": adding("third", 200), "a": adding("second", 200)}
    config = Config(system_prompt="<persona>")
    async with memory_agent(plugins=plugins, config=config) as agent:
        system = (await assemble(agent)).system
        parts = [part for part in system.split("\n\n") if part.startswith("<")]
        assert parts == ["<persona>", "<first>", "<second>", "<third>"]
        assert system.startswith("You are dsh")


async def test_the_agents_own_options_stand_in_for_the_configured_ones() -> None:
    config = Config(system_prompt="configured", append_system_prompt="appended")
    async with memory_harness(config=config) as harness:
        plain = harness.create_agent(options=AgentOptions()).agent
        assert "configured" in (await assemble(plain)).system
        assert (await assemble(plain)).system.endswith("appended")
        own = harness.create_agent(options=AgentOptions(system_prompt="own", append_system_prompt="last")).agent
        system = (await assemble(own)).system
        assert "configured" not in system
        assert "own" in system
        assert system.endswith("last")


async def test_cwd_model_and_platform_have_values() -> None:
    """J12."""

    def sections(sections: Sections) -> None:
        sections.add("mine", "{{model}} in {{cwd}} on {{platform}}", 1000)

    async with memory_agent(plugins={"mine": plugin_of(prompt_sections=sections)}, cwd="/somewhere") as agent:
        system = (await assemble(agent)).system
        assert "scripted/model in /somewhere on " in system
        assert "You are working in /somewhere" in system


async def test_a_variable_of_a_plugin() -> None:
    def variables(variables: Variables) -> None:
        variables.set("branch", "main")

    def sections(sections: Sections) -> None:
        sections.add("git", "On {{branch}}.")

    plugin = plugin_of(prompt_variables=variables, prompt_sections=sections)
    async with memory_agent(plugins={"git": plugin}) as agent:
        assert "On main." in (await assemble(agent)).system


async def test_an_agents_scope_hides_sections_and_variables_of_that_name() -> None:
    def adding(text: str) -> object:
        def sections(sections: Sections) -> None:
            sections.add("who", text)

        return plugin_of(prompt_sections=sections)

    async with memory_agent(plugins={"all": adding("everyone")}) as agent:
        agent.plugins.register(adding("me alone"))
        system = (await assemble(agent)).system
        assert "me alone" in system
        assert "everyone" not in system


async def test_two_sections_of_one_name_are_an_error_that_names_both_plugins() -> None:
    def sections(sections: Sections) -> None:
        sections.add("who", "x")

    plugins = {"one": plugin_of(prompt_sections=sections), "two": plugin_of(prompt_sections=sections)}
    async with memory_agent(plugins=plugins) as agent:
        with pytest.raises(PluginError, match="one and two"):
            await assemble(agent)


async def test_a_plugin_may_rewrite_the_whole_assembly() -> None:
    def without(assembly: Assembly) -> Assembly:
        return evolve(assembly, sections=(Section("only", 0, "only {{model}}"),), tools=assembly.tools[:1])

    plugins = {"w": plugin_of(prompt_assemble=without), "a": tool_of("a"), "b": tool_of("b")}
    async with memory_agent(plugins=plugins) as agent:
        assembled = await assemble(agent)
        assert assembled.system == "only scripted/model"
        assert [schema.name for schema in assembled.schemas] == ["a"]


# -- tools


async def tools_of(options: AgentOptions) -> list[str]:
    async with memory_agent(options=options, plugins={n: tool_of(n) for n in ("edit", "read", "run")}) as agent:
        assembled = await assemble(agent)
        assert [schema.name for schema in assembled.schemas] == list(assembled.tools)
        return list(assembled.tools)


async def test_an_agent_has_the_tools_that_its_options_say() -> None:
    assert await tools_of(AgentOptions()) == ["edit", "read", "run"]
    assert await tools_of(AgentOptions(tools=("run", "read"))) == ["read", "run"]
    assert await tools_of(AgentOptions(tools=())) == []
    assert await tools_of(AgentOptions(without_tools=("run",))) == ["edit", "read"]
    assert await tools_of(AgentOptions(tools=("read", "run"), without_tools=("run",))) == ["read"]


@pytest.mark.parametrize("options", [AgentOptions(tools=("reed",)), AgentOptions(without_tools=("reed",))])
async def test_a_tool_that_is_not_there_is_an_error_with_a_guess(options: AgentOptions) -> None:
    with pytest.raises(ConfigError, match=r"'reed'; did you mean read\? \(the tools are: edit, read, run\)"):
        await tools_of(options)


# -- rendering


def test_empty_sections_are_left_out() -> None:
    sections = (Section("a", 0, "one"), Section("b", 1, ""), Section("c", 2, "two"))
    assert render(Assembly(sections, {}, ())) == "one\n\ntwo"
    assert render(Assembly((), {}, ())) == ""


def test_a_variable_is_replaced_and_its_value_is_not_looked_at_again() -> None:
    """J12."""
    assert rendered("a {{x}} b {{x}}", x="{{y}}") == "a {{y}} b {{y}}"
    assert rendered("{{x}}{{long_name2}}", x="1", long_name2="2") == "12"


@pytest.mark.parametrize("text", ["{{", "a {{ b", "}} {{", "{{x}} {{", "{ x }", "}}", "{{{"])
def test_an_opening_without_a_closing_behind_it_is_text(text: str) -> None:
    """J12."""
    assert rendered(text, x="{{x}}") == text


@pytest.mark.parametrize("text", ["{{ x }}", "{{}}", "{{{x}}}", "{{a{b}}", "{{X}}", "{{1x}}", "{{x y}}", "{{ {{x}}"])
def test_a_malformed_group_is_an_error_that_names_the_section(text: str) -> None:
    """J12."""
    with pytest.raises(PromptError, match=r"section 's': .* is no variable"):
        rendered(text, x="1")


def test_an_unknown_variable_is_an_error_that_says_which_there_are() -> None:
    """J12."""
    with pytest.raises(PromptError, match=r"section 's': there is no variable 'z' \(there are: x, y\)"):
        rendered("{{z}}", y="1", x="2")
    with pytest.raises(PromptError, match="there are: none"):
        rendered("{{z}}")


def test_a_variable_without_a_value_is_an_error() -> None:
    """J12."""
    with pytest.raises(PromptError, match="'x' has no value"):
        rendered("{{x}}", x=None)


@pytest.mark.parametrize("name", ["", "X", "1x", "a-b", "a b", "a\n", "{{"])
def test_a_bad_name_for_a_variable_is_refused(name: str) -> None:
    with pytest.raises(PromptError, match="no name for a variable"):
        Variables().set(name, "x")


@given(st.text(alphabet="{}ax ", max_size=20))
def test_rendering_replaces_or_complains_or_leaves_alone(text: str) -> None:
    try:
        result = rendered(text, x="X", a="A", ax="B", xa="C")
    except PromptError:
        assert "}}" in text[text.index("{{") :]
    else:
        assert result == text or "{{" in text


async def test_a_prompt_is_made_anew_for_every_step_and_every_agent() -> None:
    def sections(agent: Agent, sections: Sections) -> None:
        sections.add("id", f"You are {agent.id}.")

    async with memory_harness(plugins={"id": plugin_of(prompt_sections=sections)}) as harness:
        for id in ("one", "two"):
            agent = harness.create_agent(agent_id=id).agent
            assert f"You are {id}." in (await assemble(agent)).system
