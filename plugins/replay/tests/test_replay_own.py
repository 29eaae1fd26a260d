"""What dsh itself logged can be played again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dsh_files
import dsh_jsonl
import dsh_replay
import dsh_shell
import dsh_todo
import pytest
from attrs import evolve
from dsh_replay.config import ReplayConfig
from dsh_replay.script import load_scripts, played

from dsh import AgentOptions, Config
from dsh.llm.scripted import Reply
from dsh.session import Session
from dsh.session.events import HookDecision, ToolResult
from dsh.testing import ScriptedModel, call, memory_harness, reply, text

TOOLS = {"files": dsh_files, "shell": dsh_shell, "todo": dsh_todo}
PLAN = [{"content": "look", "status": "in_progress"}]
SCRIPT = (
    call("todo_write", {"todos": PLAN}, id="a"),
    reply(
        reasoning="both at once",
        calls=[("b", "read", {"file_path": "a.txt"}), ("c", "read", {"file_path": "none.txt"})],
    ),
    call("bash", {"command": "wc -c < a.txt", "description": "count"}, id="d"),
    reply("cut off", finish="max-tokens"),
    text("all done"),
)


def write(path: Path, session: Session) -> str:
    lines = [session.codec.encode_header(session.header), *session.events.lines()]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return str(path)


def data(session: Session) -> list[Any]:
    """What must be the same: not that the player answered, and not how long a command took."""
    kept = (event.data for event in session.events if not isinstance(event.data, HookDecision))
    return [evolve(item, meta=None) if isinstance(item, ToolResult) else item for item in kept]


async def run(tmp_path: Path, prompts: Iterable[str], script: Iterable[Reply], table: dict[str, Any]) -> list[Session]:
    """A session and a fork of it that goes on by itself, played by a script or by recordings."""
    tables = {"replay": table} if table else {}
    plugins = {**TOOLS, **({"replay": dsh_replay} if table else {})}
    async with memory_harness(model=ScriptedModel(*script), plugins=plugins, config=Config(tables=tables)) as harness:
        options = AgentOptions(model="scripted/model")
        agent = harness.create_agent(options=options, cwd=str(tmp_path)).agent
        for prompt in prompts:
            await agent.run(prompt)
        fork = harness.create_agent(options=options, cwd=str(tmp_path), seed=list(agent.session.events), parent=agent)
        await fork.agent.run("and now?")
        return [agent.session, fork.agent.session]


async def test_a_session_and_its_fork_are_played_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    first = await run(tmp_path, ("go", "more"), (*SCRIPT, text("the fork's")), {})
    assert first[1].header.seed_length == len(first[0].events)

    names = [write(tmp_path / f"{number}.jsonl", session) for number, session in enumerate(first)]
    again = await run(tmp_path, ("go", "more"), (), {"file": names[0], "children": names[1:]})

    assert data(again[0]) == data(first[0])
    assert data(again[1]) == data(first[1])
    assert {item.type for item in data(again[0])} >= {"todo/write", "tool/result", "assistant/chunk"}


@pytest.mark.parametrize("cut", [False, True])
async def test_a_session_that_is_resumed_goes_on_where_its_recording_is(tmp_path: Path, cut: bool) -> None:
    """Also one whose program died while an answer came."""
    (tmp_path / "a.txt").write_text("hello\n")
    (first, _) = await run(tmp_path, ("go", "more", "more"), (*SCRIPT, text("the last"), text("the fork's")), {})
    name = write(tmp_path / "all.jsonl", first)
    options = AgentOptions(model="replay/recorded")
    plugins = {**TOOLS, "replay": dsh_replay, "jsonl": dsh_jsonl}
    config = Config(tables={"replay": {"file": name}, "jsonl": {"root": str(tmp_path / "sessions")}})
    async with memory_harness(plugins=plugins, config=config) as harness:
        begun = harness.create_agent(session_id="s", cwd=str(tmp_path), options=options).agent
        await begun.run("go")
        if cut:
            await begun.run("more")
    if cut:
        (log,) = (tmp_path / "sessions").glob("*/s.jsonl")
        lines = log.read_bytes().splitlines(keepends=True)
        last = max(n for n, line in enumerate(lines) if line.startswith(b'{"type":"assistant/chunk"'))
        log.write_bytes(b"".join(lines[: last - 2]))
    async with memory_harness(plugins=plugins, config=config, check_logs=False) as harness:
        agent = (await harness.resume_agent("s", options=options)).agent
        texts = [(await agent.run("more")).text for _ in range(1 if cut else 2)]
        assert texts == (["the last"] if cut else ["all done", "the last"])


async def test_a_session_with_other_answers_starts_its_recording_from_the_beginning(tmp_path: Path) -> None:
    (first, _) = await run(tmp_path, ("go",), (text("one"), text("two")), {})
    name = write(tmp_path / "one.jsonl", first)
    script = load_scripts(ReplayConfig(name))[0]
    assert played(script, first.events) == (1, 0)
    assert played(script, ()) == (0, 0)
    (other, _) = await run(tmp_path, ("go",), (text("1"), text("two")), {})
    assert played(script, other.events) == (0, 0)
