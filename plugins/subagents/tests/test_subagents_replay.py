"""What a parent and its children said is played again, each its own, though they work beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dsh_replay
import dsh_subagents
import pytest

from dsh import AgentOptions, Config
from dsh.llm.scripted import ScriptedModel
from dsh.messages import text_of
from dsh.session import Session
from dsh.session import events as ev
from dsh.testing import memory_harness, plugin_of, reply, text

PROMPTS = [f"part {number}" for number in range(6)]


async def run(tmp_path: Path, table: dict[str, Any], *script: Any) -> list[Session]:
    """A parent with six children at once, each of which says what it was asked."""
    sessions: list[Session] = []

    def answer(agent: Any, request: Any) -> Any:
        if not agent.depth or table:
            return None
        return ScriptedModel(text(f"about {text_of(request.messages[-1].content)}")).stream(request, "")

    plugins = {
        "subagents": dsh_subagents,
        "watch": plugin_of(session_created=lambda session: sessions.append(session), llm_stream=answer),
        **({"replay": dsh_replay} if table else {}),
    }
    config = Config(tables={"replay": table} if table else {})
    async with memory_harness(*script, plugins=plugins, config=config) as harness:
        await harness.create_agent(options=AgentOptions("scripted/model"), cwd=str(tmp_path)).agent.run("go")
    return sessions


def results(session: Session) -> list[str]:
    return [text_of(event.data.content) for event in session.events if isinstance(event.data, ev.ToolResult)]


@pytest.mark.parametrize("order", [1, -1])
async def test_children_at_once_are_played_again_each_its_own(tmp_path: Path, order: int) -> None:
    """In whatever order the files are given, and though all were made in the same millisecond."""
    calls = [(f"c{n}", "subagent", {"description": p, "prompt": p}) for n, p in enumerate(PROMPTS)]
    parent, *children = await run(tmp_path, {}, reply(calls=calls), text("done"))
    files = []
    for number, session in enumerate((parent, *children)):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_bytes(
            b"\n".join([session.codec.encode_header(session.header), *session.events.lines()]) + b"\n"
        )

    table = {"file": str(files[0]), "children": [str(file) for file in files[1:]][::order]}
    again, *_ = await run(tmp_path, table)
    assert results(again) == results(parent) == [f"about {prompt}" for prompt in PROMPTS]
