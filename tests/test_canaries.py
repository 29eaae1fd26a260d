"""Canaries: a guard shows that it denies before it is trusted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dsh import Allow, Config, Deny, PluginError, SessionError, hookimpl
from dsh.testing import memory_harness

CANARIES = [("bash", {"command": "rm -rf /"}), ("write", {"file_path": "/etc/passwd", "content": ""})]


def guard(answer: Any) -> object:
    """A plugin whose gate answers every call with `answer`, and names canaries."""

    class Guard:
        def __init__(self) -> None:
            self.asked: list[tuple[str, dict[str, Any]]] = []

        @hookimpl(canaries=CANARIES)
        def tools_pre_execute(self, agent: Any, call: Any) -> Any:
            assert agent.session.header.cwd
            self.asked.append((call.name, dict(call.arguments)))
            return answer() if callable(answer) else answer

    return Guard()


def out_of_order() -> None:
    raise RuntimeError("out of order")


async def test_a_guard_that_denies_its_canaries_is_trusted() -> None:
    plugin: Any = guard(Deny("no"))
    async with memory_harness(plugins={"guard": plugin}) as harness:
        assert plugin.asked == CANARIES
        assert harness.agents.list() == []
        assert harness.sessions.list() == []


async def test_each_guard_is_asked_alone() -> None:
    """One that denies does not cover for one that does not."""
    plugins = {"strict": guard(Deny("no")), "blind": guard(None)}
    with pytest.raises(PluginError, match="the guard blind does not work: it should deny bash"):
        async with memory_harness(plugins=plugins):
            pass


@pytest.mark.parametrize("answer", [None, Allow(), out_of_order])
async def test_a_guard_that_does_not_deny_stops_the_program(answer: Any) -> None:
    """Also one that only denies because it fails."""
    with pytest.raises(PluginError, match="the guard guard does not work"):
        async with memory_harness(plugins={"guard": guard(answer)}):
            pass


def test_the_command_does_not_start_with_a_guard_that_does_not_work(tmp_path: Path) -> None:
    (tmp_path / "blind.py").write_text(
        "from dsh import hookimpl\n\n"
        "@hookimpl(canaries=[('bash', {'command': 'rm -rf /'})])\n"
        "def tools_pre_execute(call):\n    return None\n"
    )
    env = {**os.environ, "DSH_HOME": str(tmp_path / "home"), "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "dsh", "-p", "go", "-m", "openai/x", "-e", "blind.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "the guard blind does not work" in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_a_canary_is_no_session_that_a_store_is_asked_about(tmp_path: Path) -> None:
    """Or a store that cannot be read would keep the program from starting."""
    jsonl = pytest.importorskip("dsh_jsonl")
    (tmp_path / "sessions").write_text("in the way")
    config = Config(tables={"jsonl": {"root": str(tmp_path / "sessions")}})
    async with memory_harness(plugins={"guard": guard(Deny("no")), "jsonl": jsonl}, config=config) as harness:
        with pytest.raises(SessionError, match="cannot read the sessions"):
            harness.create_agent()


async def test_a_guard_that_is_slow_at_first_is_not_told_on() -> None:
    def slow() -> Deny:
        time.sleep(0.15)
        return Deny("no")

    warnings: list[str] = []
    async with memory_harness(plugins={"guard": guard(slow)}, warnings=warnings):
        assert warnings == []
