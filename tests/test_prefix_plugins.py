"""The guard of the prefix among the plugins that come with dsh: none is named in vain, and always the right one."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from dsh import Config, Tool
from dsh.llm.scripted import ScriptedModel
from dsh.session.events import Event
from dsh.testing import call, memory_agent, plugin_of, text

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"
WORDS = "the quick brown fox jumps over the lazy dog, again and again and again; "


def installed(*names: str) -> dict[str, object]:
    return {entry.name: entry.load() for entry in entry_points(group="dsh") if entry.name in names}


def changes(events: Any) -> list[Event]:
    return [event for event in events if event.type == "prefix/changed"]


async def compacted(**settings: Any) -> list[Event]:
    """What a conversation that outgrows its window logs of its prefix, with a guard that is strict."""
    tool = Tool("look", "Looks.", {"type": "object"}, lambda arguments, call: WORDS * 150)
    replies = [*(call("look", {}, id=f"c{number}") for number in range(12)), text("done")]
    plugins = {**installed("compaction", "prefix"), "looking": plugin_of(tools_register=lambda tools: tools.add(tool))}
    table = {"context_window": 20_000, **settings}
    config = Config(tables={"compaction": table, "prefix": {"strict": True}})
    model = ScriptedModel(*replies, otherwise=text("a summary"))
    async with memory_agent(model=model, plugins=plugins, config=config) as agent:
        await agent.run("go")
        assert any(event.type.startswith("compact/") for event in agent.session.events)
        assert agent.session.events[-1].data.reason.kind == "completed"
        return changes(agent.session.events)


async def test_shortened_results_are_laid_to_compaction() -> None:
    found = await compacted()
    assert found
    for event in found:
        assert (event.data.segment, event.data.plugin, event.data.cause) == ("message", "compaction", "replaced")


async def test_a_summary_is_laid_to_compaction() -> None:
    found = await compacted(prune=False)
    assert found
    for event in found:
        assert (event.data.segment, event.data.plugin, event.data.cause) == ("message", "compaction", "replaced")


@pytest.fixture
def talk(stage: Any) -> Any:
    """Run ``dsh -p --strict-prefix`` with all plugins that there are, a reply a step."""

    stage.freely = True

    def run(*replies: dict[str, Any], arguments: tuple[str, ...] = (), strict: bool = True) -> Any:
        (stage.tmp / "requests.jsonl").unlink(missing_ok=True)
        with stage.serving(stage.script(*replies, {"text": "done"})):
            return stage.run("go", *(["--strict-prefix"] if strict else []), *arguments)

    return run


def named(stage: Any) -> list[dict[str, Any]]:
    paths = (stage.home / "sessions").rglob("*.jsonl")
    lines = [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[1:-1]]
    return [line["data"] for line in lines if line["type"] == "prefix/changed"]


pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")

WORK = {"calls": [["@shell", {"command": "echo x > made; echo y"}], ["@read", {"file_path": "AGENTS.md"}]]}


def prepared(stage: Any) -> None:
    (stage.work / "below").mkdir(parents=True)
    (stage.work / "AGENTS.md").write_text("Be brief.\n")
    (stage.work / "below/AGENTS.md").write_text("Be briefer below.\n")
    (stage.work / "below/a.txt").write_text("x\n")
    skill = stage.work / ".dsh/skills/release/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: How to release.\n---\nTag it.\n")


def test_nothing_changes_over_turns_processes_forks_and_subagents(stage: Any, talk: Any) -> None:
    prepared(stage)
    below = {"calls": [["@read", {"file_path": "below/a.txt"}], ["skill", {"name": "release"}]]}
    todo = {"calls": [["todo_write", {"todos": [{"content": "a", "status": "in_progress"}]}]]}
    child = {"calls": [["@task", {"prompt": "look around", "description": "look"}]]}
    assert talk(WORK, below, todo, child, {"text": "the child is done"}, WORK).code == 0
    assert len(stage.children()) == 1
    assert talk(WORK, WORK, arguments=("-c",)).code == 0
    assert talk(WORK, arguments=("-c", "--fork")).code == 0
    assert talk(below, WORK, arguments=("-c",)).code == 0
    assert named(stage) == []


@pytest.mark.parametrize("strict", [True, False])
def test_a_file_that_changed_between_two_processes_is_named(stage: Any, talk: Any, strict: bool) -> None:
    prepared(stage)
    assert talk(WORK).code == 0
    (stage.work / "AGENTS.md").write_text("Be long.\n")
    ran = talk(WORK, arguments=("-c",), strict=strict)
    assert ran.code == (1 if strict else 0)
    (change,) = named(stage)
    assert (change["segment"], change["plugin"], change["cause"]) == ("prefix", "instructions", "changed")
    assert "Be long" in change["after"]
    assert talk(arguments=("-c",)).code == 0  # what it is now holds


def test_plugins_that_are_not_there_any_more_are_named_by_what_they_gave(stage: Any, talk: Any) -> None:
    prepared(stage)
    assert talk(WORK).code == 0
    ran = talk(arguments=("-c", "--no-plugin", "todo"))
    assert ran.code == 1
    (change,) = named(stage)
    assert (change["cause"], change["segment"]) in {("removed", "tools"), ("changed", "system")}
