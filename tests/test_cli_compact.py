"""Compaction by hand: ``dsh sessions compact``, slash commands of plugins, and what the model saw before and after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsh.commands import Commands
from dsh.errors import PluginError
from dsh.testing import memory_agent, plugin_of

pytest.importorskip("dsh_compaction")

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

WORK = [call("bash", {"command": f"seq {n}00 {n}99"}, id=f"c{n}") for n in range(1, 7)]

class Model(ScriptedModel):
    def stream(self, request, model):
        if "eight headings" in str(request.messages[-1]):
            return self._play(text("six times it was counted"), 0)
        return super().stream(request, model)

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", Model(*WORK, text("counted")))
"""


def counted(stage: Any) -> str:
    """A session in which something was done; its id."""
    stage.plugin("model", MODEL)
    ran = stage.run("count", "-m", "scripted/model", "--permission-mode", "bypass", "--no-plugin", "repeats")
    assert (ran.code, ran.out) == (0, "counted\n")
    name: str = stage.log.stem
    return name


def test_a_stored_session_is_compacted(stage: Any) -> None:
    session = counted(stage)
    last = len(stage.events()) - 1

    done = stage.end(stage.start("sessions", "compact", session))
    assert done.code == 0, done.err
    assert done.out.startswith("summarised 13 messages: about ")
    added = [event["type"] for event in stage.events()[last + 1 :]]
    assert added == ["turn/start", "compact/start", "compact/summary", "user/message", "compact/end", "turn/end"]
    checked = stage.end(stage.start("sessions", "check", session))
    assert checked.out.endswith("no problems\n")

    before = stage.end(stage.start("sessions", "show", session, "--at", str(last)))
    after = stage.end(stage.start("sessions", "show", session, "--at", f"seq:{last + 4}"))
    assert before.out.count("user (tool/result):") == 6
    assert "| 100" in before.out
    assert after.out.count("user (tool/result):") == 0
    assert "six times it was counted" in after.out
    assert "in place of" in after.out
    assert after.out.endswith("counted\n")

    shown = stage.end(stage.start("sessions", "show", session, "--at", str(last + 4), "--json"))
    messages = [json.loads(line) for line in shown.out.splitlines()]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    # A person still reads all that was said.
    told = stage.end(stage.start("sessions", "show", session))
    assert "| 100" in told.out
    assert "a summary takes the place of" in told.out
    # Whoever has nothing to summarise is told so.
    again = stage.end(stage.start("sessions", "compact", session))
    assert again.out == "there is nothing worth summarising yet\n"
    document = stage.end(stage.start("sessions", "export", session))
    assert "six times it was counted" in document.out


def test_without_the_plugin(stage: Any) -> None:
    session = counted(stage)
    refused = stage.end(stage.start("sessions", "compact", session, "--no-plugin", "compaction"))
    assert refused.code == 2
    assert "no plugin offers /compact" in refused.err


@pytest.mark.parametrize(("at", "said"), [("99999", "not so long"), ("turn:1", "number of an event"), ("x", "number")])
def test_an_event_that_there_is_not(stage: Any, at: str, said: str) -> None:
    session = counted(stage)
    refused = stage.end(stage.start("sessions", "show", session, "--at", at))
    assert refused.code == 2
    assert said in refused.err


async def test_slash_commands_are_collected() -> None:
    async def greet(agent: Any, text: str) -> str:
        return f"{agent.status}: {text}"

    plugin = plugin_of(dsh_add_commands=lambda commands: commands.add_slash("greet", "[NAME]: greet somebody", greet))
    async with memory_agent(plugins={"greeter": plugin}) as agent:
        commands = Commands()
        agent.hook.dsh_add_commands(commands=commands)
        assert await commands.slash()["greet"].run(agent, "you") == "idle: you"
    assert list(commands.shell()) == []


async def test_two_plugins_with_one_slash_command() -> None:
    async def nothing(agent: Any, text: str) -> str:
        return ""

    plugins = {
        name: plugin_of(dsh_add_commands=lambda commands: commands.add_slash("x", "x", nothing)) for name in ("a", "b")
    }
    async with memory_agent(plugins=plugins) as agent:
        commands = Commands()
        agent.hook.dsh_add_commands(commands=commands)
        with pytest.raises(PluginError, match="plugins a and b both bring a command /x"):
            commands.slash()
