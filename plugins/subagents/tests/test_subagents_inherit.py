"""What a child has from its parent, and cannot get rid of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dsh_budget
import dsh_shell
import pytest

from dsh import AgentOptions, Allow, Ask, Deny, Process, ToolCall, restrict_tools
from dsh.testing import call, plugin_of, reply, shape, text, tool_of, wrapper_of

TASK = {"description": "a part", "prompt": "do it"}
WORK = [call("work", id="w"), text("ok")]
MODES = ["subagent", "subagent_fork", "background", "nested", "type"]
TYPES = {"types": {"free": {"description": "x", "prompt": "You may do anything.", "tools": ["work", "bash"]}}}


def noting(ran: list[str]) -> object:
    """A tool that notes its calls."""

    def work(call: ToolCall) -> str:
        ran.append(call.id)
        return "done"

    return tool_of("work", work)


def way(mode: str, calls: list[Any], said: str = "ok") -> tuple[list[Any], list[list[Any]]]:
    """The scripts of a parent and those below it, where the last of them makes `calls`."""
    own = [reply(calls=calls), text(said)]
    if mode == "nested":
        return [call("subagent", TASK), text("done")], [[call("subagent", TASK, id="n"), text("ok")], own]
    more = {"background": True} if mode == "background" else {"type": "free"} if mode == "type" else {}
    tool = "subagent_fork" if mode == "subagent_fork" else "subagent"
    return [call(tool, {**TASK, **more}), text("done"), text("heard")], [own]


async def through(stage: Any, mode: str, calls: list[Any], prepare: Any, **more: Any) -> Any:
    """Run one such way with what `prepare` does to the parent, and return the child that made the calls."""
    script, below = way(mode, calls)
    more.setdefault("settings", TYPES)
    options = AgentOptions(model="scripted/model", one_turn=True)
    begun = [text("before")] if mode == "subagent_fork" else []
    async with stage.agent(*begun, *script, below=below, options=options, **more) as agent:
        if begun:
            await agent.run("before")
        prepare(agent)
        await agent.run("go")
        return stage.children[-1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verdict", [Deny("not here"), Ask("may it?"), RuntimeError("broken")])
async def test_a_guard_of_the_parent_that_no_child_passes(stage: Any, mode: str, verdict: Any) -> None:
    """Denied, asked with nobody to answer, or a guard that fails: the tool never runs."""
    ran: list[str] = []

    def judge(call: ToolCall) -> Any:
        if call.name != "work":
            return None
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def prepare(agent: Any) -> None:
        agent.plugins.register(plugin_of(tools_pre_execute=judge), "guard")

    work = noting(ran)
    child = await through(stage, mode, [("w", "work", {})], prepare, plugins={"work": work})
    ((_, code),) = stage.results(child.session)
    assert ran == []
    assert "TR!(w)" in shape(child.session.events)
    assert code == ("APPROVAL_UNANSWERED" if isinstance(verdict, Ask) else None)


@pytest.mark.parametrize("mode", MODES)
async def test_a_deciding_hook_of_the_parent_decides_for_children(stage: Any, mode: str) -> None:
    def prepare(agent: Any) -> None:
        async def execute(call: ToolCall) -> Any:
            from dsh import ToolResult

            return ToolResult("played") if call.name == "work" else None

        agent.plugins.register(plugin_of(tools_execute=execute), "player")

    child = await through(stage, mode, [("w", "work", {})], prepare, plugins={"work": tool_of("work")})
    assert stage.results(child.session)[0] == ("played", None)


@pytest.mark.parametrize("mode", MODES)
async def test_a_sandbox_of_the_parent_holds_what_children_start(stage: Any, mode: str, tmp_path: Path) -> None:
    def wrap(process: Process) -> Any:
        from attrs import evolve

        return evolve(process, argv=("/bin/echo", "in the sandbox"))

    def prepare(agent: Any) -> None:
        agent.plugins.register(plugin_of(process_prepare=wrap), "sandbox")

    plugins = {"shell": dsh_shell}
    child = await through(
        stage, mode, [("w", "bash", {"command": "touch out"})], prepare, plugins=plugins, cwd=str(tmp_path)
    )
    assert "in the sandbox" in stage.results(child.session)[0][0]
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["options", "without", "restricted"])
async def test_a_child_has_fewer_tools_and_never_more(stage: Any, mode: str, how: str) -> None:
    def prepare(agent: Any) -> None:
        if how == "restricted":
            restrict_tools(agent, deny=["work"])

    ran: list[str] = []
    work = noting(ran)
    script, below = way(mode, [("w", "work", {})])
    only = ("subagent", "subagent_fork") if how == "options" else None
    without = ("work",) if how == "without" else ()
    options = AgentOptions("scripted/model", tools=only, without_tools=without, one_turn=True)
    plugins = {"work": work}
    async with stage.agent(*script, below=below, options=options, plugins=plugins, settings=TYPES) as agent:
        prepare(agent)
        await agent.run("go")
        assert stage.results(stage.children[-1].session)[0][1] == "UNKNOWN_TOOL"
        assert ran == []


async def test_a_tool_that_the_parent_alone_has_is_no_tool_of_its_children(stage: Any) -> None:
    def prepare(agent: Any) -> None:
        agent.plugins.register(tool_of("work"), "own")

    child = await through(stage, "subagent", [("w", "work", {})], prepare)
    assert stage.results(child.session)[0][1] == "UNKNOWN_TOOL"


@pytest.mark.parametrize("mode", MODES)
async def test_a_list_that_names_a_tool_of_the_parent_alone_hinders_no_child(stage: Any, mode: str) -> None:
    script, below = way(mode, [("w", "other", {})])
    only = ("subagent", "subagent_fork", "work", "other")
    options = AgentOptions("scripted/model", tools=only, one_turn=True)
    plugins = {"other": tool_of("other")}
    settings = {"types": {"free": {"description": "x", "prompt": "x", "tools": ["work", "other"]}}}
    async with stage.agent(*script, below=below, options=options, plugins=plugins, settings=settings) as agent:
        agent.plugins.register(tool_of("work"), "own")
        await agent.run("go")
        assert stage.results(stage.children[-1].session) == [("done", None)]


@pytest.mark.parametrize("mode", MODES)
async def test_a_child_works_where_its_parent_does(stage: Any, mode: str, tmp_path: Path) -> None:
    plugins = {"shell": dsh_shell}
    child = await through(
        stage, mode, [("w", "bash", {"command": "pwd"})], lambda agent: None, plugins=plugins, cwd=str(tmp_path)
    )
    assert stage.results(child.session)[0][0].strip() == str(tmp_path)


@pytest.mark.parametrize("mode", MODES)
async def test_secrets_are_masked_in_children_and_on_the_way_to_them(stage: Any, mode: str) -> None:
    plugins = {
        "work": tool_of("work", lambda call: "it is sk-very-secret"),
        "secrets": plugin_of(secrets_register=lambda secrets: secrets.add("sk-very-secret", "KEY")),
    }
    child = await through(stage, mode, [("w", "work", {})], lambda agent: None, plugins=plugins)
    assert "sk-very-secret" not in stage.results(child.session)[0][0]
    task = {**TASK, "prompt": "use sk-very-secret"}
    async with stage.agent(call("subagent", task), text("done"), below=[[text("ok")]], plugins=plugins) as agent:
        await agent.run("go")
        assert "sk-very-secret" not in stage.asked(stage.children[-1].session)[0]


@pytest.mark.parametrize("mode", MODES)
async def test_limits_count_for_the_whole_tree(stage: Any, mode: str) -> None:
    """The parent asks twice before its child, which may ask once more (after `before`: not at all)."""
    script, below = way(mode, [("w", "work", {})])
    options = AgentOptions("scripted/model", one_turn=True)
    tables = {"budget": {"max_requests": 3 if mode == "nested" else 2}}
    plugins = {"work": tool_of("work"), "budget": dsh_budget}
    async with stage.agent(
        *script, below=below, options=options, plugins=plugins, settings=TYPES, tables=tables
    ) as agent:
        result = await agent.run("go")
        assert result.reason is not None
        assert (result.reason.kind, result.reason.code) == ("error", "LIMIT_REQUESTS")
        steps = [event for a in (agent, *stage.children) for event in a.session.events if event.type == "step/start"]
        assert len(steps) == tables["budget"]["max_requests"]


async def test_an_approver_of_the_parent_answers_for_its_children(stage: Any) -> None:
    ask = plugin_of(tools_pre_execute=lambda call: Ask("may it?") if call.name == "work" else None)

    def approve(call: ToolCall) -> Any:
        verdict = yield
        return Allow() if isinstance(verdict, Ask) else verdict

    def prepare(agent: Any) -> None:
        agent.plugins.register(wrapper_of(tools_pre_execute=approve), "approver")

    child = await through(
        stage, "subagent", [("w", "work", {})], prepare, plugins={"work": tool_of("work"), "ask": ask}
    )
    assert stage.results(child.session)[0] == ("done", None)


async def test_p07_what_a_child_leaves_running_ends_with_it(stage: Any, tmp_path: Path) -> None:
    """P07, in one program: the child is over, and so is what it started; the fixture looks for the rest."""
    calls = [(f"w{n}", "bash", {"command": "nohup sleep 900 >/dev/null 2>&1 & echo bg"}) for n in range(3)]
    from dsh.testing import child_processes

    def prepare(agent: Any) -> None:
        def ended(child: Any) -> None:
            # By name: the watchdog, which stays, has "sleep" in its script.
            names = [Path(f"/proc/{pid}/comm") for pid in child_processes()]
            assert "sleep" not in [name.read_text().strip() for name in names if name.exists()]

        agent.plugins.register(plugin_of(subagent_end=ended), "look")

    child = await through(stage, "subagent", calls, prepare, plugins={"shell": dsh_shell}, cwd=str(tmp_path))
    assert len(stage.results(child.session)) == 3
    assert stage.warnings == []
