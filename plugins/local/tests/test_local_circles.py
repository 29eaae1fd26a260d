"""A small model that goes in circles is asked for an answer."""

from __future__ import annotations

from typing import Any

import dsh_local
from dsh_local.circles import MOST_CALLS, enough

from dsh import USER, AgentOptions, CallConfig, Tool, hookimpl
from dsh.session.events import Event, ToolCall, Trigger, TurnStart
from dsh.testing import ScriptedModel, call, memory_agent, text


def log(*calls: tuple[str, str], before: tuple[tuple[str, str], ...] = ()) -> list[Event]:
    """The log of a turn with these calls, and of one before it; newest first."""
    data: list[Any] = []
    for turn, made in enumerate((before, calls), 1):
        data.append(TurnStart(turn, Trigger("message", USER)))
        data += [ToolCall(turn, 1, f"c{n}", name, arguments) for n, (name, arguments) in enumerate(made)]
    return [Event(seq, 0, item) for seq, item in enumerate(data)][::-1]


LS = ("bash", '{"command":"ls"}')
READ = ("read", '{"file_path":"a"}')


def test_different_calls_are_no_circle() -> None:
    assert not enough(log())
    assert not enough(log(LS, READ))


def test_the_same_call_twice_is_one() -> None:
    assert enough(log(LS, READ, LS))


def test_another_turn_may_call_the_same() -> None:
    assert not enough(log(LS, before=(LS, READ)))


def test_very_many_calls_are_enough() -> None:
    assert enough(log(*(("read", f'{{"file_path":"{n}"}}') for n in range(MOST_CALLS))))


async def test_the_tools_are_withheld_from_a_model_in_a_circle() -> None:
    """Through the plugin: the prompt of the step behind the circle shows no tool."""
    model = ScriptedModel(
        call("noop", {"n": 1}, id="a"), call("noop", {"n": 1}, id="b"), text("so it is"), provider="local"
    )

    class Noop:
        @hookimpl
        def tools_register(self, tools: Any) -> None:
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            tools.add(Tool("noop", "Do nothing.", schema, lambda arguments, call: "nothing"))

        @hookimpl(wrapper=True, tryfirst=True)
        async def agent_request(self) -> Any:
            """Keep the plugin from starting its server for the scripted model."""
            yield
            yield CallConfig("local/model")

    plugins = {"local": dsh_local, "noop": Noop()}
    async with memory_agent(model=model, plugins=plugins, options=AgentOptions(model="local/model")) as agent:
        result = await agent.run("go")

    assert result.text == "so it is"
    assert [request.tools is None for request in model.requests] == [False, False, True]
