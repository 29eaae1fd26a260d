"""Subagents through the whole command, against the scripted server: the faults of others, and what must hold."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from dsh import AgentOptions, Config, open_harness
from dsh.messages import text_of
from dsh.session.events import AssistantMessage
from dsh.testing import plugin_of

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"
BYPASS = ("--permission-mode", "bypass")

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")


def task(prompt: str, **more: Any) -> list[Any]:
    return ["@task", {"prompt": prompt, "description": prompt, **more}]


def shell(command: str, **more: Any) -> list[Any]:
    return ["@shell", {"command": command, **more}]


def ends(log: list[dict[str, Any]]) -> list[str]:
    return [event["data"]["reason"]["kind"] for event in log if event.get("type") == "turn/end"]


def after_the_end(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What stands behind the first turn, where whoever was cancelled is told of those in the background."""
    (first, *_) = [number for number, event in enumerate(log) if event.get("type") == "turn/end"]
    return log[first + 1 :]


def balanced(log: list[dict[str, Any]]) -> bool:
    """Every call of a log has one result, and every turn an end."""
    called = [event["data"]["callId"] for event in log if event.get("type") == "tool/call"]
    answered = [event["data"]["callId"] for event in log if event.get("type") == "tool/result"]
    starts = sum(event.get("type") == "turn/start" for event in log)
    return sorted(called) == sorted(answered) and starts == len(ends(log))


def test_two_children_beside_each_other(stage: Any) -> None:
    script = stage.script({"calls": [task("A"), task("B")]}, {"text": "sub"}, {"text": "sub"}, {"text": "end"})
    with stage.serving(script):
        ran = stage.run("go", "--json", *BYPASS)
    result = json.loads(ran.out)
    assert (ran.code, result["text"], result["steps"]) == (0, "end", 2)
    assert result["usage"]["input_tokens"] == 40, "the run is all of them"
    assert ran.results == ["sub", "sub"]
    assert [log[0]["parentSession"] for log in stage.children()] == [result["session_id"]] * 2
    prompts = [request["body"]["messages"][-1]["content"] for request in ran.requests[1:3]]
    assert sorted(prompts) == ["A", "B"]
    starts, stops = ran.data("subagent/start"), ran.data("subagent/end")
    assert [start["description"] for start in starts] == ["A", "B"]
    assert [stop["reason"] for stop in stops] == ["completed"] * 2

    with stage.serving(script):
        shown = stage.start("sessions", "show", result["session_id"])
        out, _ = shown.communicate(timeout=60)
    below = out.partition("--- sessions below this one\n")[2].splitlines()
    assert [line.split("  ")[-1] for line in below] == ["A: completed", "B: completed"]


def test_the_tree_names_children_whose_logs_are_gone_or_damaged(stage: Any) -> None:
    """What the log of their parent says of them is shown all the same; and it is text, whatever the model wrote."""
    names = ["A", "B", "C\x1b[31m\x07red", "\x00"]
    script = stage.script({"calls": [task("X", description=name) for name in names]}, {"text": "sub", "repeat": True})
    with stage.serving(script):
        ran = stage.run("go", "--json", *BYPASS)
        id = json.loads(ran.out)["session_id"]
        paths = {
            json.loads(path.read_bytes().partition(b"\n")[0])["id"]: path
            for path in (stage.home / "sessions").rglob("*.jsonl")
        }
        starts = ran.data("subagent/start")
        assert [start["description"] for start in starts] == ["A", "B", "C [31m red", "X"]
        paths[starts[0]["sessionId"]].unlink()
        paths[starts[1]["sessionId"]].write_bytes(b"no log\n\xff")
        damaged = paths[starts[2]["sessionId"]]
        damaged.write_bytes(damaged.read_bytes()[:400])
        shown = stage.start("sessions", "show", id)
        out, err = shown.communicate(timeout=60)
    assert (shown.returncode, err) == (0, "")
    gone = "completed; its log is gone, or cannot be read"
    below = out.partition("--- sessions below this one\n")[2].splitlines()
    said = [line.strip().partition("  ")[2] for line in below]
    assert said == ["C [31m red: completed", "X: completed", f"A: {gone}", f"B: {gone}"]


