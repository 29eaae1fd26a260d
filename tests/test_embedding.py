"""Programs that embed dsh: what they give that is wrong is said in a line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import dsh_permissions
import pytest

from dsh import AgentOptions, ToolCall, hookimpl, open_harness
from dsh.errors import AgentError, ConfigError, PluginError
from dsh.messages import text_of
from dsh.session.events import ToolResult
from dsh.testing import call, memory_agent, memory_harness, plugin_of, text, tool_of


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ({"guard": "my_guard"}, "guard.*give the module, not its name"),
        ({"x": 3}, "the plugin x is no plugin"),
        ({"x": lambda: None}, "the plugin x is no plugin"),
        ([plugin_of], "given by name"),
    ],
)
async def test_what_is_no_plugin_is_refused(plugins: Any, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        async with open_harness(plugins=plugins, discover=False):
            pass


async def test_a_plugin_without_hooks_is_told() -> None:
    heard: list[str] = []
    async with open_harness(plugins={"idle": type("Idle", (), {})}, discover=False, warn=heard.append):
        pass
    assert heard == ["the plugin idle implements no hook: it needs functions marked with @hookimpl"]


async def test_settings_and_options_of_a_wrong_type() -> None:
    with pytest.raises(ConfigError, match=r"dsh\.Config"):
        async with open_harness({"model": "x"}):  # type: ignore[arg-type]  # it is wrong
            pass
    with pytest.raises(AgentError, match=r"as in \('read',\)"):
        AgentOptions(tools="read")  # type: ignore[arg-type]  # it is wrong
    async with memory_harness() as harness:
        with pytest.raises(AgentError, match=r"AgentOptions\(model=...\)"):
            harness.create_agent(options={"model": "x"})  # type: ignore[arg-type]  # it is wrong
    async with memory_agent() as agent:
        with pytest.raises(AgentError, match="text or blocks"):
            await agent.run(None)  # type: ignore[arg-type]  # it is wrong


def test_under_asyncio_it_says_that_it_runs_under_trio() -> None:
    async def main() -> None:
        async with open_harness():
            pass

    with pytest.raises(AgentError, match=r"trio.run\(main\)"):
        asyncio.run(main())


async def test_a_seeded_agent_without_a_model_goes_on_with_the_last_one() -> None:
    async with memory_agent(text("a"), text("b")) as agent:
        await agent.run("go")
        handle = agent.harness.create_agent(seed=agent.session.events, options=AgentOptions())
        assert (await handle.agent.run("on")).text == "b"


async def test_the_type_of_a_key_error_is_said() -> None:
    def broken(made: ToolCall) -> str:
        raise KeyError("nope")

    own = tool_of("broken", broken)
    async with memory_agent(call("broken", {}), text("done"), plugins={"own": own}) as agent:
        await agent.run("go")
        said = [text_of(event.data.content) for event in agent.session.events if isinstance(event.data, ToolResult)]
    assert said == ["Error: KeyError: 'nope'"]


class Wrong:
    @hookimpl
    def tools_register(self, tools: Any) -> None:
        tools.add(text)


class Unknown:
    @hookimpl
    def prompt_sections(self, sections: Any) -> None:
        sections.add("mine", "{{nothing}}")


@pytest.mark.parametrize(
    ("plugin", "said"), [(Wrong, "the plugin own: mark it with @tool"), (Unknown, "section 'mine' of the plugin own")]
)
async def test_a_plugin_that_adds_what_is_wrong_is_named(plugin: Any, said: str) -> None:
    async with memory_agent(text("a"), plugins={"own": plugin}) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert said in str(result.reason.message)


async def test_the_blocks_of_the_page_run() -> None:
    page = (Path(__file__).parents[1] / "docs" / "embedding.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/embedding.md", "exec"), names)
    plugins = {"mine": names["Mine"], "permissions": dsh_permissions}
    async with memory_agent(call("lookup", {"key": "a"}), text("b"), plugins=plugins) as agent:
        result = await names["at_most_a_minute"](agent)
        assert result.text == "b"
