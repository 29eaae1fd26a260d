"""Faults that other harnesses had with calls, results, interrupts and resuming, through the whole command.

The rows H and X of the shared material (``bugs/bugs.md``).  Those about compaction, subagents and
permissions are with the plugins of that name.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from dsh import AgentOptions, open_harness
from dsh.config import Config, PluginsConfig
from dsh.session import events as ev
from dsh.testing import child_processes

SHARED = Path(__file__).parents[1] / "../shared"

pytestmark = [
    pytest.mark.skipif(not (SHARED / "tools/fakesrv.py").exists(), reason="the scripted server is not here"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see other processes"),
]

RICH = """\
from dsh import Text, ToolError, hookimpl, tool

@tool
def multi() -> tuple:
    "Answers in parts."
    return Text("one "), Text("two "), Text("three")

@tool
def failing() -> str:
    "Does not work."
    raise RuntimeError("MCP error -32603: internal error")

@hookimpl
def tools_register(tools):
    tools.add(multi, failing)
"""

QUESTION = """\
from pathlib import Path

import trio
from dsh import hookimpl

@hookimpl
async def tools_pre_execute(call):
    if not Path("asked").exists():
        Path("asked").touch()
        await trio.sleep_forever()
"""


def interrupt(running: Any) -> None:
    running.send_signal(signal.SIGINT)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in another process."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110  # nobody there could set an event
            await trio.sleep(0.02)


def messages_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = request["body"]["messages"]
    return messages


@pytest.fixture(autouse=True)
def freely(stage: Any) -> None:
    """Nobody is there to be asked."""
    stage.freely = True


def test_h01_killed_in_a_blocking_tool(stage: Any) -> None:
    with stage.serving("H01"):
        running = stage.prompt("go")
        children = stage.until_running(running, "sleep 600")
        running.kill()
        running.communicate()
        stage.until_gone(children)
        ran = stage.run("hi", "-c")
    assert (ran.code, ran.out) == (0, "hi again\n"), ran.err
    assert ran.codes == ["TOOL_OUTCOME_UNKNOWN"]
    assert ran.ends == ["interrupted", "completed"]


def test_h02_interrupted_in_a_tool_then_another_message(stage: Any) -> None:
    with stage.serving("H02"):
        running = stage.prompt("go")
        children = stage.until_running(running, "sleep 60")
        interrupt(running)
        first = stage.end(running)
        stage.until_gone(children)
        ran = stage.run("never mind", "-c")
    assert first.code == 130
    assert first.codes == ["ABORTED"]
    assert first.ends == ["aborted"]
    assert (ran.code, ran.out) == (0, "ok\n"), ran.err
    assert [message["role"] for message in messages_of(ran.requests[1])[1:]] == ["user", "assistant", "tool", "user"]


def test_h03_interrupted_in_a_batch(stage: Any) -> None:
    with stage.serving("H03"):
        running = stage.prompt("go")
        stage.until_running(running, "sleep 60")
        interrupt(running)
        first = stage.end(running)
        ran = stage.run("and now", "-c")
    assert first.results[0] == "a\n"
    assert first.codes == [None, "ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert ran.code == 0, ran.err
    sent = [message for message in messages_of(ran.requests[1]) if message["role"] == "tool"]
    (called,) = (message for message in messages_of(ran.requests[1]) if message["role"] == "assistant")
    assert [message["tool_call_id"] for message in sent] == [call["id"] for call in called["tool_calls"]]
    assert sent[0]["content"] == "a\n"


def test_h04_an_early_interrupt_leaves_no_empty_message(stage: Any) -> None:
    with stage.serving("H04"):
        running = stage.prompt("go")
        stage.until(stage.requests, "the request")
        interrupt(running)
        first = stage.end(running)
        ran = stage.run("again", "-c")
    assert first.code == 130
    assert first.data("assistant/message") == []
    assert (ran.code, ran.out) == (0, "fine\n"), ran.err
    assert all(message["content"] for message in messages_of(ran.requests[1]))


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_h04_an_answer_of_reasoning_alone(stage: Any, finish: str) -> None:
    replies = [{"reasoning": "I wonder", "finish": finish}, {"text": "fine", "repeat": True}]
    with stage.serving(stage.script(*replies)):
        stage.run("go")
        ran = stage.run("again", "-c")
    assert ran.out == "fine\n", ran.err


def test_h06_a_result_of_several_parts_and_one_that_is_an_error(stage: Any) -> None:
    stage.plugin("rich", RICH)
    with stage.serving("H06"):
        ran = stage.run("go")
    assert (ran.code, ran.out) == (0, "done\n"), ran.err
    multi, failing = (message for message in messages_of(ran.requests[1]) if message["role"] == "tool")
    assert multi["content"].split() == ["one", "two", "three"]
    assert "MCP error -32603" in failing["content"]


@pytest.mark.parametrize(
    "said",
    [
        "No tool output found for function call call_x.",
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        "tool_call_id  is not found",
    ],
)
def test_h09_a_complaint_about_pairs_is_not_tried_again(stage: Any, said: str) -> None:
    body = json.dumps({"error": {"message": said, "type": "invalid_request_error"}})
    with stage.serving(stage.script({"status": 400, "body": body}, {"text": "ok", "repeat": True})):
        first = stage.run("go")
        ran = stage.run("again", "-c")
    assert first.code == 1
    assert " ".join(said.split()) in first.err
    assert len(first.requests) == 1
    assert (ran.code, ran.out) == (0, "ok\n"), ran.err


async def test_h10_disposed_in_a_tool(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with stage.serving("H10"):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stage.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        config = Config(plugins=PluginsConfig(disabled=("local",)))
        options = AgentOptions(model="openai/scripted")
        async with open_harness(config, home=stage.home, warn=lambda message: None) as harness:
            handle = harness.create_agent(session_id="s", options=options, cwd=str(stage.tmp))
            handle.agent.send("go")
            await until(lambda: any("sleep 30" in stage.command_of(pid) for pid in child_processes()))
            await handle.dispose()
            again = (await harness.resume_agent("s", options=options)).agent
            result = await again.run("go on")
        assert result.text == "ok"
        ends = [event.data.reason.kind for event in again.session.events if isinstance(event.data, ev.TurnEnd)]
        assert ends == ["disposed", "completed"]
        assert [request["refused"] for request in stage.requests()] == [None, None]


def test_h11_calls_and_results_are_in_the_next_prompts_request(stage: Any) -> None:
    with stage.serving("H11"):
        stage.run("one")
        ran = stage.run("two", "-c")
    roles = [message["role"] for message in messages_of(ran.requests[2])[1:]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert ran.out == "b\n"


def test_h12_a_question_that_was_interrupted_is_not_asked_again(stage: Any) -> None:
    stage.plugin("question", QUESTION)
    with stage.serving("H12"):
        running = stage.prompt("go")
        stage.until((stage.work / "asked").exists, "the question")
        interrupt(running)
        first = stage.end(running)
        ran = stage.run("hello", "-c")
        again = stage.run("hello", "-c")
    assert first.ends == ["aborted"]
    assert first.codes == ["ABORTED_BEFORE_DISPATCH"]
    assert (ran.code, ran.out, again.out) == (0, "hello\n", "hello\n")
    assert again.ends == ["aborted", "completed", "completed"]


def test_x03_one_interrupt_stops_a_whole_batch(stage: Any) -> None:
    with stage.serving("X03"):
        running = stage.prompt("go")
        children = stage.until_running(running, "sleep 20")
        interrupt(running)
        ran = stage.end(running)
        stage.until_gone(children)
    assert ran.code == 130
    assert ran.codes == ["ABORTED"] + ["ABORTED_BEFORE_DISPATCH"] * 4


def test_x04_the_whole_group_of_a_command_is_killed(stage: Any) -> None:
    with stage.serving("X04"):
        running = stage.prompt("go")
        children = stage.until_running(running, "sleep 100")
        interrupt(running)
        ran = stage.end(running)
        stage.until_gone(children)
    assert ran.code == 130


def test_x05_no_request_after_an_interrupt(stage: Any) -> None:
    with stage.serving("X05"):
        running = stage.prompt("go")
        stage.until(lambda: len(stage.requests()) > 1, "the second request")
        interrupt(running)
        ran = stage.end(running)
        assert ran.code == 130
        assert ran.ends == ["aborted"]
        assert len(stage.requests()) == len(ran.requests) == len(ran.data("step/start"))


@pytest.mark.parametrize("silent", ["the server accepts and says nothing", "the answer stops at its first byte"])
def test_x06_interrupted_while_the_network_hangs(stage: Any, silent: str) -> None:
    if "accepts" in silent:
        with socket.create_server(("127.0.0.1", 0)) as server:
            stage.url = f"http://127.0.0.1:{server.getsockname()[1]}"
            running = stage.prompt("go")
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                interrupt(running)
                ran = stage.end(running)
    else:
        with stage.serving("X06"):
            running = stage.prompt("go")
            stage.until(stage.requests, "the request")
            interrupt(running)
            ran = stage.end(running)
    assert ran.code == 130
    assert ran.ends == ["aborted"]


def test_an_interrupt_at_any_moment_of_many_steps_leaves_a_log_that_goes_on(stage: Any) -> None:
    """G03 and X05 in one: whatever the moment, the next prompt is answered."""
    steps = [{"calls": [["bash", {"command": f"echo {number}"}]]} for number in range(60)]
    with stage.serving(stage.script(*steps, {"text": "end", "repeat": True})):
        for number in range(6):
            seen = len(stage.requests()) + number
            running = stage.prompt("go", *(["-c"] if stage.events() else []))
            stage.until(lambda least=seen: len(stage.requests()) > least, "requests")
            interrupt(running)
            assert stage.end(running).code == 130
        ran = stage.run("now", "-c")
    assert ran.code == 0, ran.err
    assert set(ran.ends[:-1]) <= {"aborted"}
