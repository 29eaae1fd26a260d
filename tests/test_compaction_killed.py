"""A program that is killed while a summary is written; what is left is gone on with, as with any other."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")

WINDOW = ("--config", "compaction.context_window=9000", "--config", "compaction.prune=false", "--no-plugin", "repeats")


def work(count: int) -> list[dict[str, Any]]:
    return [{"calls": [["@shell", {"command": f"echo {n}; seq 1 700"}]]} for n in range(count)]


def kinds(stage: Any) -> list[str]:
    return [event["type"] for event in stage.events()]


def test_killed_while_a_summary_is_written(stage: Any) -> None:
    slow = {"text": "a summary that never ends", "stall": [200, 600]}
    with stage.serving(stage.script(*work(8), slow), "--lenient"):
        running = stage.prompt("the task is to count", *WINDOW)
        asked = "Stop working on the task"
        log = stage.tmp / "requests.jsonl"
        stage.until(lambda: log.exists() and asked in log.read_text(), "the request for a summary")
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    left = kinds(stage)
    assert "compact/start" in left
    assert "compact/summary" not in left
    steps = sum(kind == "step/start" for kind in left)
    log.unlink()

    with stage.serving(stage.script({"text": "a summary"}, *work(1), {"text": "went on"})):
        ran = stage.run("go on", "-c", *WINDOW)
    assert (ran.code, ran.out) == (0, "went on\n"), ran.err
    first = json.dumps(ran.requests[0]["body"])
    assert asked in first  # what was due is done before anything else is asked
    told = json.dumps(ran.requests[1]["body"])
    assert "a summary" in told
    assert "the task is to count" in told
    assert len(told) < 30_000
    after = kinds(stage)
    assert after[: len(left)] == left
    assert after.count("compact/summary") == 1
    assert sum(kind == "step/start" for kind in after) == steps + 2
    checked = stage.start("sessions", "check", json.loads(stage.log.read_bytes().partition(b"\n")[0])["id"])
    out, err = checked.communicate()
    assert checked.returncode == 0, out + err


def test_by_hand_and_killed_it_has_changed_nothing(stage: Any) -> None:
    stage.freely = True
    large = ("--config", "compaction.context_window=900000", "--no-plugin", "repeats")
    with stage.serving(stage.script(*work(6), {"text": "done"})):
        assert stage.run("count", *large).code == 0
    session = json.loads(stage.log.read_bytes().partition(b"\n")[0])["id"]
    before = stage.log.read_bytes()
    log = stage.tmp / "requests.jsonl"
    log.unlink()
    with stage.serving(stage.script({"text": "a summary that never ends", "stall": [200, 600]}), "--lenient"):
        running = stage.start("sessions", "compact", session)
        stage.until(lambda: log.exists() and "Stop working" in log.read_text(), "the request for a summary")
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    assert stage.log.read_bytes().startswith(before)
    assert "compact/start" not in kinds(stage)
    log.unlink()
    with stage.serving(stage.script({"text": "a summary"})):
        done = stage.start("sessions", "compact", session)
        out, err = done.communicate()
    assert done.returncode == 0, err
    assert out.startswith("summarised ")