def test_a01_a_hung_child_costs_the_other_one_nothing(stage: Any) -> None:
    """Both ask the model; one gets a command that hangs, the other an answer.  Cancelled, B's result is there."""
    script = stage.script(
        {"calls": [task("A"), task("B")]},
        {"calls": [shell("sleep 600")]},
        {"text": "B's result"},
        {"text": "end", "repeat": True},
    )
    with stage.serving(script):
        running = stage.prompt("go", *BYPASS)
        pids = stage.until_running(running, "sleep 600")
        stage.until(lambda: any(ends(log) == ["completed"] for log in stage.children()), "the end of B")
        running.send_signal(signal.SIGINT)
        ran = stage.end(running)
        assert ran.code == 130
        assert (ran.ends, balanced(ran.events)) == (["aborted"], True)
        assert sorted(ran.results)[
            1
        ] == "Error: the turn was cancelled before this call had ended; it may have had effects" or (
            "B's result" in ran.results
        )
        assert "B's result" in ran.results
        assert sorted(map(str, ran.codes)) == ["ABORTED", "None"]
        stage.until_gone(pids)
        again = stage.run("and now?", "-c", *BYPASS)
    sent = [message for message in again.requests[-1]["body"]["messages"] if message["role"] == "tool"]
    assert any("B's result" in message["content"] for message in sent)
    assert any("cancelled" in message["content"] for message in sent)
    assert again.out == "end\n"


