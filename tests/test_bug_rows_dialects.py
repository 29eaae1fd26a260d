"""Faults of other harnesses with what models send: calls in many spellings, cut answers, thoughts that go back.

The rows are those of ``bugs/bugs.md`` in the shared material; each runs the whole command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
STREAMS = SHARED / "streams"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")


@pytest.fixture(autouse=True)
def freely(stage: Any) -> None:
    """Commands and writes are not asked for."""
    stage.freely = True


def sent_calls(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls in a request, in order; the ids of calls and of results are the same."""
    messages = request["body"]["messages"]
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    answered = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert [call["id"] for call in calls] == answered
    assert all(answered)
    assert len(set(answered)) == len(answered)
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    return calls


def commands(ran: Any) -> list[str]:
    """What was run."""
    return [json.loads(call["arguments"])["command"] for call in ran.data("tool/call")]


def thoughts(request: dict[str, Any]) -> list[str | None]:
    """What is sent back of thoughts, with every message of the assistant."""
    messages = request["body"]["messages"]
    return [message.get("reasoning_content") for message in messages if message["role"] == "assistant"]


@pytest.fixture
def deepseek(stage: Any) -> Any:
    """A stage on which the scripted server is DeepSeek."""
    stage.env |= {"DEEPSEEK_API_KEY": "sk-deep-0123456789"}
    return stage


def prompt(stage: Any, text: str, *arguments: str) -> Any:
    stage.env["DEEPSEEK_BASE_URL"] = f"{stage.url}/v1"
    return stage.end(stage.start("-p", text, "-m", "deepseek/scripted", "--permission-mode", "bypass", *arguments))


def test_s12_two_objects_in_one_line_are_not_lost_silently(play: Any) -> None:
    ran = play("S12", arguments=["--no-plugin", "retry"])
    said = ran.out.strip()
    assert said == "one two" or (ran.code != 0 and ran.end["kind"] == "error" and "one " in ran.err)


def test_t07_fragments_that_take_turns(play: Any) -> None:
    ran = play("T07")
    assert commands(ran) == ["echo one", "echo two"]
    assert ran.results == ["one\n", "two\n"]
    assert len(sent_calls(ran.requests[1])) == 2
    assert (ran.code, ran.out) == (0, "done\n")


def test_t08_an_id_of_null_continues_a_call(play: Any) -> None:
    ran = play("T08")
    assert commands(ran) == ["echo one"]
    assert [call["id"] for call in sent_calls(ran.requests[1])] == ["a"]
    assert ran.code == 0


def test_t09_ids_that_are_used_again(play: Any) -> None:
    """In one answer and in the next: every call runs once, and every request is accepted."""
    ran = play("T09")
    assert commands(ran) == ["echo one", "echo two", "echo three"]
    assert ran.results == ["one\n", "two\n", "three\n"]
    assert [len(sent_calls(request)) for request in ran.requests] == [0, 2, 3]
    assert (ran.code, ran.out) == (0, "done\n")


@pytest.mark.parametrize(("row", "shown"), [("T10", "{'command'"), ("T11", "</tool_call>")])
def test_t10_t11_arguments_that_are_no_json(play: Any, tmp_path: Path, row: str, shown: str) -> None:
    """They do not run, or as what they plainly are; the model reads why, and the next request is valid."""
    ran = play(row)
    assert not (tmp_path / "work/SHOULD_NOT_EXIST").exists()
    (result,) = ran.results
    (data,) = ran.data("tool/result")
    assert data["isError"] is True
    assert "JSON" in result
    assert shown in result
    assert len(sent_calls(ran.requests[1])) == 1
    assert (ran.code, ran.out) == (0, "done\n")


def test_t12_a_wrong_type_is_told_exactly(play: Any) -> None:
    ran = play("T12")
    first, second, third = ran.results
    for result in (first, second):
        assert "command" in result
        assert "string" in result
        assert "array" in result or "list" in result
    assert "cmd" in third
    assert "command" in third
    assert [data["isError"] for data in ran.data("tool/result")] == [True] * 3
    assert ran.code == 0


def test_t16_an_index_below_zero(play: Any) -> None:
    ran = play("T16")
    (call,) = sent_calls(ran.requests[1])
    expected = json.loads((STREAMS / "huggingface/qwen3-coder-480b-a35b-instru-tool.expected.json").read_text())
    assert call["function"]["name"] == expected["tool_calls"][0]["name"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_t16_calls_without_any_id(play: Any, tmp_path: Path) -> None:
    script = tmp_path / "none.json"
    delta = {"tool_calls": [{"index": -1, "function": {"name": "@shell", "arguments": '{"command": "echo hi"}'}}]}
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    end = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    }
    script.write_text(json.dumps([{"chunks": [chunk, end]}, {"text": "done"}]))
    ran = play(script)
    assert ran.results == ["hi\n"]
    assert len(sent_calls(ran.requests[1])) == 1


