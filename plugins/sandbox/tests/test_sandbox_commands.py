# ruff: noqa: ASYNC220
"""Commands of an agent, through the tool that runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dsh_sandbox
import pytest
import trio

from dsh import Agent, Allow, Ask, Config, hookimpl
from dsh.messages import text_of
from dsh.session.events import HookDecision, RequestHeader, ToolResult
from dsh.testing import ScriptedModel, call, child_processes, memory_agent, plugin_of, text

SHELL = {entry.name: entry.load() for entry in entry_points(group="dsh", name="shell")}


@pytest.fixture
def open_agent(backend: str, tmp_path: Path) -> Any:
    work = tmp_path / "work"
    work.mkdir()

    @asynccontextmanager
    async def opened(
        *commands: dict[str, Any],
        plugins: dict[str, object] | None = None,
        session_id: str | None = None,
        **settings: Any,
    ) -> AsyncIterator[Agent]:
        table = {"mode": "workspace-write", "backend": backend, **settings}
        replies = [*(call("bash", arguments) for arguments in commands), text("done")]
        async with memory_agent(
            model=ScriptedModel(*replies),
            plugins={**SHELL, "sandbox": dsh_sandbox, **(plugins or {})},
            config=Config(tables={"sandbox": table, "shell": {"grace_ms": 300}}),
            cwd=str(work),
            session_id=session_id,
        ) as agent:
            await agent.run("go")
            yield agent

    return opened


def results(agent: Agent) -> list[str]:
    return [text_of(event.data.content) for event in agent.session.events if isinstance(event.data, ToolResult)]


def codes(agent: Agent) -> list[str | None]:
    found = [event.data.error for event in agent.session.events if isinstance(event.data, ToolResult)]
    return [None if error is None else error.code for error in found]


async def test_a_command_is_confined_and_the_model_is_told_why_it_failed(open_agent: Any) -> None:
    async with open_agent({"command": "echo x > /usr/dsh-made"}, {"command": "touch made && echo well"}) as agent:
        failed, went = results(agent)

    assert "[this may be the sandbox's doing: in the sandbox (workspace-write) only " in failed
    assert failed.splitlines()[-1] == "[exit code: 1]"
    assert went == "well\n"


async def test_a_command_without_network_is_told_so(open_agent: Any) -> None:
    async with open_agent(
        {"command": f"{sys.executable} -c 'import socket; socket.getaddrinfo(\"example.org\", 1)'"}
    ) as agent:
        (failed,) = results(agent)

    assert "[this may be the sandbox's doing: there is no network in the sandbox (workspace-write)]" in failed


@pytest.mark.parametrize("status", [1, 125, 126, 127])
async def test_a_commands_own_failure_is_not_the_sandboxs(open_agent: Any, status: int) -> None:
    said = "bwrap: Can't make symlink: I am only a test\nthe sandbox could not be set up: neither am I"
    async with open_agent({"command": f"echo {said!r} >&2; exit {status}"}) as agent:
        (failed,) = results(agent)
        assert codes(agent) == [None]

    assert failed.endswith(f"[exit code: {status}]")
    assert "sandbox's doing" not in failed


async def test_a_sandbox_that_cannot_be_set_up_is_no_result_of_the_command(open_agent: Any, tmp_path: Path) -> None:
    class Breaks:
        """The program is gone by the time that the sandbox would run it."""

        @hookimpl
        def process_prepare(self, process: Any) -> Any:
            import attrs

            return attrs.evolve(process, argv=("/nowhere/program",))

    async with open_agent({"command": "true"}, plugins={"breaks": Breaks()}) as agent:
        (failed,) = results(agent)
        assert codes(agent) == ["SANDBOX_FAILED"]

    assert failed.startswith("Error: the command did not run, the sandbox could not be set up")


async def test_the_model_reads_what_is_forbidden(open_agent: Any) -> None:
    async with open_agent() as agent:
        header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader)).header
        bash = next(tool for tool in header.tools or () if tool.name == "bash")

    assert "Commands run in a sandbox (workspace-write)." in (header.system or "")
    assert "no network" in (header.system or "")
    assert {"sandbox", "justification"} <= set(bash.parameters["properties"])


async def test_without_a_sandbox_nothing_is_said_of_one(open_agent: Any) -> None:
    async with open_agent({"command": "echo hello > /tmp/x-$$ && rm /tmp/x-$$"}, mode="danger-full-access") as agent:
        header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader)).header
        bash = next(tool for tool in header.tools or () if tool.name == "bash")

    assert "in a sandbox" not in (header.system or "")
    assert not {"sandbox", "justification"} & set(bash.parameters["properties"])


OUT = {"sandbox": "outside", "justification": "it must be there"}


async def test_outside_is_denied_where_nobody_is_there(open_agent: Any, tmp_path: Path) -> None:
    async with open_agent({"command": f"touch {tmp_path}/made", **OUT}) as agent:
        assert codes(agent) == ["APPROVAL_UNANSWERED"]
        assert "run outside of the sandbox: it must be there" in results(agent)[0]

    assert not (tmp_path / "made").exists()


async def test_a_person_lets_one_call_out(open_agent: Any, tmp_path: Path) -> None:
    asked: list[str] = []

    class Person:
        @hookimpl(wrapper=True, tryfirst=True)
        def tools_pre_execute(self) -> Any:
            verdict = yield
            if isinstance(verdict, Ask) and "outside" in (verdict.reason or ""):
                asked.append(verdict.reason or "")
            return Allow() if isinstance(verdict, Ask) else verdict

    commands = [{"command": f"touch {tmp_path}/{name}"} for name in ("before", "made", "after")]
    commands[1] |= OUT
    asks = plugin_of(tools_pre_execute=lambda call: Ask("a touch"))
    async with open_agent(*commands, plugins={"person": Person(), "asks": asks}) as agent:
        decided = [e.data for e in agent.session.events if isinstance(e.data, HookDecision)]

    assert asked == ["run outside of the sandbox: it must be there (and: a touch)"]
    assert (tmp_path / "made").exists()
    assert not (tmp_path / "before").exists()
    assert not (tmp_path / "after").exists()
    assert ("sandbox.guard", "tools_pre_execute") in [(one.plugin, one.hook) for one in decided]


async def test_outside_needs_a_reason(open_agent: Any) -> None:
    person = plugin_of(tools_pre_execute=lambda call: Allow())
    for arguments in ({"sandbox": "outside"}, {"sandbox": "outside", "justification": " "}, {"sandbox": "no"}):
        async with open_agent({"command": "echo ran", **arguments}, plugins={"person": person}) as agent:
            assert "ran" not in results(agent)[0].split()


async def test_outside_is_asked_about_also_where_no_sandbox_can_be_had(tmp_path: Path) -> None:
    """Or whoever asks for it would get by the refusal."""
    model = ScriptedModel(call("bash", {"command": f"touch {tmp_path}/made", **OUT}), text("done"))
    config = Config(tables={"sandbox": {"mode": "workspace-write"}})
    async with memory_agent(
        model=model, plugins={**SHELL, "sandbox": dsh_sandbox}, config=config, cwd=str(tmp_path)
    ) as agent:
        dsh_sandbox._sandboxes[agent.harness]._found = (None, "there is none")
        await agent.run("go")
        assert codes(agent) == ["APPROVAL_UNANSWERED"]

    assert not (tmp_path / "made").exists()


async def test_outside_can_be_forbidden(open_agent: Any) -> None:
    async with open_agent({"command": "echo ran", **OUT}, outside="never") as agent:
        header = next(event.data for event in agent.session.events if isinstance(event.data, RequestHeader)).header
        bash = next(tool for tool in header.tools or () if tool.name == "bash")

        assert codes(agent) == [None]
        assert "no command may run outside" in results(agent)[0]
        assert "sandbox" not in bash.parameters["properties"]


async def test_what_a_command_leaves_running_goes_on_and_ends_with_the_agent(open_agent: Any) -> None:
    number = f"7{os.getpid()}"
    async with open_agent({"command": f"setsid sleep {number} & echo started"}) as agent:
        (said,) = results(agent)
        assert "still running as task bash-1" in said
        assert pgrep(number)

    assert pgrep(number) == []
    assert child_processes() == []


async def test_the_file_of_a_long_output_can_be_looked_through(open_agent: Any) -> None:
    long = {"command": "head -c 200000 /dev/zero | tr '\\0' x; echo the end"}
    look = {"command": "cat ${TMPDIR%/dsh-sandbox*}/dsh-test-*/*/*mine*/outputs/* | tail -c 8"}
    async with open_agent(long, look, session_id="mine") as agent:
        cut, found = results(agent)

    assert "/outputs/" in cut
    assert "the end" in found


async def test_a_timeout_stops_everything(open_agent: Any) -> None:
    number = f"8{os.getpid()}"
    command = f"(setsid sleep {number} &) ; trap '' TERM; while :; do sleep 0.05; done"
    async with open_agent({"command": command, "timeoutMs": 400}) as agent:
        assert "[timed out after 400 ms" in results(agent)[0]
        assert pgrep(number) == []


async def test_with_bubblewrap_who_hides_is_found_all_the_same(open_agent: Any, covered: Any) -> None:
    covered("whoever leaves the group and empties its environment is not found")
    number = f"9{os.getpid()}"
    command = f"(env -i setsid nohup /bin/sleep {number} >/dev/null 2>&1 &) ; sleep 30"
    async with open_agent({"command": command, "timeoutMs": 400}) as agent:
        assert "[timed out after 400 ms" in results(agent)[0]
        assert pgrep(number) == []


def pgrep(number: str) -> list[str]:
    found = subprocess.run(["pgrep", "-f", f"sleep {number}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


async def test_a_child_agent_is_held_to_what_its_parent_is(backend: str, tmp_path: Path) -> None:
    strict = plugin_of(sandbox_modes=lambda modes: modes.add("read-only"))
    loose = plugin_of(sandbox_modes=lambda modes: modes.add("danger-full-access"))
    model = ScriptedModel(call("bash", {"command": "touch made"}), text("done"))
    config = Config(tables={"sandbox": {"mode": "workspace-write", "backend": backend}})
    async with memory_agent(
        model=model, plugins={**SHELL, "sandbox": dsh_sandbox}, config=config, cwd=str(tmp_path)
    ) as parent:
        parent.plugins.register(strict, "strict")
        child = parent.harness.create_agent(parent=parent, cwd=str(tmp_path), options=parent.options).agent
        child.plugins.register(loose, "loose")
        await child.run("go")
        assert "in the sandbox (read-only)" in results(child)[0]

    assert not (tmp_path / "made").exists()


KILLED = """
import sys, trio
from dsh import Config
from dsh.testing import call, memory_agent, ScriptedModel
from importlib.metadata import entry_points
import dsh_sandbox
shell = {entry.name: entry.load() for entry in entry_points(group="dsh", name="shell")}
backend, work, number = sys.argv[1:]

async def main():
    config = Config(tables={"sandbox": {"mode": "workspace-write", "backend": backend}})
    command = f"setsid sleep {number} & sleep {number} & touch ready; wait"
    plugins = {**shell, "sandbox": dsh_sandbox}
    model = ScriptedModel(call("bash", {"command": command}))
    async with memory_agent(model=model, plugins=plugins, config=config, cwd=work) as agent:
        await agent.run("go")

trio.run(main)
"""


async def test_when_dsh_is_killed_nothing_is_left(backend: str, tmp_path: Path) -> None:
    number = f"5{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", KILLED, backend, str(tmp_path), number]) as program:
        with trio.fail_after(30):
            while not (tmp_path / "ready").exists():  # noqa: ASYNC110
                await trio.sleep(0.01)
        program.send_signal(signal.SIGKILL)
        program.wait()
    with trio.fail_after(30):
        while pgrep(number):  # noqa: ASYNC110
            await trio.sleep(0.01)
