"""The tools in a conversation: a scripted model, the real loop, real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dsh_files
import pytest

from dsh import Config, ConfigError
from dsh.messages import text_of
from dsh.session import events as ev
from dsh.testing import call, memory_agent, memory_harness, text


def results(agent: Any) -> list[tuple[str, str | None]]:
    """Text and error code of each tool's result."""
    found = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)]
    return [(text_of(data.content), data.error.code if data.error else None) for data in found]


async def test_a_model_reads_edits_and_writes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("blue\n")
    script = (
        call("edit", {"file_path": "a.txt", "old_string": "blue", "new_string": "green"}),
        call("read", {"file_path": "a.txt"}),
        call("edit", {"file_path": "a.txt", "old_string": "blue", "new_string": "green"}),
        call("write", {"path": "b.txt", "content": "x"}),
        call("write", {"file_path": "b.txt", "content": "x"}),
        text("done"),
    )
    async with memory_agent(*script, plugins={"files": dsh_files}, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        found = results(agent)

    assert [code for _, code in found] == ["FS_NOT_OBSERVED", None, None, "INVALID_ARGS", None]
    assert found[0][0] == f"Error: {tmp_path}/a.txt was not read; read it before you edit it"
    assert '"file_path" is required and missing (there is no "path")' in found[3][0]
    assert ((tmp_path / "a.txt").read_text(), (tmp_path / "b.txt").read_text()) == ("green\n", "x")


async def test_the_diff_is_logged_for_people_and_not_sent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("blue\n")
    script = (
        call("read", {"file_path": "a.txt"}),
        call("edit", {"file_path": "a.txt", "old_string": "blue", "new_string": "green"}),
        text("done"),
    )
    async with memory_agent(*script, plugins={"files": dsh_files}, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        last = [event.data for event in agent.session.events if isinstance(event.data, ev.ToolResult)][-1]

    assert last.meta == {"diffs": [{"path": f"{tmp_path}/a.txt", "oldText": "blue\n", "newText": "green\n"}]}


async def test_the_prompt_tells_of_the_tools(tmp_path: Path) -> None:
    async with memory_agent(text("done"), plugins={"files": dsh_files}, cwd=str(tmp_path)) as agent:
        await agent.run("go")
        header = next(event.data for event in agent.session.events if isinstance(event.data, ev.RequestHeader)).header

    assert header.system is not None
    assert header.system.index("read tool") < header.system.index("write tool") < header.system.index("edit tool")
    assert {tool.name for tool in header.tools or ()} == {"read", "write", "edit"}


async def test_wrong_settings_keep_the_harness_from_opening() -> None:
    config = Config(tables={"files": {"read_limit": 0}})

    with pytest.raises(ConfigError, match="read_limit must be a whole number of at least 1, not 0"):
        async with memory_harness(plugins={"files": dsh_files}, config=config):
            pass
