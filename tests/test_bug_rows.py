"""Faults that other harnesses had, played by the scripted server through the whole command.

The scripts and their right outcomes are in the shared material (``bugs/bugs.md``); each test here
names the row that it plays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

SHARED = Path(__file__).parents[1] / "../shared"
SCRIPTS = SHARED / "bugs/scripts"
SERVER = SHARED / "tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")

NOARGS = """\
from dsh import hookimpl, tool

@tool
def list_jobs() -> str:
    "List the jobs."
    return "two jobs"

@hookimpl
def tools_register(tools):
    tools.add(list_jobs)
"""


@frozen
class Ran:
    """What a run came to: its exit code, output, the requests that the server saw, and the log."""

    code: int
    out: str
    err: str
    requests: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def data(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]

    @property
    def results(self) -> list[str]:
        return ["".join(block["text"] for block in data["content"]) for data in self.data("tool/result")]

    @property
    def end(self) -> dict[str, Any]:
        reason: dict[str, Any] = self.data("turn/end")[-1]["reason"]
        return reason


@contextmanager
def serving(script: Path, log: Path, *options: str) -> Iterator[str]:
    names = "shell=bash,read=read,write=write,edit=edit,task=subagent,noargs=list_jobs"
    server = subprocess.Popen(
        [sys.executable, str(SERVER), str(script), "--port", "0", "--log", str(log), "--map", names, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


def play(tmp_path: Path, script: str | Path, *options: str, prompts: int = 1) -> Ran:
    """Run ``dsh -p`` against a script, in an empty folder."""
    path = SCRIPTS / f"{script}.json" if isinstance(script, str) else script
    work, home, log = tmp_path / "work", tmp_path / "home", tmp_path / "requests.jsonl"
    work.mkdir()
    plugin = tmp_path / "noargs.py"
    plugin.write_text(NOARGS)
    with serving(path, log, *options) as url:
        env = {
            **os.environ,
            "DSH_HOME": str(home),
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "sk-test-0123456789",
        }
        command = [sys.executable, "-m", "dsh", "-p", "go", "-m", "openai/scripted", "-e", str(plugin)]
        for number in range(prompts):
            again = ["-c"] if number else []
            ran = subprocess.run([*command, *again], cwd=work, env=env, capture_output=True, text=True, timeout=120)
    requests = [json.loads(line) for line in log.read_text().splitlines()]
    (session,) = (home / "sessions").rglob("*.jsonl")
    events = [json.loads(line) for line in session.read_text().splitlines()[1:]]
    assert [request["refused"] for request in requests] == [None] * len(requests)
    assert "Traceback" not in ran.stderr
    return Ran(ran.returncode, ran.stdout, ran.stderr, requests, events)


@pytest.mark.parametrize("split", ["1", "7", "1000"])
def test_s01_events_split_over_reads(tmp_path: Path, split: str) -> None:
    ran = play(tmp_path, "S01", "--split", split)
    expected = json.loads((SHARED / "streams/deepseek/deepseek-v4-flash-tool-think.expected.json").read_text())
    message = ran.data("assistant/message")[0]["content"]
    calls = [(block["name"], json.loads(block["arguments"])) for block in message if block["type"] == "tool-call"]
    assert calls == [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
    thought = "".join(block["text"] for block in message if block["type"] == "reasoning")
    assert thought == expected["reasoning"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_s02_characters_cut_by_reads(tmp_path: Path) -> None:
    ran = play(tmp_path, "S02", "--split", "1")
    assert (tmp_path / "work/文件.txt").read_text() == "你好🙂"
    assert ran.out == "写好了 🙂\n"


def test_s03_a_stream_that_ends_inside_a_character(tmp_path: Path) -> None:
    ran = play(tmp_path, "S03")
    assert ran.code not in (0, None)
    assert ran.end["kind"] == "error"


def test_s04_every_legal_spelling(tmp_path: Path) -> None:
    ran = play(tmp_path, "S04")
    assert (ran.code, ran.out) == (0, "alpha beta\n")


@pytest.mark.parametrize(
    ("row", "partial", "said"),
    [("S05", "Let me", "Internal server error"), ("S06", "part", "Provider disconnected")],
)
def test_s05_s06_an_error_inside_a_good_response(tmp_path: Path, row: str, partial: str, said: str) -> None:
    ran = play(tmp_path, row)
    assert ran.code in (1, 75)
    assert ran.end["kind"] == "error"
    assert said in ran.end["message"]
    assert said in ran.err
    (message,) = ran.data("assistant/message")
    assert message["interrupted"] is True
    assert message["content"] == [{"type": "text", "text": partial}]


def test_s07_half_a_call_does_not_run(tmp_path: Path) -> None:
    ran = play(tmp_path, "S07")
    assert ran.end["kind"] == "error"
    assert ran.data("tool/call") == []
    assert list((tmp_path / "work").iterdir()) == []


def test_s08_an_end_without_a_finish(tmp_path: Path) -> None:
    """The answer is marked as cut; the session goes on, with a history that the service takes."""
    ran = play(tmp_path, "S08", prompts=2)
    first, second = ran.data("assistant/message")
    assert first["interrupted"] is True
    assert first["content"][0]["text"].startswith("The answer is forty-two")
    assert [end["reason"]["kind"] for end in ran.data("turn/end")] == ["error", "completed"]
    assert second["content"] == [{"type": "text", "text": "done"}]


def test_t01_broken_arguments_do_not_run(tmp_path: Path) -> None:
    ran = play(tmp_path, "T01")
    assert not (tmp_path / "work/SHOULD_NOT_EXIST").exists()
    (result,) = ran.results
    assert "touch SHOULD_NOT_EXIST" in result
    assert "JSON" in result
    (data,) = ran.data("tool/result")
    assert data["isError"] is True
    (call,) = ran.data("tool/call")
    assert call["arguments"] == '{"command": "touch SHOULD_NOT_EXIST'
    sent = ran.requests[1]["body"]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)
    assert (ran.code, ran.out) == (0, "done\n")


def test_t02_null_arguments_are_none(tmp_path: Path) -> None:
    ran = play(tmp_path, "T02")
    (result,) = ran.results
    assert "file_path" in result
    assert ran.code == 0


def test_t03_empty_arguments_of_a_tool_without_parameters(tmp_path: Path) -> None:
    ran = play(tmp_path, "T03")
    assert ran.results == ["two jobs"]
    sent = ran.requests[1]["body"]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert sent == "{}"


@pytest.mark.parametrize(
    ("row", "commands"),
    [("T04", 2), ("T05", 2), ("T06", 2)],
)
def test_t04_t05_t06_calls_told_apart(tmp_path: Path, row: str, commands: int) -> None:
    """No index, one index for all, names sent again and again: each call is whole, and runs."""
    ran = play(tmp_path, row)
    calls = ran.data("tool/call")
    assert [call["name"] for call in calls] == ["bash"] * commands
    assert all(json.loads(call["arguments"])["command"].startswith("echo ") for call in calls)
    assert [data["isError"] for data in ran.data("tool/result")] == [False] * commands
    assert len({call["callId"] for call in calls}) == commands
    assert ran.code == 0


def test_t13_an_unknown_tool(tmp_path: Path) -> None:
    ran = play(tmp_path, "T13")
    unknown, known = ran.results
    assert "bash" in unknown
    assert "read" in unknown
    assert known == "ok\n"
    name = ran.requests[1]["body"]["messages"][2]["tool_calls"][0]["function"]["name"]
    assert name.replace("_", "").replace("-", "").isalnum()
    assert ran.code == 0


def test_t14_an_empty_tool_name(tmp_path: Path) -> None:
    ran = play(tmp_path, "T14", prompts=2)
    assert [data["isError"] for data in ran.data("tool/result")] == [True, False]
    assert ran.out == "b\n"


def test_l01_a_call_cut_by_the_token_limit(tmp_path: Path) -> None:
    ran = play(tmp_path, "L01")
    assert ran.data("tool/call") == []
    assert list((tmp_path / "work").iterdir()) == []
    assert ran.end["kind"] == "max-tokens"
    assert ran.code == 124


def test_ids_that_repeat_or_are_missing(tmp_path: Path) -> None:
    """Every call gets a result of its own, whatever its id."""
    script = tmp_path / "ids.json"
    same = {"name": "bash", "id": "x", "args": {"command": "echo one"}}
    none = {"name": "bash", "id": "", "args": {"command": "echo two"}}
    again = {"name": "bash", "id": "x", "args": {"command": "echo three"}}
    script.write_text(json.dumps([{"calls": [same, none]}, {"calls": [again]}, {"text": "done"}]))
    ran = play(tmp_path, script)
    assert ran.results == ["one\n", "two\n", "three\n"]
    ids = [call["callId"] for call in ran.data("tool/call")]
    assert len(set(ids)) == 3
    assert "" not in ids
    assert (ran.code, ran.out) == (0, "done\n")
