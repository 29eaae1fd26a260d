"""Compaction by hand: ``dsh sessions compact``, slash commands of plugins, and what the model saw before and after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsh.cli import COMMANDS
from dsh.commands import OWN, Commands
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
        assert await commands.slash()["greet"].call(agent, "you") == "idle: you"
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


def _collected(add: Any) -> Commands:
    commands = Commands()
    add(commands.view("mine"))
    return commands


@pytest.mark.parametrize("name", ["bad name", "/slash", "UP", "", "-x", "1"])
def test_names_that_nobody_could_enter_are_refused(name: str) -> None:
    with pytest.raises(PluginError, match="the plugin mine cannot bring a command"):
        _collected(lambda commands: commands.add_slash(name, "x", lambda agent, text: ""))
    with pytest.raises(PluginError, match="the plugin mine cannot bring a command"):
        _collected(lambda commands: commands.add(name, "x", lambda args, config: 0))


def test_commands_of_dsh_itself_cannot_be_brought() -> None:
    assert set(COMMANDS) == OWN
    with pytest.raises(PluginError, match="the plugin mine cannot bring a command doctor: it is one of dsh's own"):
        _collected(lambda commands: commands.add("doctor", "x", lambda args, config: 0))


async def test_what_slash_commands_may_answer() -> None:
    async def three(agent: Any, text: str) -> Any:
        return 3

    async def nothing(agent: Any, text: str) -> None:
        return None

    def plain(agent: Any, text: str) -> str:
        return f"plain {text}"

    async def raises(agent: Any, text: str) -> str:
        raise KeyError("where")

    def add(commands: Commands) -> None:
        for run in (three, nothing, plain, raises):
            commands.add_slash(run.__name__, "x", run)

    found = _collected(add).slash()
    agent: Any = None
    assert await found["nothing"].call(agent, "") == ""
    assert await found["plain"].call(agent, "words") == "plain words"
    with pytest.raises(PluginError, match="/three of the plugin mine: the int 3 is nothing to tell a person"):
        await found["three"].call(agent, "")
    with pytest.raises(PluginError, match="/raises of the plugin mine: KeyError: 'where'"):
        await found["raises"].call(agent, "")


def test_what_subcommands_may_return() -> None:
    async def late(args: Any, config: Any) -> int:
        return 0

    def add(commands: Commands) -> None:
        runs: dict[str, Any] = {
            "none": lambda args, config: None,
            "seven": lambda args, config: 7,
            "text": lambda args, config: "x",
            "late": late,
        }
        for name, run in runs.items():
            commands.add(name, "x", run)

    found = {command.name: command for _, command in _collected(add).shell()}
    given: Any = None
    assert found["none"].call(given, given) == 0
    assert found["seven"].call(given, given) == 7
    for name in ("text", "late"):
        with pytest.raises(PluginError, match=f"dsh {name} of the plugin mine: the .* is no exit code"):
            found[name].call(given, given)
