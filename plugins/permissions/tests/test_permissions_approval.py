"""Approval by programs: every answer, nobody, the wrong answer, late answers, and questions of subagents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import dsh_files
import dsh_permissions
import pytest
import trio

from dsh import Agent, AgentOptions, Ask, Config, Tool, ToolCall, hookimpl
from dsh.approval import AllowOnce, AllowProject, AllowSession, PermissionRequest, Refuse
from dsh.messages import text_of
from dsh.session.events import ToolResult
from dsh.testing import call, memory_agent, plugin_of, text, tool_of
from dsh.trust import TrustStore, read_folder


def approver(answer: Callable[[PermissionRequest], Any]) -> object:
    """A plugin that answers so, and remembers what it was asked."""

    class Approver:
        def __init__(self) -> None:
            self.asked: list[PermissionRequest] = []

        @hookimpl
        async def permission_ask(self, agent: Agent, request: PermissionRequest) -> Any:
            assert agent is request.agent
            self.asked.append(request)
            found = answer(request)
            return await found if isinstance(found, Awaitable) else found

    return Approver()


def with_permissions(**more: object) -> dict[str, object]:
    return {"permissions": dsh_permissions, "files": dsh_files, **more}


def write(path: Path) -> Any:
    return call("write", {"file_path": str(path), "content": "x"})


def results(agent: Agent) -> list[str]:
    return [text_of(event.data.content) for event in agent.session.events if isinstance(event.data, ToolResult)]


def data(agent: Agent, kind: str) -> list[Any]:
    return [event.data for event in agent.session.events if event.type == kind]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work/.git").mkdir(parents=True)
    return tmp_path / "work"


async def test_a_program_says_yes_once(work: Path) -> None:
    mine: Any = approver(lambda request: AllowOnce())
    outside = work.parent / "out"
    replies = (write(outside), write(outside), text("done"))
    async with memory_agent(*replies, plugins=with_permissions(mine=mine), cwd=str(work)) as agent:
        assert (await agent.run("go")).text == "done"
        assert outside.read_text() == "x"
        assert len(mine.asked) == 2
        request = mine.asked[0]
        assert (request.call.name, request.rules, request.lineage) == ("write", (f"write({outside})",), (agent.id,))
        assert str(outside) in request.reason
        assert request.verdict.kind == "ask"
        assert request.call.tool.name == "write"
        asked, decided = data(agent, "permission/asked"), data(agent, "permission/decided")
        assert [entry.id for entry in asked] == [entry.id for entry in decided] == [entry.id for entry in mine.asked]
        assert {(entry.outcome, entry.scope, entry.by) for entry in decided} == {("allowed", "once", "mine")}


async def test_nobody_is_asked_about_a_call_that_would_fail(work: Path) -> None:
    """The model is told what it would have been told after the yes, and nothing counts as asked or refused."""
    mine: Any = approver(lambda request: AllowOnce())
    file, made = work / "x.py", work / "made.py"
    file.write_text("a = 1\n")
    edit = {"file_path": str(file), "old_string": "a = 1", "new_string": "a = 2"}
    replies = (
        call("edit", edit),  # not read yet
        write(file),
        call("edit", {"file_path": str(file)}),
        call("read", {"file_path": str(file)}),
        call("edit", {**edit, "old_string": "b"}),
        call("edit", edit),
        write(made),
        text("done"),
    )
    async with memory_agent(*replies, plugins=with_permissions(mine=mine), cwd=str(work)) as agent:
        assert (await agent.run("go")).text == "done"
        said = results(agent)
        assert [request.call.name for request in mine.asked] == ["edit", "write"]
        assert len(data(agent, "permission/asked")) == 2
    assert file.read_text() == "a = 2\n"
    assert made.read_text() == "x"
    for at, words in [(0, "read it before you edit"), (1, "was not read"), (2, "old_string"), (4, "is not in")]:
        assert words in said[at]
        assert "nobody was asked" in said[at]


async def test_where_nobody_can_be_asked_the_call_is_unanswered_as_ever(work: Path) -> None:
    file = work / "x.py"
    file.write_text("a = 1\n")
    reply = call("edit", {"file_path": str(file), "old_string": "a = 1", "new_string": "a = 2"})
    async with memory_agent(reply, text("done"), plugins=with_permissions(), cwd=str(work)) as agent:
        await agent.run("go")
        assert "Nobody is here to approve it" in results(agent)[0]


async def test_a_tool_says_itself_what_would_fail(work: Path) -> None:
    mine: Any = approver(lambda request: AllowOnce())
    ran: list[str] = []

    def check(arguments: Any, made: ToolCall) -> None:
        if made.arguments["n"] != 1:
            raise ValueError(f"{made.agent is not None}: {arguments['n']} is not 1")

    tool = Tool(
        "one",
        "One.",
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        lambda arguments, made: ran.append("ran") or "ok",  # type: ignore[func-returns-value]  # it is None
        check=check,
    )
    own = plugin_of(tools_register=lambda tools: tools.add(tool))
    replies = (call("one", {"n": 2}), call("one", {"n": "x"}), call("one", {"n": 1}), text("done"))
    async with memory_agent(*replies, plugins=with_permissions(mine=mine, own=own), cwd=str(work)) as agent:
        await agent.run("go")
        said = results(agent)
    assert said[0].startswith("Error: True: 2 is not 1 (nobody was asked")
    assert "invalid arguments for one" in said[1]
    assert (said[2], ran, len(mine.asked)) == ("ok", ["ran"], 1)


async def test_always_holds_for_the_whole_tree_and_is_noted_at_its_root(work: Path) -> None:
    mine: Any = approver(lambda request: AllowSession())
    outside = work.parent / "out"

    async def delegate(made: ToolCall) -> str:
        assert made.agent is not None
        handle = made.agent.harness.create_agent(
            parent=made.agent, options=AgentOptions(model="scripted/model"), cwd=str(work)
        )
        try:
            return (await handle.agent.run("do it")).text
        finally:
            await handle.dispose()

    helper = tool_of("delegate", delegate)
    replies = (call("delegate", {}), write(outside), text("child"), write(outside), text("done"))
    config = Config(tables={"permissions": {"allow": ["delegate"]}})
    plugins = with_permissions(mine=mine, helper=helper)
    async with memory_agent(*replies, plugins=plugins, config=config, cwd=str(work)) as agent:
        assert (await agent.run("go")).text == "done"
        assert len(mine.asked) == 1
        assert mine.asked[0].lineage == (agent.id, mine.asked[0].agent.id)
        (granted,) = data(agent, "permission/granted")
        assert granted.rules == (f"write({outside})",)
        assert data(agent, "permission/asked") == []  # it stands in the log of the one that asked


async def test_a_subagents_question_reaches_who_approves_for_its_parent_or_nobody(work: Path) -> None:
    outcomes: list[str] = []

    async def delegate(made: ToolCall) -> str:
        assert made.agent is not None
        handle = made.agent.harness.create_agent(
            parent=made.agent, options=AgentOptions(model="scripted/model"), cwd=str(work)
        )
        try:
            await handle.agent.run("do it")
            outcomes.extend(entry.outcome for entry in data(handle.agent, "permission/decided"))
            return results(handle.agent)[0]
        finally:
            await handle.dispose()

    helper = tool_of("delegate", delegate)
    config = Config(tables={"permissions": {"allow": ["delegate"]}})
    one, two = work.parent / "one", work.parent / "two"
    replies = (call("delegate", {}), write(one), text("child"), text("done")) * 2
    plugins = with_permissions(helper=helper)
    async with memory_agent(*replies, plugins=plugins, config=config, cwd=str(work)) as agent:
        await agent.run("go")
        assert "Nobody is here to approve it" in results(agent)[0]
        assert not one.exists()
        agent.plugins.register(approver(lambda request: AllowOnce()), "of-the-root")
        await agent.run("go")
        assert one.exists()
        assert not two.exists()
    assert outcomes == ["unanswered", "allowed"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: None, "Nobody is here to approve it; it would need the rule write("),
        (lambda request: 1 // 0, "(integer division or modulo by zero"),
        (lambda request: True, "permission_ask is answered with"),
        (lambda request: AllowSession("no (rule"), "(what mine answered is no rule)"),
        (lambda request: trio.Event().wait(), "(no answer came within 0.05 s)"),
    ],
)
async def test_whatever_is_no_answer_denies(work: Path, answer: Any, why: str) -> None:
    outside, warnings = work.parent / "out", list[str]()
    config = Config(tables={"permissions": {"ask_timeout": 0.05}})
    plugins = with_permissions(mine=approver(answer))
    replies = (write(outside), text("done"))
    async with memory_agent(*replies, plugins=plugins, config=config, cwd=str(work), warnings=warnings) as agent:
        assert (await agent.run("go")).text == "done"
        assert why in results(agent)[0]
        (result,) = data(agent, "tool/result")
        assert result.error.code == "APPROVAL_UNANSWERED"
        (decided,) = data(agent, "permission/decided")
        assert (decided.outcome, decided.rules) == ("unanswered", (f"write({outside})",))
    assert not outside.exists()


async def test_a_refusal_is_an_answer(work: Path) -> None:
    outside = work.parent / "out"
    plugins = with_permissions(mine=approver(lambda request: Refuse("not there")))
    async with memory_agent(write(outside), text("done"), plugins=plugins, cwd=str(work)) as agent:
        await agent.run("go")
        (result,) = data(agent, "tool/result")
        assert (results(agent), result.error) == (["Error: refused by mine: not there"], None)


async def test_a_question_of_another_plugin_is_put_the_same_way(work: Path) -> None:
    mine: Any = approver(lambda request: AllowSession())
    guard = plugin_of(tools_pre_execute=lambda call: Ask("it is late") if call.name == "read" else None)
    here = work / "x"
    here.write_text("text")
    look = call("read", {"file_path": str(here)})
    other = call("read", {"file_path": str(here), "limit": 1})
    plugins = with_permissions(mine=mine, guard=guard)
    async with memory_agent(look, look, other, text("done"), plugins=plugins, cwd=str(work)) as agent:
        await agent.run("go")
        assert [(request.reason, request.rules, request.verdict) for request in mine.asked] == [
            ("it is late", (), None),
            ("it is late", (), None),
        ]
        granted = data(agent, "permission/granted")
        assert [entry.tool for entry in granted] == ["read", "read"]
        assert granted[0].digest != granted[1].digest


async def test_nobody_is_asked_in_dont_ask(work: Path) -> None:
    mine: Any = approver(lambda request: AllowOnce())
    guard = plugin_of(tools_pre_execute=lambda call: Ask("it is late") if call.name == "read" else None)
    config = Config(tables={"permissions": {"mode": "dont-ask"}})
    replies = (write(work.parent / "out"), call("read", {"file_path": str(work)}), text("done"))
    plugins = with_permissions(mine=mine, guard=guard)
    async with memory_agent(*replies, plugins=plugins, config=config, cwd=str(work)) as agent:
        await agent.run("go")
        assert mine.asked == []
        assert [result.error for result in data(agent, "tool/result")] == [None, None]
        assert "it is late" in results(agent)[1]


async def test_a_no_of_a_rule_is_not_asked_about(work: Path) -> None:
    mine: Any = approver(lambda request: AllowSession("write"))
    inside, outside = work / "never", work.parent / "out"
    config = Config(tables={"permissions": {"deny": [f"write({inside})"], "ask": ["write(*)"]}})
    replies = (write(outside), write(inside), text("done"))
    async with memory_agent(*replies, plugins=with_permissions(mine=mine), config=config, cwd=str(work)) as agent:
        await agent.run("go")
        assert not inside.exists()


async def test_cancelling_ends_the_wait_and_is_in_the_log(work: Path) -> None:
    waiting = trio.Event()

    async def never(request: PermissionRequest) -> None:
        waiting.set()
        await trio.sleep_forever()

    plugins = with_permissions(mine=approver(never))
    async with memory_agent(write(work.parent / "out"), plugins=plugins, cwd=str(work)) as agent:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.run, "go")
            await waiting.wait()
            agent.cancel("enough")
        (decided,) = data(agent, "permission/decided")
        assert decided.outcome == "cancelled"
        (result,) = data(agent, "tool/result")
        assert result.error.code == "ABORTED_BEFORE_DISPATCH"


async def test_a_program_may_allow_for_the_project(work: Path) -> None:
    outside = work.parent / "out"
    plugins = with_permissions(mine=approver(lambda request: AllowProject()))
    async with memory_agent(write(outside), text("done"), plugins=plugins, cwd=str(work)) as agent:
        await agent.run("go")
        assert outside.exists()
        local = work / ".dsh/config.local.toml"
        assert local.read_text() == f'[permissions]\nallow = [\n    "write({outside})",\n]\n'
        folder = TrustStore(agent.harness.home).judged(read_folder(work, work))
        assert folder.trusted
        (decided,) = data(agent, "permission/decided")
        assert decided.scope == "project"


async def test_where_the_project_cannot_be_written_it_holds_for_the_session(work: Path) -> None:
    (work / ".dsh/plugins").mkdir(parents=True)
    (work / ".dsh/plugins/x.py").write_text("")
    outside, warnings = work.parent / "out", list[str]()
    plugins = with_permissions(mine=approver(lambda request: AllowProject()))
    replies = (write(outside), text("done"))
    async with memory_agent(*replies, plugins=plugins, cwd=str(work), warnings=warnings) as agent:
        await agent.run("go")
        (decided,) = data(agent, "permission/decided")
        assert (decided.outcome, decided.scope) == ("allowed", "session")
    assert any("the rule holds for this session only: this folder is not trusted" in line for line in warnings)
    assert not (work / ".dsh/config.local.toml").exists()


async def test_what_is_logged_hides_secrets(work: Path) -> None:
    outside = work.parent / "sk-secret-0123456789"
    plugins = with_permissions(mine=approver(lambda request: AllowSession()))
    async with memory_agent(write(outside), text("done"), plugins=plugins, cwd=str(work)) as agent:
        agent.harness.secrets.add("sk-secret-0123456789", "TEST_KEY")
        await agent.run("go")
        logged = [
            *data(agent, "permission/asked"),
            *data(agent, "permission/decided"),
            *data(agent, "permission/granted"),
        ]
        assert len(logged) == 3
        for entry in logged:
            assert "sk-secret-0123456789" not in str(attrs.asdict(entry))


PROGRAM = """
import sys, trio
from dsh import AgentOptions, hookimpl, open_harness
from dsh.testing import ScriptedModel, call, text
from dsh.approval import AllowOnce, Refuse

