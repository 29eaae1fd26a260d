"""Kinds of children: from settings and from files, whole and broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dsh_subagents.types import Malformed, parse_type

from dsh import ToolCall
from dsh.testing import call, text, tool_of

GOOD = "---\nname: reviewer\ndescription: reviews code\n---\nYou review code.\n"


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project/.git").mkdir(parents=True)
    return {
        "project": tmp_path / "project/.dsh/agents",
        "project-claude": tmp_path / "project/.claude/agents",
        "person-claude": tmp_path / "home/.claude/agents",
        "cwd": tmp_path / "project",
    }


def kinds(agent: Any) -> dict[str, Any]:
    from dsh.tools.tool import Tools

    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    tool = tools.by_name()["subagent"]
    return dict(tool.parameters["properties"].get("type", {"enum": []}), text=tool.description)


async def test_a_kind_from_a_file_has_its_persona_tools_and_model(stage: Any, places: dict[str, Path]) -> None:
    write(
        places["project"] / "reviewer.md",
        "---\nname: reviewer\ndescription: reviews code\ntools: work\nmodel: scripted/other\n---\nReview {{code}}.\n",
    )
    script = [call("subagent", {"description": "x", "prompt": "y", "type": "reviewer"}), text("done")]
    plugins = {"work": tool_of("work"), "more": tool_of("more")}
    async with stage.agent(*script, below=[[text("ok")]], plugins=plugins, cwd=str(places["cwd"])) as agent:
        assert "- reviewer: reviews code" in kinds(agent)["text"]
        await agent.run("go")
        header = stage.children[0].session.request_header()
        assert header.system.endswith("\n\nReview {{code}}.")
        assert [tool.name for tool in header.tools] == ["work"]
        assert header.config.model == "scripted/other"
        (start,) = [event.data for event in agent.session.events if event.type == "subagent/start"]
        assert start.agent_type == "reviewer"


async def test_where_kinds_come_from_and_who_wins(stage: Any, places: dict[str, Path]) -> None:
    def kind(name: str, says: str) -> str:
        return f"---\nname: {name}\ndescription: from {says}\n---\nx\n"

    for place in ("project", "project-claude", "person-claude"):
        write(places[place] / "own.md", kind(place, place))
        write(places[place] / "same.md", kind("same", place))
        write(places[place] / "configured.md", kind("configured", place))
    settings = {"types": {"configured": {"description": "from settings", "prompt": "x"}}}
    async with stage.agent(settings=settings, cwd=str(places["cwd"])) as agent:
        write(agent.harness.home / "agents/late.md", kind("late", "home"))
        found = kinds(agent)
        assert found["enum"] == ["configured", "late", "person-claude", "project", "project-claude", "same"]
        assert "- same: from project\n" in found["text"] + "\n"
        assert "- configured: from settings\n" in found["text"]
        assert stage.warnings == []


BROKEN = [
    ("", "does not begin with front matter"),
    ("just text", "does not begin with front matter"),
    ("---\nname: a\n", "does not end"),
    ("---\nname: a\n---\nx", "no description"),
    ("---\ndescription: a\n---\nx", "no name"),
    ("---\nname: a b\ndescription: x\n---\nx", "'a b'"),
    ("---\nname: ../a\ndescription: x\n---\nx", "'../a'"),
    ("---\nname: a\ndescription: x\n---\n  \n", "no persona"),
    ("---\nname: a\ndescription: x\nmodel: fast\n---\nx", "provider/name"),
    ("---\nname: a\ndescription: x\ntool: bash\n---\nx", "did you mean tools"),
    ("---\nname: a\nname: b\ndescription: x\n---\nx", "twice"),
    ("---\nname: a\nwhat is this\n---\nx", "line 3"),
    ("---\nname: [a]\ndescription: x\n---\nx", "is a list"),
    (b"---\nname: a\ndescription: \xff\n---\nx", "UTF-8"),
    (b"---\nname: a\ndescription: x\n---\n" + b"x" * 300_000, "KiB"),
    (f"---\nname: a\ndescription: {'x' * 9000}\n---\nx", "more than 8000 characters"),
]


@pytest.mark.parametrize(("content", "complaint"), BROKEN)
async def test_g05_a_broken_file_is_left_out_and_told_of(
    stage: Any, places: dict[str, Path], content: str | bytes, complaint: str
) -> None:
    """G05's kind: what is broken is named, with what is wrong, and costs nothing else."""
    write(places["project"] / "broken.md", content)
    write(places["project"] / "good.md", GOOD)
    async with stage.agent(cwd=str(places["cwd"])) as agent:
        assert kinds(agent)["enum"] == ["reviewer"]
        kinds(agent)
        (warning,) = stage.warnings
        assert str(places["project"] / "broken.md") in warning
        assert complaint in warning