@pytest.mark.parametrize(
    "stream", ["deepseek/deepseek-v4-flash-length-tool-badargs-cachehit", "openai/gpt-4o-mini-length-tool-badargs"]
)
def test_l01_recorded_calls_that_the_limit_cut(play: Any, tmp_path: Path, stream: str) -> None:
    script = tmp_path / "cut.json"
    recorded = (STREAMS / f"{stream}.sse").resolve()
    script.write_text(json.dumps([{"sse": str(recorded)}, {"text": "done"}]))
    ran = play(script)
    assert ran.data("tool/call") == []
    assert ran.end["kind"] == "max-tokens"
    assert ran.code == 124
    assert "limit" in ran.err


def test_l02_a_router_that_hides_the_limit(play: Any) -> None:
    """The whole call is answered, the cut one gets an error; the next request is one that strict servers take."""
    ran = play("L02")
    expected = json.loads((STREAMS / "together/deepseek-v4-pro-tools2-badargs-think.expected.json").read_text())
    assert len(ran.results) == len(expected["tool_calls"]) == 2
    assert "JSON" in ran.results[1]
    assert len(sent_calls(ran.requests[1])) == 2
    assert len(ran.requests) == 2
    assert (ran.code, ran.out) == (0, "done\n")


def test_l03_an_oversized_call_is_not_paid_for_again_and_again(play: Any, tmp_path: Path) -> None:
    ran = play("L03")
    assert list((tmp_path / "work").iterdir()) == []
    assert ran.end["kind"] == "max-tokens"
    assert ran.code == 124
    assert len(ran.requests) <= 3
    assert "output" in ran.err
    assert "limit" in ran.err


def test_l04_what_comes_behind_the_finish(play: Any, tmp_path: Path) -> None:
    """Read to the end: one call, the text and the counts behind it."""
    ran = play("L04")
    assert (tmp_path / "work/log").read_text() == "once\n"
    first = ran.data("assistant/message")[0]
    assert first["usage"]["inputTokens"] == 7
    texts = [block["text"] for block in first["content"] if block["type"] == "text"]
    assert texts == [" tail"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_r01_thoughts_go_back_word_for_word(deepseek: Any) -> None:
    with deepseek.serving("R01"):
        ran = prompt(deepseek, "go")
    assert thoughts(ran.requests[1]) == ["I must look"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_r02_an_answer_without_thoughts_has_an_empty_field(deepseek: Any) -> None:
    with deepseek.serving("R02"):
        ran = prompt(deepseek, "go")
        again = prompt(deepseek, "again", "-c")
    assert thoughts(ran.requests[1]) == [""]
    assert thoughts(again.requests[2]) == ["", "r"]
    assert (again.code, again.out) == (0, "again\n")


def test_r03_answers_without_calls_keep_their_thoughts(deepseek: Any) -> None:
    with deepseek.serving("R03"):
        prompt(deepseek, "hello")
        ran = prompt(deepseek, "list", "-c")
    assert thoughts(ran.requests[1]) == ["think"]
    assert thoughts(ran.requests[2]) == ["think", "t2"]
    assert (ran.code, ran.out) == (0, "done\n")


def test_r04_thoughts_stay_behind_when_the_model_changes(deepseek: Any) -> None:
    """The log keeps them; the other service, which refuses the field, does not get it."""
    with deepseek.serving("R04"):
        prompt(deepseek, "hello")
        other = deepseek.run("go on", "-c")
        back = prompt(deepseek, "and back", "-c")
    assert "reasoning_content" not in json.dumps(other.requests[1]["body"])
    assert "think" in json.dumps(other.data("assistant/message")[0])
    assert other.out == "other model\n"
    # The one that had them gets them again, and nothing that another model thought.
    assert thoughts(back.requests[2]) == ["think", ""]


def test_r05_blocks_of_thoughts_go_back_as_they_came(stage: Any) -> None:
    stream = STREAMS / "anthropic/claude-haiku-4-5-tool-think.sse"
    expected = json.loads(stream.with_suffix(".expected.json").read_text())
    script = stage.tmp / "thinking.json"
    script.write_text(json.dumps([{"sse": str(stream.resolve())}, {"text": "done"}]))
    stage.env["ANTHROPIC_API_KEY"] = "sk-ant-0123456789"
    with stage.serving(script):
        stage.env["ANTHROPIC_BASE_URL"] = stage.url
        ran = stage.end(stage.start("-p", "go", "-m", "anthropic/claude-haiku-4-5", "--permission-mode", "bypass"))
    (answer,) = (message for message in ran.requests[1]["body"]["messages"] if message["role"] == "assistant")
    sent = [block for block in answer["content"] if block["type"] == "thinking"]
    assert "".join(block["thinking"] for block in sent) == expected["reasoning"]
    recorded = stream.read_text(encoding="utf-8")
    assert all(json.dumps(block["signature"]) in recorded for block in sent)
    assert answer["content"][0]["type"] == "thinking"
    assert (ran.code, ran.out) == (0, "done\n")


def test_r06_a_session_that_is_loaded_sends_what_a_living_one_does(deepseek: Any) -> None:
    with deepseek.serving("R06"):
        live = prompt(deepseek, "go")
        resumed = prompt(deepseek, "more", "-c")
    before = live.requests[1]["body"]["messages"]
    after = resumed.requests[2]["body"]["messages"]
    assert after[: len(before)] == before
    assert thoughts(resumed.requests[2]) == ["think", "t"]
    assert (resumed.code, resumed.out) == (0, "two\n")
