"""A program that is killed leaves a log that goes on, and no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dsh.testing import child_processes

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES))
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see other processes")


def model(folder: Path, replies: str) -> str:
    path = folder / "scripted_model.py"
    path.write_text(MODEL.replace("REPLIES", replies))
    return str(path)


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "DSH_HOME": str(tmp_path / "home")}
    return subprocess.Popen(
        [sys.executable, "-m", "dsh", *arguments, "--permission-mode", "bypass"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]  # a callable
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def alive(pids: list[int]) -> list[str]:
    """Those that still run, with their command lines; the dead that nobody has reaped do not count."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if state != "Z":
            found.append(f"{pid} {command}")
    return found


def log_of(tmp_path: Path) -> list[dict[str, object]]:
    (path,) = (tmp_path / "home/sessions").rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_killed_in_a_tool(tmp_path: Path) -> None:
    """SIGKILL in the middle of a command: the command dies, and the session goes on with a valid history."""
    slow = model(tmp_path, """call("bash", {"command": "touch started; sleep 600 & sleep 600; wait"})""")
    running = start(tmp_path, "-p", "go", "-m", "scripted/model", "-e", slow)
    wait_for((tmp_path / "started").exists, "the command")
    children = child_processes(running.pid)
    assert children

    running.kill()
    running.communicate()
    wait_for(lambda: not alive(children), "the end of the children")

    answer = model(tmp_path, """text("and on")""")
    resumed = start(tmp_path, "-c", "-p", "go on", "-m", "scripted/model", "-e", answer)
    out, err = resumed.communicate(timeout=60)
    assert (resumed.returncode, out) == (0, "and on\n"), err
    events = log_of(tmp_path)[1:]
    assert [event["seq"] for event in events] == list(range(len(events)))
    results = [event["data"] for event in events if event["type"] == "tool/result"]
    assert [result["error"]["code"] for result in results] == ["TOOL_OUTCOME_UNKNOWN"]  # type: ignore[index]  # JSON
    ends = [event["data"]["reason"]["kind"] for event in events if event["type"] == "turn/end"]  # type: ignore[index]
    assert ends == ["interrupted", "completed"]


def test_interrupted_in_a_tool(tmp_path: Path) -> None:
    """SIGINT once: the turn is cancelled, the command is gone, the log is closed, exit 130."""
    slow = model(tmp_path, """call("bash", {"command": "touch started; sleep 600 & sleep 600; wait"})""")
    running = start(tmp_path, "-p", "go", "-m", "scripted/model", "-e", slow)
    wait_for((tmp_path / "started").exists, "the command")
    children = child_processes(running.pid)

    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    assert alive(children) == []
    types = [event["type"] for event in log_of(tmp_path)[1:]]
    assert types[-3:] == ["tool/result", "step/end", "turn/end"]
