"""The plugin's own hooks: providers of others, and listeners."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from dsh_subagents import subagents_of
from dsh_subagents.provider import Answer, Task

from dsh import PluginError, TokenUsage
from dsh.testing import call, fail, plugin_of, reply, text

DOCS = Path(__file__).parents[3] / "docs/subagents.md"
TASK = {"description": "a part", "prompt": "do it"}


class Elsewhere:
    """A provider whose children are a task in a nursery, as those of another program would be."""

    tool = "subagent_elsewhere"
    wording = "It runs elsewhere."
    types = False

    def __init__(self) -> None:
        self.open_now = 0
        self.told: list[str] = []

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        self.open_now += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                yield _Child(self)
                nursery.cancel_scope.cancel()
        finally:
            self.open_now -= 1


class _Child:
    session_id = None
    usage = TokenUsage(input_tokens=7)

    def __init__(self, provider: Elsewhere) -> None:
        self._provider = provider
        self._said = ""

    async def ask(self, prompt: str) -> Answer:
        if prompt == "break":
            raise OSError("the pipe is closed")
        self._said = "so far"
        if prompt == "hang":
            await trio.sleep_forever()
        self._said = f"{prompt}: yes"
        return Answer("completed", self._said)

    def tell(self, message: str) -> None:
        self._provider.told.append(message)

    def said(self) -> str:
        return self._said

    def progress(self, since: int) -> tuple[Sequence[str], int]:
        return [self._said][since:], 1


def offering(provider: Any, name: str = "elsewhere") -> object:
    return plugin_of(subagent_providers=lambda providers: providers.add(name, provider))


async def test_a_provider_of_another_plugin(stage: Any) -> None:
    provider = Elsewhere()
    script = [call("subagent_elsewhere", TASK), text("done")]
    async with stage.agent(*script, plugins={"elsewhere": offering(provider)}) as agent:
        await agent.run("go")
        assert stage.results(agent.session) == [("do it: yes", None)]
        (start, end) = [event.data for event in agent.session.events if event.type.startswith("subagent/")]
        assert (start.provider, start.session_id, end.took.input_tokens) == ("elsewhere", None, 7)
        assert provider.open_now == 0


@pytest.mark.parametrize(
    ("prompt", "code", "said"), [("break", "SUBAGENT_FAILED", "the pipe"), ("hang", "SUBAGENT_TIMEOUT", "so far")]
)
async def test_whatever_a_provider_does_its_child_comes_home(
    stage: Any, autojump_clock: trio.testing.MockClock, prompt: str, code: str, said: str
) -> None:
    provider = Elsewhere()
    script = [call("subagent_elsewhere", {**TASK, "prompt": prompt}), text("done")]
    plugins = {"elsewhere": offering(provider)}
    async with stage.agent(*script, plugins=plugins, settings={"timeout": 30}) as agent:
        assert (await agent.run("go")).text == "done"
        ((result, found),) = stage.results(agent.session)
        assert found == code
        assert said in result
        assert provider.open_now == 0


@pytest.mark.parametrize("background", [False, True])
async def test_a_cancel_reaches_children_elsewhere(stage: Any, background: bool) -> None:
    provider = Elsewhere()
    hanging = ("c1", "subagent_elsewhere", {**TASK, "prompt": "hang", "background": background})
    waiting = ("c2", "subagent_output", {"id": "subagent-1", "wait": 500})
    script = [reply(calls=[hanging, waiting] if background else [hanging])]
    async with stage.agent(*script, plugins={"elsewhere": offering(provider)}) as agent:
        agent.send("go")
        await trio.testing.wait_all_tasks_blocked()
        assert provider.open_now == 1
        agent.cancel()
        await agent.when_idle()
        await trio.testing.wait_all_tasks_blocked()
        assert provider.open_now == 0


async def test_two_providers_with_one_tool_are_refused(stage: Any) -> None:
    plugins = {"a": offering(Elsewhere(), "a"), "b": offering(Elsewhere(), "b")}
    with pytest.raises(PluginError, match=r"subagent_elsewhere.*a and b"):
        async with stage.agent(plugins=plugins):
            pass


async def test_listeners_hear_of_every_child_and_break_nothing(stage: Any) -> None:
    heard: list[str] = []

    def start(agent: Any, child: Any) -> None:
        heard.append(f"{child.id} starts")
        raise RuntimeError("a broken listener")

    def end(agent: Any, child: Any, outcome: Any) -> None:
        heard.append(f"{child.id} {outcome.reason} {outcome.text!r}")
        raise RuntimeError("a broken listener")

    listener = plugin_of(subagent_start=start, subagent_end=end)
    calls = [("a", "subagent", TASK), ("b", "subagent", TASK)]
    below = [[text("one"), fail("no")]]
    async with stage.agent(reply(calls=calls), text("done"), below=below, plugins={"listener": listener}) as agent:
        assert (await agent.run("go")).text == "done"
        assert sorted(heard) == [
            "subagent-1 completed 'one'",
            "subagent-1 starts",
            "subagent-2 error ''",
            "subagent-2 starts",
        ]
        assert sum("a broken listener" in warning for warning in stage.warnings) == 4


async def test_programs_start_children_without_a_model(stage: Any) -> None:
    async with stage.agent(below=[[text("one"), text("two")]]) as agent:
        subagents = subagents_of(agent.harness)
        outcome = await subagents.run("spawn", Task(agent, "x", "do it"))
        assert (outcome.completed, outcome.text, outcome.usage.input_tokens) == (True, "one", 10)
        assert agent.harness.agents.list() == [agent]
        assert len(agent.session.events) == 0, "nothing may stand outside of a turn"


@pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not here")
async def test_the_provider_of_the_documentation_works(stage: Any) -> None:
    """docs/subagents.md: its first block of Python is a plugin."""
    (code, *_) = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    module = ModuleType("echo")
    exec(code, module.__dict__)
    script = [call("subagent_echo", {**TASK, "prompt": "hello"}), text("done")]
    async with stage.agent(*script, plugins={"echo": module}) as agent:
        await agent.run("go")
        assert stage.results(agent.session) == [("hello", None)]
