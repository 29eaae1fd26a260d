"""The whole command with a scripted service that is strict: thoughts, calls, and a session that goes on."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).parents[3] / "../shared/tools/fakesrv.py"
pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted service is not here")

THOUGHT = " leading space and trailing \n"
SCRIPT = [
    {"reasoning": THOUGHT, "calls": [["@shell", {"command": "echo one > made"}], ["@shell", {"command": "echo two"}]]},
    {"reasoning": "", "text": "done"},
    {"text": "again"},
    {"text": "other"},
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    """The address of a service that plays `SCRIPT`."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    options = ["--port", "0", "--split", "7", "--map", "shell=bash", "--log", str(tmp_path / "sent.jsonl")]
    command = [sys.executable, str(SERVER), str(script), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_session_with_thoughts_goes_on(service: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    env = {**os.environ, "DSH_HOME": str(tmp_path / "home"), "ANTHROPIC_BASE_URL": service}
    env = {name: value for name, value in env.items() if not name.endswith("_API_KEY")}

    def dsh(*arguments: str) -> str:
        command = [sys.executable, "-m", "dsh", *arguments]
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert dsh("-p", "go", "-m", "anthropic/one", "--permission-mode", "bypass") == "done\n"
    assert (work / "made").read_text() == "one\n"
    assert dsh("-c", "-p", "on") == "again\n"
    assert dsh("-c", "-p", "on", "-m", "anthropic/two") == "other\n"

    sent: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text().splitlines()]
    assert [request["refused"] for request in sent] == [None] * 4
    bodies = [_without_marks(request["body"]) for request in sent]
    assert [body["model"] for body in bodies] == ["one", "one", "one", "two"]
    sealed = {"type": "thinking", "thinking": THOUGHT, "signature": "sig0"}
    calls, answers = bodies[1]["messages"][-2:]
    assert [block["type"] for block in calls["content"]] == ["thinking", "tool_use", "tool_use"]
    assert calls["content"][0] == sealed
    assert [block["tool_use_id"] for block in answers["content"]] == [block["id"] for block in calls["content"][1:]]
    for last, body in itertools.pairwise(bodies[:3]):
        assert body["messages"][: len(last["messages"])] == last["messages"]
    assert "thinking" not in json.dumps(bodies[3])


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(item) for name, item in value.items() if name != "cache_control"}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value
