"""Another loop, the one of docs/writing-plugins.md, stands in for the bundled one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dsh import Agent, AgentOptions, Deny, ToolCall, restrict_tools
from dsh.cli.extra import load_plugin
from dsh.testing import ScriptedModel, call, memory_harness, plugin_of, shape, text, tool_of

PAGE = (Path(__file__).parents[1] / "docs/writing-plugins.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n# dsh_tiny\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OPTIONS = AgentOptions(model="scripted/model")

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(call("bash", {"command": "echo from bash"}), text("done")))
"""


@pytest.fixture
def tiny(tmp_path: Path) -> ModuleType:
    (tmp_path / "dsh_tiny.py").write_text(CODE)
    return load_plugin("dsh_tiny.py", tmp_path, "")[1]


async def test_it_is_asked_before_the_bundled_one(tiny: ModuleType) -> None:
    model = ScriptedModel(call("work"), text("done"), text("again"))
    plugins = {"tiny": tiny, "work": tool_of("work", lambda call: "worked")}
    async with memory_harness(model=model, plugins=plugins) as harness:
        handle = harness.create_agent(options=OPTIONS)
        agent = handle.agent
        assert type(agent).__name__ == "TinyAgent"
        assert (await agent.run("go")).text == "done"
        assert (await agent.run("more")).text == "again"
        assert shape(agent.session.events) == (
            "T+1 U S+1 H(initial) A TC(c1) TR(c1) S-1 S+2 A S-2 T-(completed) T+2 U S+1 A S-1 T-(completed)"
        )
        await handle.dispose()
        assert harness.agents.list() == []
        assert harness.sessions.list() == []
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]


async def test_guards_and_restrictions_hold_under_it(tiny: ModuleType) -> None:
    ran: list[str] = []

    def work(call: ToolCall) -> str:
        ran.append(call.name)
        return "worked"

    def guard(call: ToolCall) -> Deny | None:
        return Deny("no") if call.name == "one" else None

    script = call("one"), call("two", id="c2"), call("three", id="c3"), text("done")
    plugins = {name: tool_of(name, work) for name in ("one", "two", "three")}
    async with memory_harness(
        *script, plugins={**plugins, "tiny": tiny, "guard": plugin_of(tools_pre_execute=guard)}
    ) as h:
        agent: Agent = h.create_agent(options=OPTIONS).agent
        restrict_tools(agent, deny=["two"])
        await agent.run("go")
        assert re.findall(r"TR\S+", shape(agent.session.events)) == ["TR!(c1)", "TR!(c2)", "TR(c3)"]
    assert ran == ["three"]


def test_it_drives_the_whole_command(tiny: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "scripted_model.py").write_text(MODEL)
    command = [sys.executable, "-m", "dsh", "-p", "go", "-m", "scripted/model"]
    done = subprocess.run(
        [*command, "-e", "dsh_tiny.py", "-e", "scripted_model.py"],
        cwd=tmp_path,
        env={**os.environ, "DSH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    (log,) = (tmp_path / "home/sessions").rglob("*.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    assert "assistant/chunk" not in {event["type"] for event in events}  # the bundled loop logs them
    (result,) = (event["data"] for event in events if event["type"] == "tool/result")
    assert result["content"] == [{"type": "text", "text": "from bash\n"}]
