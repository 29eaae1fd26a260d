"""The tools as a model and its user meet them: in an agent, with the hooks around."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dsh_shell
import pytest
import trio

from dsh import Config, ConfigError, Process, ToolCall, hookimpl
from dsh.agents import Agent
from dsh.messages import text_of
from dsh.session.events import ContextMessage, ToolResult, UserMessage
from dsh.testing import call, hang, memory_agent, memory_harness, shape, text
from dsh.tools.tool import Tools

pytestmark = pytest.mark.usefixtures("no_leftovers")
SHELL = {"shell": dsh_shell}


def results(agent: Agent) -> list[ToolResult]:
    return [event.data for event in agent.session.events if isinstance(event.data, ToolResult)]


def tool_named(agent: Agent, name: str) -> Any:
    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    return tools.by_name()[name]


async def test_a_command_is_run_and_a_failure_is_no_error(tmp_path: Path) -> None:
    async with memory_agent(
        call("bash", {"command": "pwd; exit 3"}), text("done"), plugins=SHELL, cwd=str(tmp_path)
    ) as agent:
        await agent.run("go")

        (result,) = results(agent)
        assert not result.is_error
        assert text_of(result.content) == f"{tmp_path}\n[exit code: 3]"
        assert {**result.meta, "durationMs": 0} == {"exitCode": 3, "signal": None, "timedOut": False, "durationMs": 0}


async def test_the_prompt_tells_how_failures_show() -> None:
    async with memory_agent(text("done"), plugins=SHELL) as agent:
        await agent.run("go")
        header = agent.session.request_header()

        assert header is not None
        assert "[exit code: 1]" in (header.system or "")
        assert [tool.name for tool in header.tools or ()] == ["bash", "bash_kill", "bash_output"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"command": "  "}, "command must be a text that is not empty"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "true", "timeoutMs": 0}, "timeoutMs must be a positive number"),
        ({"command": "true", "timeoutMs": -5}, "timeoutMs must be a positive number"),
        ({"command": "true", "workdir": "/absent"}, "/absent does not exist"),
    ],
)
async def test_wrong_arguments_are_explained(arguments: dict[str, Any], complaint: str) -> None:
    async with memory_agent(call("bash", arguments), text("done"), plugins=SHELL) as agent:
        await agent.run("go")

        (result,) = results(agent)
        assert result.is_error
        assert complaint in text_of(result.content)


async def test_the_working_directory_is_relative_to_the_session_s(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with memory_agent(
        call("bash", {"command": "pwd", "workdir": "sub"}), text("done"), plugins=SHELL, cwd=str(tmp_path)
    ) as agent:
        await agent.run("go")

        assert text_of(results(agent)[0].content) == f"{tmp_path}/sub\n"


async def test_credentials_do_not_reach_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    class Provider:
        @hookimpl
        def secrets_register(self, secrets: Any) -> None:
            secrets.add("hunter2hunter2", "provider")

    monkeypatch.setenv("SOME_API_KEY", "1")
    monkeypatch.setenv("my_token_file", "2")
    monkeypatch.setenv("INNOCENT", "hunter2hunter2")
    monkeypatch.setenv("PLAIN", "kept")
    async with memory_agent(
        call("bash", {"command": "env", "env": {"EXTRA": "x"}, "stdin": "y", "owner": "z"}),
        text("done"),
        plugins={**SHELL, "provider": Provider()},
    ) as agent:
        await agent.run("go")

        names = {line.split("=")[0] for line in text_of(results(agent)[0].content).splitlines()}
        assert "PLAIN" in names
        assert names.isdisjoint({"SOME_API_KEY", "my_token_file", "INNOCENT", "EXTRA"})


async def test_a_process_that_is_not_prepared_does_not_start(tmp_path: Path) -> None:
    class Sandbox:
        @hookimpl
        async def process_prepare(self, agent: Agent, process: Process) -> Process:
            raise RuntimeError("no sandbox here")

    async with memory_agent(
        call("bash", {"command": "touch started"}),
        call("bash", {"command": "touch started", "run_in_background": True}),
        text("done"),
        plugins={**SHELL, "sandbox": Sandbox()},
        cwd=str(tmp_path),
    ) as agent:
        await agent.run("go")

        assert [result.is_error for result in results(agent)] == [True, True]
        assert "no sandbox here" in text_of(results(agent)[0].content)
    assert not (tmp_path / "started").exists()


async def test_a_cancelled_turn_stops_its_command(tmp_path: Path, until: Any) -> None:
    async with memory_agent(
        call("bash", {"command": "echo $$ > shell; sleep 60 & wait"}), plugins=SHELL, cwd=str(tmp_path)
    ) as agent:
        agent.send("go")
        await until((tmp_path / "shell").exists)
        agent.cancel("enough")
        with trio.fail_after(20):
            await agent.when_idle()

        (result,) = results(agent)
        assert result.is_error
        assert shape(agent.session.events).endswith("T-(aborted enough)")


async def test_a_background_task_from_call_to_notice(tmp_path: Path) -> None:
    waits = "while [ ! -e go ]; do sleep 0.01; done"
    async with memory_agent(
        call("bash", {"command": f"echo one; {waits}; exit 2", "run_in_background": True}),
        call("bash", {"command": "touch go; sleep 0.5"}),
        call("bash_output", {"task_id": "bash-1"}),
        call("bash_kill", {"task_id": "bash-1"}),
        text("done"),
        plugins=SHELL,
        cwd=str(tmp_path),
    ) as agent:
        await agent.run("go")

        started, _, output, killed = (text_of(result.content) for result in results(agent))
        assert "bash-1" in started
        assert output == "one\n[status: completed, exit code: 2]"
        assert "was over already" in killed
        notices = [event.data for event in agent.session.events if isinstance(event.data, ContextMessage)]
        assert len(notices) == 1
        assert notices[0].source.plugin == "shell"  # type: ignore[union-attr]  # the log keeps the source it was given
        assert "bash-1" in text_of(notices[0].content)


async def test_disposing_the_agent_ends_what_it_left_running(tmp_path: Path) -> None:
    async with memory_agent(
        call("bash", {"command": "sleep 60 & echo $! > left"}),
        call("bash", {"command": "nohup sleep 60 >/dev/null 2>&1 &"}),
        call("bash", {"command": "setsid sleep 60 >/dev/null 2>&1 &"}),
        call("bash", {"command": "echo $$ > task; exec sleep 60", "run_in_background": True}),
        call("bash", {"command": "while [ ! -s task ]; do sleep 0.01; done"}),
        text("done"),
        plugins=SHELL,
        cwd=str(tmp_path),
    ) as agent:
        await agent.run("go")

        texts = [text_of(result.content) for result in results(agent)]
        assert "still running as task bash-1" in texts[0]
        assert "still running as task bash-2" in texts[1]
        assert "bash-3" in texts[3]
    for name in ("left", "task"):
        with pytest.raises(ProcessLookupError):
            _probe(tmp_path / name)


def _probe(path: Path) -> None:
    pid = int(path.read_text())
    os.kill(pid, 0)
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
        raise ProcessLookupError


async def test_another_session_s_task_is_out_of_reach(tmp_path: Path) -> None:
    async with memory_agent(
        call("bash", {"command": "sleep 60", "run_in_background": True}), text("done"), plugins=SHELL
    ) as agent:
        await agent.run("go")
        other = agent.harness.create_agent().agent
        for name in ("bash_output", "bash_kill"):
            tool = tool_named(other, name)
            with pytest.raises(Exception, match="belongs to another session"):
                await tool.execute({"task_id": "bash-1"}, ToolCall("c", name, {}, other))
            with pytest.raises(Exception, match="belongs to another session"):
                await tool.execute({"task_id": "bash-1"}, ToolCall("c", name, {}))
            with pytest.raises(Exception, match="no background task bash-9"):
                await tool.execute({"task_id": "bash-9"}, ToolCall("c", name, {}, other))
            with pytest.raises(Exception, match="task_id must be"):
                await tool.execute({"task_id": " "}, ToolCall("c", name, {}, other))


async def test_a_call_outside_of_any_agent() -> None:
    async with memory_agent(hang(), plugins=SHELL) as agent:
        bash = tool_named(agent, "bash")
        result = await bash.execute({"command": "pwd; sleep 60 &"}, ToolCall("c", "bash", {}))

        assert text_of(result.content).startswith(f"{os.getcwd()}\n")
        with pytest.raises(Exception, match="needs an agent"):
            await bash.execute({"command": "true", "run_in_background": True}, ToolCall("c", "bash", {}))


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"timeout_ms": 0}, "shell: timeout_ms must be a positive, finite number, not 0"),
        ({"grace_ms": float("inf")}, "grace_ms must be"),
        ({"max_output_bytes": -1}, "max_output_bytes must be"),
        ({"max_output_bytes": 999}, "max_output_bytes must be 1000 or more"),
        ({"timeout": 5}, "did you mean timeout_ms"),
        ({"shell": "/absent/shell"}, "no such program"),
    ],
)
async def test_wrong_settings_are_explained(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        async with memory_harness(plugins=SHELL, config=Config(tables={"shell": table})):
            pass


async def test_without_bash_there_is_sh_and_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    warnings: list[str] = []
    async with memory_agent(call("bash", {"command": "echo hi"}), text("x"), plugins=SHELL, warnings=warnings) as agent:
        await agent.run("go")

        assert text_of(results(agent)[0].content) == "hi\n"
    assert ["bash is not on PATH" in warning for warning in warnings] == [True]


async def test_a_timeout_in_the_words_of_other_harnesses() -> None:
    async with memory_agent(
        call("bash", {"command": "sleep 30", "timeout": 0.2}),
        call("bash", {"command": "true", "timeout": 120000}),
        text("done"),
        plugins=SHELL,
    ) as agent:
        await agent.run("go")

        first, second = (text_of(result.content) for result in results(agent))
        assert "[timed out after 200 ms" in first
        assert second == "(no output)"


async def test_the_log_holds_the_prompt_and_the_answer() -> None:
    async with memory_agent(call("bash", {"command": "echo 🙂"}), text("done"), plugins=SHELL) as agent:
        await agent.run("🙂")

        assert [text_of(e.data.content) for e in agent.session.events if isinstance(e.data, UserMessage)] == ["🙂"]
        assert text_of(results(agent)[0].content) == "🙂\n"