class Approver:
    @hookimpl
    async def permission_ask(self, request):
        return AllowOnce() if request.call.name == "write" else Refuse("only files")

async def main(outside):
    write, remove = {"file_path": outside, "content": "x"}, {"command": "rm " + outside}
    replies = [call("write", write), call("bash", remove), text("done")]
    plugins = {"approver": Approver, "model": ScriptedModel(*replies)}
    async with open_harness(plugins=plugins) as harness:
        handle = harness.create_agent(options=AgentOptions(model="scripted/model"))
        print((await handle.agent.run("go")).text)

trio.run(main, sys.argv[1])
"""


def test_a_program_of_its_own_approves_from_start_to_end(work: Path) -> None:
    outside = work.parent / "out"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(outside)],
        cwd=work,
        env={**os.environ, "DSH_HOME": str(work.parent / "home")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert outside.read_text() == "x"
    (log,) = (work.parent / "home/sessions").rglob("*.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    decided = [event["data"] for event in events if event["type"] == "permission/decided"]
    assert [(entry["outcome"], entry["by"]) for entry in decided] == [("allowed", "approver"), ("refused", "approver")]


@pytest.mark.parametrize("asked", [True, False])
async def test_nobody_is_asked_about_a_tool_that_is_not_there(work: Path, asked: bool) -> None:
    """Nor about arguments that fit no tool; and with nobody there such a call is not unanswered."""
    mine: Any = approver(lambda request: AllowOnce())
    guard = plugin_of(tools_pre_execute=lambda call: Ask("sure?"))
    plugins = with_permissions(guard=guard, **({"mine": mine} if asked else {}))
    replies = (write(work / "made"), call("read", {"file_path": 3}), text("done"))
    options = AgentOptions(model="scripted/model", tools=("read",))
    async with memory_agent(*replies, plugins=plugins, options=options, cwd=str(work)) as agent:
        await agent.run("go")
        said = results(agent)
        assert data(agent, "permission/asked") == []
        assert all(result.error is None for result in data(agent, "tool/result"))
    assert said[0].startswith("Error: there is no tool 'write'")
    assert "invalid arguments for read" in said[1]
