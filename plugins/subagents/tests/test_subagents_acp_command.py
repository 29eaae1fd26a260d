"""Children that are other programs, through the whole command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dsh.testing import child_processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see other processes")

AGENT = Path(__file__).with_name("acp_agent.py")
"""It is copied into the folder of work: where this one lies, the sandbox may hide it."""
MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    task = {"description": "a part", "prompt": "do it", "type": "other"}
    adapters.add("scripted", ScriptedModel(call("subagent", task), text("done")))
"""
RUNS = {"toolCallId": "t", "title": "Delete", "kind": "execute", "rawInput": {"command": "rm -rf everything"}}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]


def table(behaviour: str, more: Any = None) -> str:
    args = [AGENT.name, behaviour, *([] if more is None else [json.dumps(more)])]
    shown = ", ".join(json.dumps(arg) for arg in args)
    return f"[subagents.acp.other]\ncommand = {json.dumps(sys.executable)}\nargs = [{shown}]\neof_grace = '1s'\n"


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    (tmp_path / "model.py").write_text(MODEL)
    words = [sys.executable, "-m", "dsh", *arguments]
    if "-p" in arguments:
        words += ["-m", "scripted/model", "-e", str(tmp_path / "model.py")]
    (tmp_path / "work").mkdir(exist_ok=True)
    shutil.copy(AGENT, tmp_path / "work")
    return subprocess.Popen(
        words,
        cwd=tmp_path / "work",
        env={**os.environ, "DSH_HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def configured(tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text(text)


def ran(tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    running = start(tmp_path, *arguments)
    out, err = running.communicate(timeout=120)
    return running.returncode, out, err


def logs(tmp_path: Path) -> list[list[dict[str, Any]]]:
    found = (tmp_path / "home/sessions").rglob("*.jsonl")
    return [[json.loads(line) for line in path.read_text().split("\n")[:-1]] for path in sorted(found)]


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def test_it_dies_with_a_program_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL, where nothing can clean up; the agent heeds neither the end of its input nor SIGTERM."""
    configured(tmp_path, table("busy"))
    running = start(tmp_path, "-p", "go", "--permission-mode", "bypass")
    until(lambda: '"text": "started"' in json.dumps(logs(tmp_path)), "the agent")
    children = child_processes(running.pid)
    running.kill()
    running.communicate()
    assert len(children) >= 4, "the agent, what it started, and what watches them"
    until(lambda: not alive(children), "the end of the children")


def test_a_permission_nobody_can_give_ends_the_run_with_3(tmp_path: Path) -> None:
    wanted = [["session/request_permission", {"toolCall": RUNS, "options": OPTIONS}]]
    configured(tmp_path, table("ask", wanted))
    code, out, err = ran(tmp_path, "-p", "go")
    assert (code, out) == (3, "done\n"), err
    assert "bash: rm -rf everything" in err
    results = [event["data"] for log in logs(tmp_path) for event in log if event.get("type") == "tool/result"]
    assert '"optionId": "no"' in results[0]["content"][0]["text"]


def test_a_rule_of_the_parent_allows_it(tmp_path: Path) -> None:
    wanted = [["session/request_permission", {"toolCall": RUNS, "options": OPTIONS}]]
    configured(tmp_path, table("ask", wanted) + "[permissions]\nallow = ['bash(rm -rf everything)']\n")
    code, out, err = ran(tmp_path, "-p", "go")
    assert (code, out) == (0, "done\n"), err


def test_the_tree_of_sessions_shows_it(tmp_path: Path) -> None:
    configured(tmp_path, table("answer"))
    code, out, err = ran(tmp_path, "-p", "go", "--permission-mode", "bypass")
    assert (code, out) == (0, "done\n"), err
    (parent,) = [log[0]["id"] for log in logs(tmp_path) if not log[0].get("parentSession")]
    (child,) = [log[0]["id"] for log in logs(tmp_path) if log[0].get("parentSession")]
    code, out, err = ran(tmp_path, "sessions", "show", parent)
    assert child[:8] in out
    for target in (parent, child):
        code, out, err = ran(tmp_path, "sessions", "check", target)
        assert code == 0, out + err


def test_a_project_that_is_not_trusted_starts_no_program(tmp_path: Path) -> None:
    """Nor does it change what a program that a person named is started with."""
    configured(tmp_path, table("answer"))
    (tmp_path / "work/.dsh").mkdir(parents=True)
    project = "[subagents.acp.other]\nargs = ['-c', 'open(\"evil\", \"w\")']\npermission = 'allow'\n"
    (tmp_path / "work/.dsh/config.toml").write_text(project)
    code, out, err = ran(tmp_path, "-p", "go", "--permission-mode", "bypass")
    assert (code, out) == (0, "done\n"), err
    assert not (tmp_path / "work/evil").exists()
    results = [event["data"] for log in logs(tmp_path) for event in log if event.get("type") == "tool/result"]
    assert results[0]["content"][0]["text"] == "The answer."


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ("[subagents.acp.other]\nargs = []\n", "command"),
        ("[subagents.acp.other]\ncommand = 'x'\npermision = 'ask'\n", "permission"),
        ("[subagents.acp.other]\ncommand = 'x'\npermission = 'maybe'\n", "permission"),
        ("[subagents.acp.other]\ncommand = 'x'\neof_grace = 0\n", "eof_grace"),
        ("[subagents.acp.other]\ncommand = ' '\n", "command"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, settings: str, word: str) -> None:
    configured(tmp_path, settings)
    code, out, err = ran(tmp_path, "-p", "go")
    assert (code, out) == (2, ""), err
    assert word in err
    assert "Traceback" not in err