async def test_a03_a_prompt_that_is_queued_meanwhile_has_its_answer(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a child's answer stalls the person says more: it waits for its turn, and is answered."""
    stage.work.mkdir()
    with stage.serving("A03"):
        for name, value in stage.environ.items():
            monkeypatch.setenv(name, value)
        begun = trio.Event()
        watch = plugin_of(agent_created=lambda agent: begun.set() if agent.depth else None)
        async with open_harness(
            Config(), plugins={"watch": watch}, home=stage.home, warn=lambda message: None
        ) as harness:
            agent = harness.create_agent(options=AgentOptions("openai/scripted"), cwd=str(stage.work)).agent
            agent.send("go")
            with trio.fail_after(60):
                await begun.wait()
            agent.send("and something else")
            with trio.fail_after(60):
                await agent.when_idle()
            answers = [event.data for event in agent.session.events if isinstance(event.data, AssistantMessage)]
    assert [text_of(answer.content) for answer in answers][1:] == ["parent done", "answer to queued prompt"]
    assert ends(stage.events()) == ["completed", "completed"]
    assert [request["body"]["messages"][-1]["content"] for request in stage.requests()][1:] == [
        "A",
        "sub",
        "and something else",
    ]


def test_p07_what_children_leave_running_ends_with_them(stage: Any) -> None:
    nohup = shell("nohup sleep 901 >/dev/null 2>&1 & echo bg")
    script = stage.script(
        {"calls": [task("A")]},
        {"calls": [nohup, nohup, shell("sleep 902", run_in_background=True)]},
        {"text": "sub"},
        {"calls": [shell("ps -eo args | grep -c '[s]leep 90[12]'")]},
        {"text": "done"},
    )
    with stage.serving(script):
        ran = stage.run("go", *BYPASS)
    assert (ran.code, ran.out) == (0, "done\n")
    assert ran.results[0] == "sub"
    assert ran.results[1].startswith("0"), "the child's processes were gone before its parent went on"


@pytest.mark.parametrize("background", [False, True])
def test_x01_a_cancel_reaches_all_levels(stage: Any, background: bool) -> None:
    """Two children, each in a command that would leave a file; and one of them has a child that does so, too."""
    late = [shell(f"sleep 30; touch late-{n}") for n in range(3)]
    script = stage.script(
        {"calls": [task("A", background=background), task("B", background=background)]},
        *[{"calls": [late[n]]} for n in range(2)],
        *([{"calls": [late[2]]}] if background else []),
        {"text": "x", "repeat": True},
    )
    with stage.serving(script):
        running = stage.prompt("go", *BYPASS)
        stage.until_running(running, "touch late-0")
        pids = stage.until_running(running, "touch late-1")
        before = time.monotonic()
        running.send_signal(signal.SIGINT)
        ran = stage.end(running)
        assert time.monotonic() - before < 25, "nobody waited for the commands"
    assert ran.code == 130
    stage.until_gone(pids)
    assert list(stage.work.iterdir()) == []
    logs = [ran.events, *stage.children()]
    assert all(balanced(log) for log in logs)
    assert all(ends(log)[0] == "aborted" for log in logs)
    assert all(event["type"] != "step/start" for log in logs for event in after_the_end(log)), "no model is asked again"


def test_a_child_that_asks_for_a_permission_nobody_can_give(stage: Any) -> None:
    stage.plugin(
        "careful",
        "from dsh import Ask, hookimpl\n"
        "@hookimpl\n"
        "def tools_pre_execute(call):\n"
        "    return Ask('may it?') if call.name == 'bash' else None\n",
    )
    script = stage.script(
        {"calls": [task("A")]}, {"calls": [shell("touch made")]}, {"text": "it was denied"}, {"text": "end"}
    )
    with stage.serving(script):
        ran = stage.run("go", *BYPASS)
    assert (ran.code, ran.out) == (3, "end\n")
    assert ran.results == ["it was denied"]
    assert list(stage.work.iterdir()) == []
    (child,) = stage.children()
    (result,) = [event["data"] for event in child if event["type"] == "tool/result"]
    assert result["error"]["code"] == "APPROVAL_UNANSWERED"


def test_nesting_to_the_cap(stage: Any) -> None:
    script = stage.script(
        {"calls": [task("one")]},
        {"calls": [task("two")]},
        {"calls": [task("three")]},
        {"text": "two alone"},
        {"text": "one is done"},
        {"text": "end"},
    )
    with stage.serving(script):
        ran = stage.run("go", *BYPASS)
    assert (ran.code, ran.results) == (0, ["one is done"])
    logs = stage.children()
    assert len(logs) == 2
    codes = [
        (event["data"].get("error") or {}).get("code")
        for log in logs
        for event in log
        if event["type"] == "tool/result"
    ]
    assert sorted(map(str, codes)) == ["None", "SUBAGENT_DEPTH"]


def test_background_work_comes_home_before_the_command_ends(stage: Any) -> None:
    script = stage.script(
        {"calls": [task("A", background=True), shell("sleep 0.5")]},
        {"calls": [shell("echo from below")]},
        {"text": "some text", "repeat": True},
    )
    with stage.serving(script):
        ran = stage.run("go", *BYPASS)
    assert (ran.code, ran.ends) == (0, ["completed"])
    told = [data["content"][0]["text"] for data in ran.data("steering/message")]
    assert len(told) == 1
    assert told[0].startswith("subagent-1 (A) has finished.")


def test_g05_a_broken_plugin_and_a_broken_kind_stop_nobody(stage: Any) -> None:
    """An entry point to nowhere, and a file that describes nothing: both are named, and a child works all the same."""
    site = stage.tmp / "site"
    info = site / "broken_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh]\nbroken = no_such_module_at_all\n")
    stage.env["PYTHONPATH"] = str(site)
    kinds = stage.home / "agents"
    kinds.mkdir(parents=True)
    (kinds / "bad.md").write_text("no front matter")
    (kinds / "good.md").write_text("---\nname: good\ndescription: is good\n---\nYou are good.\n")
    script = stage.script({"calls": [task("A", type="good")]}, {"text": "sub"}, {"text": "end"})
    with stage.serving(script):
        ran = stage.run("go", *BYPASS)
    assert (ran.code, ran.out, ran.results) == (0, "end\n", ["sub"])
    assert "broken-plugin" in ran.err
    assert str(kinds / "bad.md") in ran.err
    system = ran.requests[1]["body"]["messages"][0]["content"]
    assert "You are good." in system


def test_a_program_that_was_killed_leaves_a_parent_that_can_go_on(stage: Any) -> None:
    script = stage.script(
        {"calls": [task("A"), task("B", background=True)]},
        {"calls": [shell("sleep 700")]},
        {"calls": [shell("sleep 700")]},
        {"text": "going on", "repeat": True},
    )
    with stage.serving(script):
        running = stage.prompt("go", *BYPASS)
        pids = stage.until_running(running, "sleep 700")
        stage.until(lambda: len(stage.children()) == 2, "both children")
        stage.until(lambda: sum("subagent/start" in json.dumps(event) for event in stage.events()) == 2, "their starts")
        running.kill()
        running.communicate()
        ran = stage.run("go on", "-c", *BYPASS)
        stage.until_gone(pids)
    assert (ran.code, ran.out) == (0, "going on\n")
    assert balanced(ran.events)
    assert ran.codes[0] == "TOOL_OUTCOME_UNKNOWN"
    told = [data["content"][0]["text"] for data in ran.data("context/message")]
    assert len(told) == 1
    assert "subagent-2 (B)" in told[0]
    assert "subagent-1" not in told[0]
    assert [data["reason"] for data in ran.data("subagent/end")] == ["lost", "lost"]
