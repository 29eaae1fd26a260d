"""What a plugin hands over that is of the wrong kind is an error which names the plugin and says what was wanted."""

from __future__ import annotations

from typing import Any

import pytest

from dsh import open_harness
from dsh.errors import PluginError
from dsh.session.events import TurnEnd
from dsh.testing import memory_agent, plugin_of, text, wrapper_of

TURNS: dict[str, tuple[str, Any, str]] = {
    "a function for a tool": ("tools_register", lambda tools: tools.add(len), "tools.add takes a Tool"),
    "a section of nothing": ("prompt_sections", lambda sections: sections.add("a", None), "sections.add takes a str"),
    "a section without a name": ("prompt_sections", lambda sections: sections.add(1, "a"), "sections.add takes a str"),
    "a number for a variable": (
        "prompt_variables",
        lambda variables: variables.set("a", 1),
        "variables.set takes a str or None",
    ),
    "chunks in a list": ("llm_stream", lambda: [1, 2], "llm_stream is answered with ChunkStream"),
    "a text for chunks": ("llm_stream", lambda: "hello", "llm_stream is answered with ChunkStream"),
}


@pytest.mark.parametrize("name", TURNS)
async def test_the_turn_ends_with_an_error_that_names_the_plugin(name: str) -> None:
    hook, function, message = TURNS[name]
    async with memory_agent(text("x"), plugins={"odd": plugin_of(**{hook: function})}) as agent:
        await agent.run("go")
        end = agent.session.events[-1].data
    assert isinstance(end, TurnEnd)
    assert end.reason.kind == "error"
    assert message in str(end.reason.message)
    assert "'odd'" in str(end.reason.message)


async def test_a_wrapper_that_spoils_the_stream_is_named() -> None:
    def spoiled() -> Any:
        yield
        return 7

    async with memory_agent(text("x"), plugins={"odd": wrapper_of(llm_stream=spoiled)}) as agent:
        result = await agent.run("go")
    assert result.reason is not None
    assert "'odd'" in str(result.reason.message)
    assert "not with 7" in str(result.reason.message)


@pytest.mark.parametrize(
    ("hook", "function", "message"),
    [
        ("agent_factory", lambda: "me", "agent_factory is answered with AgentFactory, not with 'me'"),
        ("agent_factory", lambda: object, "agent_factory is answered with AgentFactory"),
        ("llm_adapters", lambda adapters: adapters.add("odd", "adapter"), "adapters.add takes an adapter"),
        ("llm_adapters", lambda adapters: adapters.add(1, None), "adapters.add takes a str"),
        ("secrets_register", lambda secrets: secrets.add(None, "key"), "secrets.add takes a str"),
        ("session_event_types", lambda types: types.add(int), "is no event class"),
    ],
)
async def test_the_program_does_not_start_and_the_error_names_the_plugin(
    hook: str, function: Any, message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:  # of either kind
        async with open_harness(plugins={"odd": plugin_of(**{hook: function})}, discover=False):
            raise AssertionError("it opened")
    assert any("'odd'" in note for note in caught.value.__notes__)


def test_the_error_is_a_plugins() -> None:
    from dsh.tools.tool import Tools

    with pytest.raises(PluginError, match="takes a Tool, not 5"):
        Tools().add(5)  # type: ignore[arg-type]  # that is what it is about
