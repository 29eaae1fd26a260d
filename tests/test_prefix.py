"""What was sent once is sent again as it was: a provider can cache it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STEPS = 200
SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"

MODEL = f"""\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    replies = [call("read", {{"file_path": "a.txt", "offset": 1 + n % 3}}, id=f"c{{n}}") for n in range({STEPS})]
    adapters.add("scripted", ScriptedModel(*replies, text("done")))
"""


def run(tmp_path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    env = {**os.environ, "DSH_HOME": str(tmp_path / "home"), **environ}
    # What reads three lines again and again is a circle, and would be ended.
    command = [sys.executable, "-m", "dsh", "-p", "go", "--no-plugin", "repeats", *arguments]
    return subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=300)


def test_the_digests_of_a_long_run(tmp_path: Path) -> None:
    """``--debug`` prints a digest of every request's messages, and whether they extend the last one's."""
    model = tmp_path / "scripted_model.py"
    model.write_text(MODEL)
    ran = run(tmp_path, "--debug", "-m", "scripted/model", "-e", str(model))
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-2000:]
    lines = [line for line in ran.stderr.splitlines() if "sha256=" in line]
    assert [line.rpartition("extends=")[2] for line in lines] == ["first"] + ["yes"] * STEPS
    assert len({line.partition("sha256=")[2][:16] for line in lines}) == STEPS + 1


@pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")
def test_the_bodies_of_a_long_run(tmp_path: Path) -> None:
    """The same on the wire: each request's messages begin with the last one's."""
    script, log = tmp_path / "script.json", tmp_path / "requests.jsonl"
    calls = [
        {"calls": [["@read", {"file_path": "a.txt", "offset": 1 + n % 3}]], "text": f"step {n}"} for n in range(STEPS)
    ]
    script.write_text(json.dumps([*calls, {"text": "done"}]))
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(script), "--port", "0", "--log", str(log), "--map", "read=read"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        ran = run(tmp_path, "-m", "deepseek/deepseek-v4-flash", DEEPSEEK_BASE_URL=url, DEEPSEEK_API_KEY="sk-0123456789")
    finally:
        server.kill()
        server.communicate()
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-2000:]
    bodies = [json.loads(line)["body"] for line in log.read_text().splitlines()]
    assert len(bodies) == STEPS + 1
    for last, body in itertools.pairwise(bodies):
        assert body["messages"][: len(last["messages"])] == last["messages"]
        assert {**body, "messages": []} == {**last, "messages": []}
