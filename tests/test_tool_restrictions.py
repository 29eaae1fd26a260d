"""Restrictions: tools that an agent does not have are not shown, and as unknown as if there were none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsh import Agent, AgentOptions, ToolCall, ToolResult, restrict_tools, tool_allowed
from dsh.config import Config, PromptConfig
from dsh.errors import AgentError, ConfigError
from dsh.prompt import assemble
from dsh.session import events as ev
from dsh.testing import ScriptedModel, call, memory_agent, memory_harness, plugin_of, reply, shape, text, tool_of

OPTIONS = AgentOptions(model="scripted/model")
TOOLS = {name: tool_of(name) for name in ("edit", "look", "run")}


async def shown(agent: Agent) -> list[str]:
    assembled = await assemble(agent)
    assert list(assembled.tools) == [schema.name for schema in assembled.schemas]
    return [schema.name for schema in assembled.schemas]


@pytest.mark.parametrize(
    ("allow", "deny", "left"),
    [
        (["look"], None, ["look"]),
        (None, ["run"], ["edit", "look"]),
        (["look", "run"], ["run"], ["look"]),
        ([], None, []),
    ],
)
async def test_what_is_left(allow: list[str] | None, deny: list[str] | None, left: list[str]) -> None:
    async with memory_agent(plugins=TOOLS) as agent:
        restrict_tools(agent, allow=allow, deny=deny)
        assert await shown(agent) == left
        assert [name for name in TOOLS if tool_allowed(agent, name)] == left


async def test_names_that_mean_nothing_yet_may_be_allowed_for() -> None:
    async with memory_agent(plugins=TOOLS) as agent:
        restrict_tools(agent, deny=["late", "run"], lenient=True)
        agent.harness.plugins.register(tool_of("late"), "late")
        assert await shown(agent) == ["edit", "look"]
        restrict_tools(agent, allow=["later", "look"], lenient=True)
        assert await shown(agent) == ["look"]
        agent.harness.plugins.register(tool_of("later"), "later")
        assert await shown(agent) == ["later", "look"]


async def test_restrictions_add_up_and_each_is_lifted_alone() -> None:
    async with memory_agent(plugins=TOOLS) as agent:
        lift_one = restrict_tools(agent, allow=["look", "run"])
        lift_other = restrict_tools(agent, allow=["edit", "run"])
        assert await shown(agent) == ["run"]
        lift_one()
        lift_one()
        assert await shown(agent) == ["edit", "run"]
        lift_other()
        assert await shown(agent) == ["edit", "look", "run"]


async def test_names_are_taken_when_the_restriction_is_made() -> None:
    allow = ["look"]
    async with memory_agent(plugins=TOOLS) as agent:
        restrict_tools(agent, allow=allow)
        allow.append("run")
        assert await shown(agent) == ["look"]


async def test_what_is_wrong_with_a_restriction_is_said_and_it_is_not_made() -> None:
    async with memory_harness(plugins=TOOLS) as harness:
        handle = harness.create_agent(options=OPTIONS)
        with pytest.raises(ConfigError, match=r"'ruun'; did you mean run\? \(the tools are: edit, look, run\)"):
            restrict_tools(handle.agent, allow=["look", "ruun"])
        with pytest.raises(ConfigError, match="'red', 'zip'"):
            restrict_tools(handle.agent, deny=["zip", "red"])
        with pytest.raises(ValueError, match="allow, deny, or both"):
            restrict_tools(handle.agent)
        assert await shown(handle.agent) == ["edit", "look", "run"]
        await handle.dispose()
        with pytest.raises(AgentError, match="is disposed"):
            restrict_tools(handle.agent, deny=["run"])


async def test_a_name_that_is_taken_away_already_may_be_named() -> None:
    async with memory_agent(plugins=TOOLS) as agent:
        restrict_tools(agent, allow=["look"])
        restrict_tools(agent, deny=["run"])
        assert await shown(agent) == ["look"]


async def test_a_call_of_it_is_as_unknown_as_one_that_never_was() -> None:
    ran: list[str] = []
    plugins = {"run": tool_of("run", lambda call: ran.append("run")), "look": tool_of("look")}

    async def answered(names: list[str], restricted: bool) -> ev.ToolResult:
        given = {name: plugins[name] for name in names}
        async with memory_agent(call("run"), text("ok"), plugins=given) as agent:
            if restricted:
                restrict_tools(agent, allow=["look"])
            await agent.run("go")
            (result,) = (event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult))
            return result

    masked = await answered(["run", "look"], restricted=True)
    assert masked == await answered(["look"], restricted=False)
    assert masked.error is not None
    assert masked.error.code == "UNKNOWN_TOOL"
    assert ran == []


async def test_options_are_enforced_in_the_same_way() -> None:
    ran: list[str] = []
    options = AgentOptions(model="scripted/model", without_tools=("run",))
    plugins = {"run": tool_of("run", lambda call: ran.append("run"))}
    async with memory_agent(call("run"), text("ok"), plugins=plugins, options=options) as agent:
        await agent.run("go")
        assert "TR!(c1)" in shape(agent.session.events)
    assert ran == []


@pytest.mark.parametrize("parallel", [False, True])
async def test_it_counts_from_the_moment_it_is_made_in_a_running_step(parallel: bool) -> None:
    """The first call takes away the tool of the second, which the model was shown."""
    ran: list[str] = []

    def work(call: ToolCall) -> str:
        ran.append(call.id)
        return "done"

    def review(call: ToolCall) -> None:
        if call.id == "c1":
            assert call.agent is not None
            restrict_tools(call.agent, deny=["run"])

    calls = reply(calls=[("c1", "look", "{}"), ("c2", "run", "{}")])
    plugins = {
        "run": tool_of("run", work, parallel=parallel),
        "look": tool_of("look", work),
        "strict": plugin_of(tools_post_execute=review),
    }
    async with memory_agent(calls, text("ok"), plugins=plugins) as agent:
        await agent.run("go")
        assert "TC(c1) TR(c1) TC(c2) TR!(c2)" in shape(agent.session.events)
    assert ran == ["c1"]


async def test_who_runs_calls_elsewhere_does_not_run_it_either() -> None:
    elsewhere: list[str] = []

    def execute(call: ToolCall) -> None:
        elsewhere.append(call.name)

    calls = reply(calls=[("c1", "run", "{}"), ("c2", "look", "{}")])
    async with memory_agent(calls, text("ok"), plugins={**TOOLS, "far": plugin_of(tools_execute=execute)}) as agent:
        restrict_tools(agent, deny=["run"])
        await agent.run("go")
    assert elsewhere == ["look"]


async def test_children_have_no_more_than_their_parent() -> None:
    async with memory_harness(plugins=TOOLS) as harness:
        parent = harness.create_agent(options=AgentOptions(model="scripted/model", without_tools=("edit",))).agent
        wide = AgentOptions(model="scripted/model", tools=("edit", "look", "run"))
        child = harness.create_agent(parent=parent, options=wide).agent
        assert await shown(child) == ["look", "run"]
        lift = restrict_tools(parent, deny=["run"])
        grandchild = harness.create_agent(parent=child, options=OPTIONS).agent
        assert await shown(child) == await shown(grandchild) == ["look"]
        restrict_tools(child, deny=["look"])
        assert await shown(parent) == ["look"]
        assert await shown(grandchild) == []
        lift()
        assert await shown(grandchild) == ["run"]


def with_report(agent: Agent) -> None:
    agent.plugins.register(tool_of("report"))


async def test_a_tool_in_an_agents_own_scope_was_meant_for_it() -> None:
    async with memory_harness(plugins=TOOLS) as harness:
        parent = harness.create_agent(options=OPTIONS).agent
        restrict_tools(parent, allow=["look"])
        child = harness.create_agent(parent=parent, options=OPTIONS, setup=with_report).agent
        restrict_tools(child, allow=["look", "run"])
        assert await shown(child) == ["look", "report"]
        assert await shown(parent) == ["look"]
        restrict_tools(child, deny=["report"])
        assert await shown(child) == ["look"]


async def test_the_list_of_the_options_covers_an_agents_own_scope_too() -> None:
    options = AgentOptions(model="scripted/model", tools=("look",))
    async with memory_agent(plugins=TOOLS, options=options) as agent:
        agent.plugins.register(tool_of("mine"))
        assert await shown(agent) == ["look"]


async def test_setup_may_restrict() -> None:
    def setup(agent: Agent) -> None:
        restrict_tools(agent, allow=["look"])

    model = ScriptedModel(text("ok"))
    async with memory_agent(model=model, plugins=TOOLS, setup=setup) as agent:
        await agent.run("go")
    assert [tool.name for tool in model.requests[0].tools or ()] == ["look"]


# -- the order in which they are shown


def ordered(*names: str) -> Config:
    return Config(prompt=PromptConfig(names))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((), ["edit", "look", "run"]),
        (("<unlisted-tools>",), ["edit", "look", "run"]),
        (("run", "<unlisted-tools>"), ["run", "edit", "look"]),
        (("look", "<unlisted-tools>", "edit"), ["look", "run", "edit"]),
    ],
)
async def test_tools_stand_in_the_configured_order(order: tuple[str, ...], expected: list[str]) -> None:
    async with memory_agent(plugins=TOOLS, config=ordered(*order)) as agent:
        assert await shown(agent) == expected


async def test_the_order_may_name_tools_that_an_agent_does_not_have() -> None:
    async with memory_agent(plugins=TOOLS, config=ordered("run", "<unlisted-tools>")) as agent:
        restrict_tools(agent, deny=["run"])
        assert await shown(agent) == ["edit", "look"]


async def test_an_order_with_an_unknown_tool_ends_the_turn_before_any_request() -> None:
    """G14."""
    model = ScriptedModel(text("never"))
    config = ordered("reed", "<unlisted-tools>")
    async with memory_agent(model=model, plugins=TOOLS, config=config) as agent:
        result = await agent.run("go")
        assert shape(agent.session.events) == "T+1 U T-(error 1)"
    assert model.requests == []
    assert result.reason is not None
    assert result.reason.message == "[prompt] tool_order: there is no tool 'reed' (the tools are: edit, look, run)"


async def test_no_tool_may_have_the_name_of_the_others() -> None:
    plugins = {"odd": tool_of("<unlisted-tools>")}
    async with memory_agent(plugins=plugins, config=ordered("<unlisted-tools>")) as agent:
        with pytest.raises(ConfigError, match="a tool cannot be called <unlisted-tools>"):
            await assemble(agent)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PromptConfig(("run",)), "needs the entry <unlisted-tools>"),
        (lambda: PromptConfig(("run", "<unlisted-tools>", "run")), "run stands there twice"),
        (lambda: PromptConfig(("<unlisted-tools>", "<unlisted-tools>")), "<unlisted-tools> stands there twice"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(make: Callable[[], PromptConfig], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("options", [{"tools": ()}, {"tools": ("work",)}])
async def test_what_nobody_offers_is_not_run_elsewhere_for_an_agent_that_may_not_have_it(options: Any) -> None:
    elsewhere = plugin_of(tools_execute=lambda call: ToolResult("ran elsewhere"))
    plugins = {"work": tool_of("work"), "elsewhere": elsewhere}
    async with memory_harness(call("ghost"), text("ok"), plugins=plugins) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model", **options)).agent
        await agent.run("go")
        (result,) = [event.data for event in agent.session.events if event.type == "tool/result"]
    assert result.is_error
    assert result.error.code == "UNKNOWN_TOOL"


async def test_what_nobody_offers_may_be_run_elsewhere_for_others() -> None:
    elsewhere = plugin_of(tools_execute=lambda call: ToolResult("ran elsewhere"))
    async with memory_agent(call("ghost"), text("ok"), plugins={"elsewhere": elsewhere}) as agent:
        await agent.run("go")
        (result,) = [event.data for event in agent.session.events if event.type == "tool/result"]
    assert not result.is_error
