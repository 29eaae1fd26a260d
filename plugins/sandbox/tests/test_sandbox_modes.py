# ruff: noqa: ASYNC240
"""Which mode holds, what becomes of a sandbox that cannot be had, and who is left out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dsh_sandbox
import pytest
from dsh_sandbox.box import SandboxUnavailable, find_backend
from dsh_sandbox.config import MODES, Mode, strictest
from dsh_sandbox.events import SandboxExempt
from hypothesis import given
from hypothesis import strategies as st

from dsh import Config, ConfigError, ToolError, hookimpl
from dsh.process import Process
from dsh.testing import memory_harness, plugin_of


@given(st.lists(st.sampled_from(MODES), min_size=1))
def test_the_strictest_mode_wins_in_whatever_order(modes: Sequence[Mode]) -> None:
    assert strictest(modes) == strictest(list(reversed(modes)))
    assert all(MODES.index(strictest(modes)) <= MODES.index(mode) for mode in modes)


async def prepared(harness: Any, **more: Any) -> Process:
    process = Process(("true",), dict(os.environ), os.getcwd(), "bash", **{"managed": True, **more})
    ready: Process = await harness.hook.process_prepare(agent=None, process=process, default=lambda: process)
    if ready.confinement is not None:
        ready.confinement.close()
    return ready


def settings(**table: Any) -> Config:
    return Config(tables={"sandbox": table})


async def test_a_program_that_embeds_dsh_has_no_sandbox_unless_it_wants_one() -> None:
    async with memory_harness(plugins={"sandbox": dsh_sandbox}) as harness:
        assert (await prepared(harness)).argv == ("true",)


class Run:
    """What `dsh -p` is to the sandbox."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @hookimpl
    async def sandbox_default(self) -> str:
        return "workspace-write"

    @hookimpl
    def sandbox_ready(self, text: str) -> None:
        self.said.append(text)


async def test_the_default_is_a_hooks(backend: str) -> None:
    run = Run()
    async with memory_harness(
        plugins={"sandbox": dsh_sandbox, "run": run}, config=settings(backend=backend)
    ) as harness:
        assert (await prepared(harness)).argv != ("true",)
        await prepared(harness)

    assert len(run.said) == 1


async def test_a_setting_wins_over_the_default() -> None:
    config = settings(mode="danger-full-access")
    async with memory_harness(plugins={"sandbox": dsh_sandbox, "run": Run()}, config=config) as harness:
        assert (await prepared(harness)).argv == ("true",)


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without the program."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def broken_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that has the program and does not let it work, as in a container."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


async def test_what_was_asked_for_and_cannot_be_had_keeps_the_command_from_running(no_bubblewrap: None) -> None:
    config = settings(mode="workspace-write", backend="bubblewrap")
    async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=config) as harness:
        with pytest.raises(SandboxUnavailable, match=r"bwrap. is not installed"):
            await prepared(harness)


async def test_why_a_program_does_not_work_is_told(broken_bubblewrap: None) -> None:
    config = settings(mode="workspace-write", backend="bubblewrap")
    async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=config) as harness:
        with pytest.raises(SandboxUnavailable, match="No permissions to create new namespace"):
            await prepared(harness)


async def test_where_it_was_not_asked_for_the_person_is_told_once(broken_bubblewrap: None) -> None:
    warnings: list[str] = []
    plugins = {"sandbox": dsh_sandbox, "run": Run()}
    config = settings(backend="bubblewrap")
    async with memory_harness(plugins=plugins, config=config, warnings=warnings) as harness:
        assert (await prepared(harness)).argv == ("true",)
        await prepared(harness)

    (warning,) = warnings
    assert warning.startswith("commands run WITHOUT a sandbox: none can be had here: bubblewrap does not work here")


async def test_auto_takes_landlock_where_bubblewrap_does_not_work(broken_bubblewrap: None, tmp_path: Path) -> None:
    found, _ = find_backend("auto", str(tmp_path))
    if found is None:
        pytest.skip("the kernel offers no Landlock")
    assert found.name == "landlock"


async def test_what_a_mode_asks_for_is_asked_for(no_bubblewrap: None) -> None:
    """A guard holds an agent to a mode: then no default lets its commands run without."""
    strict = plugin_of(sandbox_modes=lambda modes: modes.add("read-only"))
    config = settings(backend="bubblewrap")
    async with memory_harness(plugins={"sandbox": dsh_sandbox, "strict": strict}, config=config) as harness:
        handle = harness.create_agent()
        process = Process(("true",), {}, os.getcwd(), "bash", managed=True)
        with pytest.raises(SandboxUnavailable):
            await handle.agent.hook.process_prepare(agent=handle.agent, process=process, default=lambda: process)


async def test_a_part_of_the_program_is_left_out_and_that_is_recorded(backend: str) -> None:
    config = settings(mode="workspace-write", backend=backend)
    async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=config) as harness:
        ready = await prepared(harness, trusted=True)
        assert (ready.argv, ready.confinement) == (("true",), None)
        assert dsh_sandbox._sandboxes[harness].exempt == [("bash", "true")]


async def test_nobody_calls_the_process_of_an_agent_a_part_of_the_program(backend: str) -> None:
    config = settings(mode="workspace-write", backend=backend)
    async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=config) as harness:
        agent = harness.create_agent().agent
        process = Process(("true",), {}, os.getcwd(), "sly", trusted=True)
        with pytest.raises(ToolError, match="sly was not started"):
            await agent.hook.process_prepare(agent=agent, process=process, default=lambda: process)
    assert SandboxExempt.type == "sandbox/exempt"


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"mode": "loose"}, "mode must be one of"),
        ({"network": "maybe"}, "network must be"),
        ({"writeable": []}, "writ"),
    ],
)
async def test_a_wrong_setting_is_an_error(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=settings(**table)):
            raise AssertionError("it opened")


async def test_temporary_files_are_gone_in_the_end(
    backend: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = settings(mode="workspace-write", backend=backend)
    async with memory_harness(plugins={"sandbox": dsh_sandbox}, config=config) as harness:
        await prepared(harness)
        assert [path.name.startswith("dsh-sandbox-") for path in tmp_path.iterdir()].count(True) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("dsh-sandbox-")]
