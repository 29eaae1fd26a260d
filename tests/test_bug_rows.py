"""Faults that other harnesses had, played by the scripted server through the whole command.

The scripts and their right outcomes are in the shared material (``bugs/bugs.md``); each test here
names the row that it plays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")


@pytest.fixture(autouse=True)
def freely(stage: Any) -> None:
    """Commands and writes are not asked for."""
    stage.freely = True


@pytest.mark.parametrize("split", ["1", "7", "1000"])
def test_s01_events_split_over_reads(play: Any, split: str) -> None:
    ran = play("S01", "--split", split)
    expected = json.loads((SHARED / "streams/deepseek/deepseek-v4-flash-tool-think.expected.json").read_text())
    message = ran.data("assistant/message")[0]["content"]
    calls = [(block["name"], json.loads(block["arguments"])) for block in message if block["type"] == "tool-call"]
    assert calls == [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
    thought = "".join(block["text"] for block in message if block["type"] == "reasoning")
    assert thought == expected["reasoning"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_s02_characters_cut_by_reads(play: Any, tmp_path: Path) -> None:
    ran = play("S02", "--split", "1")
    assert (tmp_path / "work/文件.txt").read_text() == "你好🙂"
    assert ran.out == "写好了 🙂\n"


def test_s03_a_stream_that_ends_inside_a_character(play: Any) -> None:
    ran = play("S03", arguments=["--no-plugin", "retry"])
    assert ran.code not in (0, None)
    assert ran.end["kind"] == "error"


def test_s04_every_legal_spelling(play: Any) -> None:
    ran = play("S04")
    assert (ran.code, ran.out) == (0, "alpha beta\n")


@pytest.mark.parametrize(
    ("row", "partial", "said"),
    [("S05", "Let me", "Internal server error"), ("S06", "part", "Provider disconnected")],
)
def test_s05_s06_an_error_inside_a_good_response(play: Any, row: str, partial: str, said: str) -> None:
    ran = play(row)
    assert ran.code in (1, 75)
    assert ran.end["kind"] == "error"
    assert said in ran.end["message"]
    assert said in ran.err
    (message,) = ran.data("assistant/message")
    assert message["interrupted"] is True
    assert message["content"] == [{"type": "text", "text": partial}]


def test_s07_half_a_call_does_not_run(play: Any, tmp_path: Path) -> None:
    ran = play("S07", arguments=["--no-plugin", "retry"])
    assert ran.end["kind"] == "error"
    assert ran.data("tool/call") == []
    assert list((tmp_path / "work").iterdir()) == []


def test_s08_an_end_without_a_finish(play: Any) -> None:
    """The answer is marked as cut; the session goes on, with a history that the service takes."""
    ran = play("S08", prompts=2)
    first, second = ran.data("assistant/message")
    assert first["interrupted"] is True
    assert first["content"][0]["text"].startswith("The answer is forty-two")
    assert [end["reason"]["kind"] for end in ran.data("turn/end")] == ["error", "completed"]
    assert second["content"] == [{"type": "text", "text": "done"}]


def test_t01_broken_arguments_do_not_run(play: Any, tmp_path: Path) -> None:
    ran = play("T01")
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


def test_t02_null_arguments_are_none(play: Any) -> None:
    ran = play("T02")
    (result,) = ran.results
    assert "file_path" in result
    assert ran.code == 0


def test_t03_empty_arguments_of_a_tool_without_parameters(play: Any) -> None:
    ran = play("T03")
    assert ran.results == ["two jobs"]
    sent = ran.requests[1]["body"]["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert sent == "{}"


@pytest.mark.parametrize(
    ("row", "commands"),
    [("T04", 2), ("T05", 2), ("T06", 2)],
)
def test_t04_t05_t06_calls_told_apart(play: Any, row: str, commands: int) -> None:
    """No index, one index for all, names sent again and again: each call is whole, and runs."""
    ran = play(row)
    calls = ran.data("tool/call")
    assert [call["name"] for call in calls] == ["bash"] * commands
    assert all(json.loads(call["arguments"])["command"].startswith("echo ") for call in calls)
    assert [data["isError"] for data in ran.data("tool/result")] == [False] * commands
    assert len({call["callId"] for call in calls}) == commands
    assert ran.code == 0


def test_t13_an_unknown_tool(play: Any) -> None:
    ran = play("T13")
    unknown, known = ran.results
    assert "bash" in unknown
    assert "read" in unknown
    assert known == "ok\n"
    name = ran.requests[1]["body"]["messages"][2]["tool_calls"][0]["function"]["name"]
    assert name.replace("_", "").replace("-", "").isalnum()
    assert ran.code == 0


def test_t14_an_empty_tool_name(play: Any) -> None:
    ran = play("T14", prompts=2)
    assert [data["isError"] for data in ran.data("tool/result")] == [True, False]
    assert ran.out == "b\n"


def test_l01_a_call_cut_by_the_token_limit(play: Any, tmp_path: Path) -> None:
    ran = play("L01")
    assert ran.data("tool/call") == []
    assert list((tmp_path / "work").iterdir()) == []
    assert ran.end["kind"] == "max-tokens"
    assert ran.code == 124


def test_ids_that_repeat_or_are_missing(play: Any, tmp_path: Path) -> None:
    """Every call gets a result of its own, whatever its id."""
    script = tmp_path / "ids.json"
    same = {"name": "bash", "id": "x", "args": {"command": "echo one"}}
    none = {"name": "bash", "id": "", "args": {"command": "echo two"}}
    again = {"name": "bash", "id": "x", "args": {"command": "echo three"}}
    script.write_text(json.dumps([{"calls": [same, none]}, {"calls": [again]}, {"text": "done"}]))
    ran = play(script)
    assert ran.results == ["one\n", "two\n", "three\n"]
    ids = [call["callId"] for call in ran.data("tool/call")]
    assert len(set(ids)) == 3
    assert "" not in ids
    assert (ran.code, ran.out) == (0, "done\n")
