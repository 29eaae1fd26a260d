"""When the checks are on, and that they are nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dsh_invariants
import pytest
from dsh_invariants.checks import InvariantError

from dsh import Config, Harness
from dsh.session import events as ev
from dsh.testing import call, memory_agent, memory_harness, text, tool_of

CHECKED = {
    *("session_created", "session_event", "session_flush", "llm_stream"),
    *("tools_pre_execute", "tools_execute", "agent_status"),
    *("agent_created", "agent_session_start", "agent_queued", "agent_error", "prompt_sections"),
}
PLUGINS = {"invariants": dsh_invariants}


def hooks(harness: Harness) -> list[str]:
    """The hooks that the checks answer."""
    return [
        name
        for name in harness.plugins.specs
        for impl in harness.plugins.implementations(name)
        if impl.plugin_name == dsh_invariants.CHECKS
    ]


async def test_switched_off_no_hook_is_answered() -> None:
    async with memory_harness(plugins=PLUGINS, invariants=False) as harness:
        assert hooks(harness) == []
        (info,) = (info for info in harness.plugins.loaded() if info.name == "invariants")
        assert info.hooks == ("dsh_configure",)


async def test_switched_on_by_a_setting() -> None:
    config = Config(tables={"invariants": {"enabled": True}})
    async with memory_harness(plugins=PLUGINS, config=config, invariants=False) as harness:
        assert set(hooks(harness)) == CHECKED


async def test_tests_have_it_on_and_leave_no_trace_of_it_in_the_log() -> None:
    logs = []
    for invariants in (True, False):
        async with memory_agent(
            call("work"), text("ok"), plugins={"work": tool_of("work")}, invariants=invariants
        ) as agent:
            assert bool(hooks(agent.harness)) is invariants
            await agent.run("go")
            logs.append([event.data for event in agent.session.events])
    assert logs[0] == logs[1]


def contained(do: Callable[[], object]) -> None:
    with pytest.raises(InvariantError):
        do()


async def test_a_test_fails_whose_harness_found_something() -> None:
    with pytest.raises(InvariantError, match="todo/write outside of a turn"):
        async with memory_agent(check_logs=False) as agent:
            contained(lambda: agent.session.append(ev.TodoWrite(())))


async def test_a_setting_of_the_tests_own_wins() -> None:
    async with memory_harness(config=Config(tables={"invariants": {"enabled": False}})) as harness:
        assert hooks(harness) == []


PROBE = """
from dsh import hookimpl

@hookimpl
def agent_created(agent):
    print("checks:", agent.harness.plugins.has_plugin("invariants.checks"))
"""


@pytest.mark.parametrize(
    ("flags", "on"),
    [
        ([], False),
        (["--debug"], True),
        (["--config", "invariants.enabled=true"], True),
        (["--debug", "--config", "invariants.enabled=false"], False),
        (["--debug", "--no-plugin", "invariants"], False),
    ],
)
def test_a_run_has_it_on_when_it_is_wanted(flags: list[str], on: bool, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    (tmp_path / "script.json").write_text('[{"kind": "chunks", "chunks": []}]')
    (tmp_path / "log.jsonl").write_text('{"type":"session","version":0,"id":"a","createdAt":0}\n')
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    replay = {"DSH_SNAPSHOT_FILE": "log.jsonl", "DSH_SNAPSHOT_OVERRIDE": "script.json"}
    env = {**keep, **replay, "HOME": str(tmp_path), "DSH_HOME": str(tmp_path / "dsh")}
    command = [sys.executable, "-m", "dsh", "-p", "go", "-e", "probe.py", "--no-plugin", "local", *flags]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert f"checks: {on}\n" in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
