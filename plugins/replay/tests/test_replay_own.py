"""What dsh itself logged can be played again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import dsh_files
import dsh_replay
import dsh_shell
import dsh_todo
from attrs import evolve

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
