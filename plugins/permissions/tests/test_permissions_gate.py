"""The gate: real agents with real tools, and what the model is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dsh_files
import dsh_permissions
import dsh_shell
import pytest
from dsh_permissions.guard import guard_of

from dsh import AgentOptions, Config, ConfigError, DshError, Tool, ToolCall
from dsh.canaries import run_canaries
from dsh.checks import Checks
from dsh.layers import Layer
from dsh.messages import UserSource
from dsh.paths import judged_path
from dsh.session.events import EndReason, Event, Trigger, TurnEnd, TurnStart
from dsh.session.folder import session_folder
from dsh.testing import call, memory_harness, plugin_of, text
from dsh.tools.pipeline import UNANSWERED

PLUGINS = {"permissions": dsh_permissions, "files": dsh_files, "shell": dsh_shell}


def settings(**table: Any) -> Config:
    return Config(layers=(Layer("test", {"permissions": table}),), tables={"permissions": table})


async def results(cwd: Path, config: Config, *calls: Any, plugins: Any = None, child: bool = False) -> list[Any]:
    replies = [*calls, text("done")]
    async with memory_harness(*replies, plugins={**PLUGINS, **(plugins or {})}, config=config) as harness:
        parent = None
        if child:
            parent = harness.create_agent(cwd=str(cwd), options=AgentOptions(model="scripted/model")).agent
        options = AgentOptions(model="scripted/model")
        handle = harness.create_agent(cwd=str(cwd), options=options, parent=parent)
        await handle.agent.run("go")
        found = [event.data for event in handle.agent.session.events if event.type == "tool/result"]
        await handle.dispose()
        return found


def said(result: Any) -> str:
    return str(result.content[0].text)


async def test_m01_to_m05_what_is_not_allowed_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "victim").touch()
    rules = settings(allow=["bash(echo *)", "bash(cd *)", "bash(git log*)"])
    for line in ("echo x && rm -f victim", "cd . && rm -f victim", "git log -1; rm victim", "echo 1\nrm -f victim"):
        (result,) = await results(tmp_path, rules, call("bash", {"command": line}))
        assert result.is_error
        assert result.error.code == UNANSWERED
        assert "rm" in said(result)
    assert (tmp_path / "victim").exists()


async def test_m04_a_denial_names_the_rule_to_the_model(tmp_path: Path) -> None:
    (tmp_path / "victim").touch()
    rules = settings(allow=["bash(echo *)"], deny=["bash(rm *)"])
    for line in ("echo $(rm -f victim)", "echo `rm -f victim`", "eval 'rm -f victim'", "bash -c 'rm -f victim'"):
        (result,) = await results(tmp_path, rules, call("bash", {"command": line}))
        assert "the rule bash(rm *) denies rm -f victim" in said(result)
        assert result.error is None
    assert (tmp_path / "victim").exists()


async def test_m06_commands_that_are_all_allowed_run(tmp_path: Path) -> None:
    rules = settings(allow=["bash(touch *)", "bash(echo *)"])
    (result,) = await results(tmp_path, rules, call("bash", {"command": "touch f && echo made"}))
    assert "made" in said(result)
    assert (tmp_path / "f").exists()


async def test_f02_the_file_is_not_made(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    os.symlink("../outside/new.txt", work / "note.txt")
    arguments = {"file_path": "note.txt", "content": "x"}
    (result,) = await results(work, settings(mode="accept-edits"), call("write", arguments))
    assert result.error.code == UNANSWERED
    assert list(outside.iterdir()) == []


async def test_what_is_allowed_leaves_nothing_in_the_log_and_a_denial_does(tmp_path: Path) -> None:
    async with memory_harness(
        call("bash", {"command": "ls"}),
        call("bash", {"command": "make"}),
        text("done"),
        plugins=PLUGINS,
        config=settings(deny=["bash(make *)"]),
    ) as harness:
        agent = harness.create_agent(cwd=str(tmp_path), options=AgentOptions(model="scripted/model")).agent
        await agent.run("go")
        found = [event.data for event in agent.session.events if event.type == "hook/decision"]
    assert [(data.plugin, data.verdict) for data in found] == [("permissions", "deny")]


async def test_a_name_that_is_no_text_can_be_told_to_the_model(tmp_path: Path) -> None:
    arguments = {"file_path": os.fsdecode(b"caf\xe9"), "content": "x"}
    (result,) = await results(tmp_path, settings(), call("write", arguments))
    assert result.is_error


async def test_a_child_is_judged_as_its_parent(tmp_path: Path) -> None:
    (result,) = await results(tmp_path, settings(deny=["bash(ls *)"]), call("bash", {"command": "ls"}), child=True)
    assert "denies ls" in said(result)


async def test_the_working_directory_of_a_command_counts(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "f").touch()
    inside, outside = {"command": "ls", "workdir": "."}, {"command": "ls", "workdir": str(tmp_path)}
    (result,) = await results(work, settings(), call("bash", inside))
    assert not result.is_error
    (result,) = await results(work, settings(), call("bash", outside))
    assert result.error.code == UNANSWERED


async def test_a_link_that_is_moved_after_it_was_judged_leads_nowhere(tmp_path: Path) -> None:
    """A plugin that is asked between the judge and the tool plays the one who moves it."""
    work = tmp_path / "work"
    (work / "real").mkdir(parents=True)
    (work / "real/a").write_text("mine")
    (tmp_path / "a").write_text("theirs")
    os.symlink("real", work / "link")

    async def swap(call: ToolCall) -> None:
        assert judged_path(call) == f"{work}/real/a"
        (work / "link").unlink()
        os.symlink("..", work / "link")

    plugins = {"swapper": plugin_of(tools_execute=swap)}
    (result,) = await results(work, settings(), call("read", {"file_path": "link/a"}), plugins=plugins)
    assert "theirs" not in said(result)
    assert result.error.code == "FS_MOVED"


async def test_results_that_were_put_aside_for_the_session_may_be_read(tmp_path: Path) -> None:
    async with memory_harness(plugins=PLUGINS, config=settings()) as harness:
        agent = harness.create_agent(cwd=str(tmp_path), options=AgentOptions(model="scripted/model")).agent
        guard = guard_of(harness)

        def kind(path: Path) -> str:
            verdict = guard.judge(agent, ToolCall("c", "read", {"file_path": str(path)}, agent))
            assert verdict is not None
            return verdict.kind

        own = session_folder(harness.home, agent.session.id)
        assert kind(own / "results/c1.txt") == "allow"
        assert kind(own / "outputs/bash-1-stdout.log") == "allow"
        assert kind(own / "results") == "allow"
        assert kind(own) == "ask"
        assert kind(own / "results/../other/c1.txt") == "ask"
        assert kind(own / "other/c1.txt") == "ask"
        assert kind(session_folder(harness.home, "another") / "results/c1.txt") == "ask"
        assert kind(harness.home / "config.toml") == "ask"

        def command(text: str) -> str:
            verdict = guard.judge(agent, ToolCall("c", "bash", {"command": text}, agent))
            assert verdict is not None
            return verdict.kind

        for line in (
            "grep -n error {}/results/c1.txt",
            "sed -n 5,9p {}/outputs/b.log",
            "tail {}/outputs/b.log | wc -l",
        ):
            assert command(line.format(own)) == "allow", line
            assert command(line.format(session_folder(harness.home, "another"))) == "ask", line
        assert command(f"echo x > {own}/results/c1.txt") == "ask"
        assert command(f"cat {own}/results/c1.txt {harness.home}/config.toml") == "ask"
        other = harness.create_agent(cwd=str(tmp_path), options=AgentOptions(model="scripted/model")).agent
        agent, first = other, own
        assert kind(first / "results/c1.txt") == "ask"  # nor another agent's of the same place
        turn = TurnStart(1, Trigger("message", UserSource())), TurnEnd(1, EndReason("completed"))
        seed = [Event(seq, 0, data) for seq, data in enumerate(turn)]
        cases: list[tuple[dict[str, Any], str]] = [({"seed": seed}, "allow"), ({}, "ask")]
        for more, verdict in cases:  # a fork, and a child with a task of its own
            agent = harness.create_agent(
                cwd=str(tmp_path), options=AgentOptions(model="scripted/model"), parent_session=other.session.id, **more
            ).agent
            assert kind(session_folder(harness.home, other.session.id) / "results/c1.txt") == verdict
            assert kind(first / "results/c1.txt") == "ask"


async def test_a_link_to_other_files_in_the_session_s_folder_opens_nothing(tmp_path: Path) -> None:
    async with memory_harness(plugins=PLUGINS, config=settings()) as harness:
        agent = harness.create_agent(cwd=str(tmp_path), options=AgentOptions(model="scripted/model")).agent
        own = session_folder(harness.home, agent.session.id)
        own.mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir()
        (own / "results").symlink_to(harness.home)
        (own / "outputs").mkdir()
        (own / "outputs/config.log").symlink_to(harness.home / "config.toml")
        for path in (own / "results/config.toml", own / "outputs/config.log"):
            verdict = guard_of(harness).judge(agent, ToolCall("c", "read", {"file_path": str(path)}, agent))
            assert verdict is not None
            assert verdict.kind == "ask", path


async def test_tools_that_say_nothing_of_themselves_are_asked_about(tmp_path: Path) -> None:
    ran = []

    def noted(arguments: Any, call: ToolCall) -> str:
        ran.append(call.name)
        return "ok"

    tools = plugin_of(
        tools_register=lambda tools: tools.add(
            Tool("unknown", "x", {"type": "object"}, noted),
            Tool("inner", "x", {"type": "object"}, noted, effect="none"),
        )
    )
    found = await results(tmp_path, settings(), call("unknown", {}), call("inner", {}), plugins={"mine": tools})
    assert [result.is_error for result in found] == [True, False]
    assert ran == ["inner"]


async def test_arguments_that_the_tool_refuses_are_no_question(tmp_path: Path) -> None:
    for arguments in ({"Command": "ls"}, {"command": ["rm", "x"]}, {"command": None}):
        (result,) = await results(tmp_path, settings(), call("bash", arguments))
        assert result.error.code == "INVALID_ARGS"


async def test_a_tool_that_there_is_not_is_no_question(tmp_path: Path) -> None:
    (result,) = await results(tmp_path, settings(), call("raed", {}))
    assert "Did you mean read?" in said(result)


async def test_canaries_hold_in_every_mode() -> None:
    for mode in ("default", "accept-edits", "plan", "dont-ask", "bypass"):
        config = Config(
            layers=(Layer("--permission-mode", {"permissions": {"mode": mode, "allow": ["*", "write(**)"]}}),),
            tables={"permissions": {"mode": mode}},
        )
        async with memory_harness(plugins=PLUGINS, config=config, warnings=[]) as harness:
            assert await run_canaries(harness) >= 2


async def test_the_doctor_tries_a_command_that_needs_the_grammar() -> None:
    async with memory_harness(plugins=PLUGINS, config=settings(deny=["bash(rm *)"])) as harness:
        checks = Checks()
        await dsh_permissions.dsh_doctor(harness, checks)
        (found,) = checks
        assert (found.status, found.text) == ("ok", "commands are parsed and judged; mode default, 1 rule")


@pytest.mark.parametrize(
    ("rule", "words"),
    [("Bash(ls)", "there is no tool Bash, did you mean bash?"), ("bash_kill(x)", "has no argument that rules look at")],
)
async def test_rules_about_no_tool_are_refused_when_the_tools_are_known(tmp_path: Path, rule: str, words: str) -> None:
    with pytest.raises((ConfigError, DshError)) as caught:
        await results(tmp_path, settings(deny=[rule]), call("bash", {"command": "ls"}))
    assert words in str(caught.value)


async def test_rules_about_tools_that_may_come_later_are_said() -> None:
    warnings: list[str] = []
    config = settings(allow=["web_search", "somebody_elses", "mcp__*"])
    async with memory_harness(plugins=PLUGINS, config=config, warnings=warnings) as harness:
        harness.create_agent(options=AgentOptions(model="scripted/model"))
    (line,) = [line for line in warnings if "there is no tool" in line]
    assert line.startswith("test: permissions.allow: 'somebody_elses': there is no tool somebody_elses")


async def test_grants_hold_for_the_tree_of_one_agent(tmp_path: Path) -> None:
    async with memory_harness(plugins=PLUGINS, config=settings()) as harness:
        options = AgentOptions(model="scripted/model")
        first = harness.create_agent(cwd=str(tmp_path), options=options).agent
        child = harness.create_agent(cwd=str(tmp_path), options=options, parent=first).agent
        other = harness.create_agent(cwd=str(tmp_path), options=options).agent
        guard = guard_of(harness)
        guard.grant(child, "bash(make *)")

        def kind(agent: Any) -> str:
            verdict = guard.judge(agent, ToolCall("c", "bash", {"command": "make all"}, agent))
            assert verdict is not None
            return verdict.kind

        assert [kind(agent) for agent in (first, child, other)] == ["allow", "allow", "ask"]
        with pytest.raises(ConfigError, match="this session"):
            guard.grant(first, "bash(a && b)")


async def test_calls_of_programs_are_judged_by_the_only_rules_there_are(tmp_path: Path) -> None:
    async with memory_harness(plugins=PLUGINS, config=settings(deny=["bash(rm *)"])) as harness:
        verdict = await harness.hook.tools_pre_execute(agent=None, call=ToolCall("c", "bash", {"command": "rm x"}))
        assert type(verdict).__name__ == "Deny"
