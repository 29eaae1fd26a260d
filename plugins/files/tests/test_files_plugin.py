"""The plugin as the harness meets it: settings, registration, prompt sections, views."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dsh_files
import pytest
from attrs import evolve, frozen
from dsh_files import views
from dsh_files.config import FilesConfig

from dsh import AgentOptions, ToolResult
from dsh.prompt import Sections
from dsh.tools.tool import Tools
from dsh.tools.views import Diff, DiffCall, DiffResult, GenericCall, Location


@frozen
class Config:
    files: FilesConfig

    def section(self, name: str, cls: type) -> Any:
        assert (name, cls) == ("files", FilesConfig)
        return self.files


@frozen
class Harness:
    config: Config


@frozen
class Member:
    """An agent of a harness."""

    inner: Any
    harness: Harness

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("name", ["read_limit", "read_max_line_length", "read_max_bytes", "read_stream_min_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), True, "10", None])
def test_settings_are_positive_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, not "):
        FilesConfig(**{name: value})


def test_the_tools_follow_the_settings_and_are_made_once(desk: Any) -> None:
    agent: Any = Member(desk.agent, Harness(Config(FilesConfig(read_limit=7))))
    found: list[Tools] = [Tools(), Tools()]
    for tools in found:
        dsh_files.tools_register(agent, tools)

    first, second = (tools.by_name() for tools in found)
    assert list(first) == ["edit", "read", "write"]
    assert all(first[name] is second[name] for name in first)
    assert [name for name, tool in first.items() if tool.parallel] == ["read"]
    assert first["read"].parameters["properties"]["limit"]["maximum"] == 7
    assert first["read"].parameters["required"] == ["file_path"]


def test_sections_are_those_of_the_tools_that_the_agent_has(desk: Any) -> None:
    def sections(options: AgentOptions) -> list[tuple[str, int]]:
        found = Sections()
        dsh_files.prompt_sections(evolve(desk.agent, options=options), found)
        return [(section.name, section.order) for section in found]

    assert sections(AgentOptions()) == [("tool:read", 100), ("tool:write", 101), ("tool:edit", 102)]
    assert sections(AgentOptions(tools=("read", "bash"))) == [("tool:read", 100)]
    assert sections(AgentOptions(without_tools=("write",))) == [("tool:read", 100), ("tool:edit", 102)]


def test_calls_are_shown() -> None:
    assert views.read_call({"file_path": "a"}) == GenericCall("Read a", "read", locations=(Location("a", 1),))
    assert views.read_call({"file_path": "a", "offset": 5, "limit": 4}) == GenericCall(
        "Read a (5 - 8)", "read", locations=(Location("a", 5),)
    )
    assert views.read_call({"file_path": "a", "limit": 4.0}) == GenericCall(
        "Read a (1 - 4)", "read", locations=(Location("a", 1),)
    )
    assert views.read_call({"file_path": "a", "offset": 3}) == GenericCall(
        "Read a (from line 3)", "read", locations=(Location("a", 3),)
    )
    assert views.write_call({"file_path": "a", "content": "x"}) == DiffCall(
        "Write a", (Diff("a", None, "x"),), (Location("a"),)
    )
    assert views.edit_call({"file_path": "a", "old_string": "x", "new_string": "y"}) == DiffCall(
        "Edit a", (Diff("a", "x", "y"),), (Location("a"),)
    )


def test_results_are_shown() -> None:
    write, edit = {"file_path": "a", "content": "x"}, {"file_path": "a", "old_string": "x", "new_string": "y"}
    meta = {"diffs": [{"path": "/w/a", "oldText": None, "newText": "x"}]}

    assert views.write_result(write, ToolResult("")) == DiffResult("Write a", (Diff("a", None, "x"),))
    assert views.write_result(write, ToolResult("", meta=meta)) == DiffResult("Write a", (Diff("/w/a", None, "x"),))
    assert views.write_result(write, ToolResult("", is_error=True)) is None
    assert views.edit_result(edit, ToolResult("", meta=meta)) == DiffResult("Edit a", (Diff("/w/a", None, "x"),))
    assert views.edit_result(edit, ToolResult("")) is None
    assert views.edit_result(edit, ToolResult("", meta=meta, is_error=True)) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        [],
        "text",
        None,
        {"file_path": 3},
        {"file_path": "a", "content": None, "old_string": []},
        {"file_path": "a", "offset": "x", "limit": float("nan")},
        {"file_path": "a", "offset": float("inf"), "limit": True},
    ],
)
@pytest.mark.parametrize("meta", [None, "x", {}, {"diffs": "x"}, {"diffs": ["x"]}, {"diffs": [{"path": "a"}]}])
def test_views_take_anything(arguments: Any, meta: Any) -> None:
    views.read_call(arguments)
    assert views.write_call(arguments) is None
    assert views.edit_call(arguments) is None
    assert views.write_result(arguments, ToolResult("", meta=meta)) is None
    assert views.edit_result(arguments, ToolResult("", meta=meta)) is None


def test_loading_the_plugin_loads_little() -> None:
    code = "import sys, dsh_files; print(sorted({'trio', 'cattrs', 'difflib', 'dsh_files.tools'} & set(sys.modules)))"
    # pluggy, which the markers need, brings some modules of its own.
    bare = "import sys, dsh.hooks.markers; print(sorted({'trio', 'cattrs', 'difflib'} & set(sys.modules)))"

    def loaded(code: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment()
        )
        return run.stdout

    assert loaded(code) == loaded(bare)


def environment() -> dict[str, str]:
    root = Path(__file__).parents[3]
    return {"PYTHONPATH": f"{root}:{root / 'plugins/files'}", "PATH": "/usr/bin:/bin"}
