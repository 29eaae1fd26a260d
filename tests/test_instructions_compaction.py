"""Instructions of a folder below, when a summary takes the place of where they were said."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from dsh import Config, Request
from dsh.llm.chunks import ChunkStream
from dsh.llm.scripted import ScriptedModel
from dsh.messages import text_of
from dsh.session.events import ContextMessage
from dsh.testing import call, memory_agent, text


class Writing(ScriptedModel):
    """Writes summaries beside its script."""

    def stream(self, request: Request, model: str) -> ChunkStream:
        if text_of(request.messages[-1].content).startswith("Stop working on the task"):
            return self._play(text("a summary"), 0)
        return super().stream(request, model)


RULE = "Name every variable after a tree."


@pytest.mark.parametrize("pinned", [True, False])
async def test_what_a_summary_keeps_is_not_said_again_and_what_it_loses_is(tmp_path: Path, pinned: bool) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/AGENTS.md").write_text(RULE)
    (tmp_path / "src/a.py").write_text("pass\n" * 20)
    (tmp_path / "long.txt").write_text("a word and another\n" * 500)
    names = ["src/a.py", *["long.txt"] * 8, "src/a.py"]
    replies = [call("read", {"file_path": name}, id=f"c{number}") for number, name in enumerate(names)]
    keep: dict[str, Any] = {} if pinned else {"keep_context_of": ()}
    config = Config(
        tables={
            "compaction": {"context_window": 12_000, "prune": False, **keep},
        }
    )
    wanted = ("compaction", "instructions", "files")
    plugins: dict[str, object] = {
        entry.name: entry.load() for entry in entry_points(group="dsh") if entry.name in wanted
    }
    model = Writing(*replies[:-1], text("done"))
    warnings: list[str] = []
    async with memory_agent(model=model, plugins=plugins, config=config, cwd=str(tmp_path), warnings=warnings) as agent:
        await agent.run("go")
        assert any(event.type == "compact/summary" for event in agent.session.events), warnings
        model.add(replies[-1], text("done"))
        await agent.run("again")
        said = [event for event in agent.session.events if isinstance(event.data, ContextMessage)]
        assert len(said) == (1 if pinned else 2)
        seen = "\n".join(text_of(message.content) for message in model.requests[-1].messages)
        assert seen.count(RULE) == 1