async def test_what_is_no_file_is_told_of_too(stage: Any, places: dict[str, Path]) -> None:
    import os

    write(places["project"] / "good.md", GOOD)
    os.mkfifo(places["project"] / "pipe.md")
    (places["project"] / "folder.md").mkdir()
    (places["project"] / "nowhere.md").symlink_to("/does/not/exist")
    (places["project"] / "round.md").symlink_to("about.md")
    (places["project"] / "about.md").symlink_to("round.md")
    async with stage.agent(cwd=str(places["cwd"])) as agent:
        assert kinds(agent)["enum"] == ["reviewer"]
        assert len(stage.warnings) == 5


async def test_an_unknown_kind_is_refused_by_the_schema(stage: Any, places: dict[str, Path]) -> None:
    write(places["project"] / "good.md", GOOD)
    script = [call("subagent", {"description": "x", "prompt": "y", "type": "reviever"}), text("done")]
    async with stage.agent(*script, cwd=str(places["cwd"])) as agent:
        await agent.run("go")
        ((result, code),) = stage.results(agent.session)
        assert code == "INVALID_ARGS"
        assert "reviewer" in result
        assert stage.children == []


async def test_a_tool_that_nobody_offers_is_told_of_once(stage: Any, places: dict[str, Path]) -> None:
    write(places["project-claude"] / "a.md", "---\nname: a\ndescription: x\ntools: Grep, work\n---\nx")
    script = [call("subagent", {"description": "x", "prompt": "y", "type": "a"}, id=f"c{n}") for n in range(2)]
    plugins = {"work": tool_of("work")}
    async with stage.agent(
        *script, text("done"), below=[[text("ok")] * 2], plugins=plugins, cwd=str(places["cwd"])
    ) as agent:
        await agent.run("go")
        (warning,) = stage.warnings
        assert "there is no tool grep" in warning


@pytest.mark.parametrize("key", ["tools: work, Work", "disallowedTools: Lookup, later"])
async def test_a_tool_that_is_written_with_capitals_or_comes_later_is_meant(
    stage: Any, places: dict[str, Path], key: str
) -> None:
    """What a kind may not have, it does not have, however it is spelt and whenever it is offered."""
    write(places["project-claude"] / "a.md", f"---\nname: a\ndescription: x\n{key}\n---\nx")
    ran: list[str] = []

    def noting(name: str) -> object:
        def note(call: ToolCall) -> str:
            ran.append(name)
            if name == "Work" and call.agent is not None:
                call.agent.harness.plugins.register(noting("later"), "later")
            return "ok"

        return tool_of(name, note)

    below = [[call(name, id=name) for name in ("Work", "Lookup", "later")] + [text("done")]]
    script = [call("subagent", {"description": "x", "prompt": "y", "type": "a"}), text("done")]
    plugins = {"work": noting("Work"), "lookup": noting("Lookup")}
    async with stage.agent(*script, below=below, plugins=plugins, cwd=str(places["cwd"])) as agent:
        await agent.run("go")
        assert ran == ["Work"]
        codes = [code for _, code in stage.results(stage.children[0].session)]
        assert codes == [None, "UNKNOWN_TOOL", "UNKNOWN_TOOL"]


FILES = [
    ("tools: Read, Bash(git *), TodoWrite", ("read", "bash", "bash_output", "bash_kill", "todo_write")),
    ("tools: [read, 'write']", ("read", "write")),
    ("tools:\n  - read\n  - write", ("read", "write")),
    ("tools: [read,\n  'write',  # and no more\n]", ("read", "write")),
    ("tools:\n- Task", ("subagent",)),
    ("tools: '*'", None),
    ("model: inherit", None),
    ("model: sonnet\ncolor: blue\npermissionMode: plan", None),
]


@pytest.mark.parametrize(("line", "tools"), FILES)
def test_files_of_other_harnesses(line: str, tools: tuple[str, ...] | None) -> None:
    kind = parse_type(f"---\nname: a\ndescription: x\n{line}\n---\nx", foreign=True)
    assert (kind.tools, kind.model) == (tools, None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("plain text: with a colon", "plain text: with a colon"),
        ('"quoted: text"', "quoted: text"),
        ("'it''s'", "it's"),
        ("over\n  two lines", "over two lines"),
        (">\n  folded\n  text", "folded text"),
        ("|\n  kept\n  apart", "kept\napart"),
        ("x # a comment", "x"),
    ],
)
def test_how_a_description_may_be_written(written: str, meant: str) -> None:
    assert parse_type(f"---\r\nname: a\r\ndescription: {written}\n---\nx").description == meant


def test_what_stands_in_a_file_is_text_alone() -> None:
    kind = parse_type("---\nname: a\ndescription: x\n---\n{{config}} !`rm -rf /` @file")
    assert kind.prompt == "{{config}} !`rm -rf /` @file"
    with pytest.raises(Malformed):
        parse_type("---\nname: a\ndescription: x\nhooks:\n  Stop: evil\n---\nx")
