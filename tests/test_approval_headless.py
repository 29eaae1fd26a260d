"""Approval with nobody there: denied, the model goes on, and every kind of output says what was denied."""

from __future__ import annotations

import json
from typing import Any

import pytest

TOUCH = {"calls": [["@shell", {"command": "touch made"}]]}
DONE = {"text": "I could not"}

SPAWNING = """
from dsh import AgentOptions, ToolCall, hookimpl, tool

@tool
async def delegate(call: ToolCall) -> str:
    "Have somebody else do it."
    handle = call.agent.harness.create_agent(parent=call.agent, options=AgentOptions(model="openai/scripted"))
    try:
        return (await handle.agent.run("do it")).text
    finally:
        await handle.dispose()

@hookimpl
def tools_register(tools):
    tools.add(delegate)
"""


def document(ran: Any) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(ran.out.splitlines()[-1])
    return last


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize("quiet", [False, True])
def test_the_exit_code_and_the_list_are_in_every_output(stage: Any, form: str, quiet: bool) -> None:
    with stage.serving(stage.script(TOUCH, DONE)):
        ran = stage.run("go", "--output-format", form, *(["-q"] if quiet else []))
    assert ran.code == 3
    assert not (stage.work / "made").exists()
    assert "denied, since nobody was there to ask:\ndsh:   bash: touch made  (needs bash(touch *))\n" in ran.err
    if form == "text":
        assert ran.out == "I could not\n"
        return
    found = document(ran)
    assert (found["text"], found["exit_code"], found["reason"]) == ("I could not", 3, "completed")
    assert found["error"]["code"] == "APPROVAL_UNANSWERED"
    (denied,) = found["denied"]
    assert {key: denied[key] for key in ("tool", "arguments", "rule", "unanswered")} == {
        "tool": "bash",
        "arguments": "touch made",
        "rule": "bash(touch *)",
        "unanswered": True,
    }
    assert denied["reason"].startswith("not permitted: ")


def test_the_model_is_told_what_it_would_need_and_goes_on(stage: Any) -> None:
    with stage.serving(stage.script(TOUCH, {"calls": [["@shell", {"command": "echo still here"}]]}, DONE)):
        ran = stage.run("go", "--allowed-tools", "bash(echo *)")
    assert ran.code == 3
    told, went_on = ran.results
    assert told.startswith("Error: not permitted: ")
    assert "Nobody is here to approve it; it would need the rule bash(touch *)." in told
    assert "still here" in went_on
    (decided,) = ran.data("permission/decided")
    assert (decided["outcome"], decided["rules"]) == ("unanswered", ["bash(touch *)"])
    assert [data["reason"]["kind"] for data in ran.data("turn/end")] == ["completed"]


def test_the_rule_that_is_named_is_the_one_that_helps(stage: Any) -> None:
    with stage.serving(stage.script(TOUCH, DONE)):
        needed = document(stage.run("go", "--json", "--no-session"))["denied"][0]["rule"]
    with stage.serving(stage.script(TOUCH, DONE)):
        ran = stage.run("go", "--json", "--no-session", "--allowed-tools", needed)
    assert (ran.code, document(ran)["denied"]) == (0, [])
    assert (stage.work / "made").exists()


def test_what_a_rule_denies_is_listed_and_needs_nobody(stage: Any) -> None:
    with stage.serving(stage.script(TOUCH, DONE)):
        ran = stage.run("go", "--json", "--disallowed-tools", "bash(touch *)")
    assert ran.code == 0
    (denied,) = document(ran)["denied"]
    assert (denied["tool"], denied["unanswered"], denied["rule"]) == ("bash", False, None)
    assert "error" not in document(ran)
    assert "nobody was there" not in ran.err


def test_dont_ask_is_a_decision_and_no_missing_answer(stage: Any) -> None:
    with stage.serving(stage.script(TOUCH, DONE)):
        ran = stage.run("go", "--json", "--permission-mode", "dont-ask")
    assert ran.code == 0
    assert [entry["unanswered"] for entry in document(ran)["denied"]] == [False]
    assert not (stage.work / "made").exists()


def test_a_subagents_question_is_denied_and_counted_as_well(stage: Any) -> None:
    stage.plugin("spawning", SPAWNING)
    replies = ({"calls": [["delegate", {}]]}, TOUCH, {"text": "the child could not"}, DONE)
    with stage.serving(stage.script(*replies)):
        ran = stage.run("go", "--json", "--no-session", "--allowed-tools", "delegate")
    assert (ran.code, document(ran)["text"]) == (3, "I could not")
    (denied,) = document(ran)["denied"]
    assert (denied["arguments"], denied["unanswered"]) == ("touch made", True)
    assert denied["session_id"] != document(ran)["session_id"]


def test_a_subagents_question_is_put_to_the_person_at_the_terminal(stage: Any) -> None:
    stage.plugin("spawning", SPAWNING)
    replies = ({"calls": [["delegate", {}]]}, TOUCH, {"text": "the child did"}, {"text": "done"})
    with stage.serving(stage.script(*replies)), stage.screen("go", "--allowed-tools", "delegate") as screen:
        assert "bash needs your approval (agent-1 > agent-2)\n" in screen.until("[y/a/p/n/e] ")
        screen.type("y")
        assert screen.end() == (0, "done\n")
    assert (stage.work / "made").exists()


def test_a_stdin_that_is_nothing_says_that_nobody_is_there(stage: Any) -> None:
    """Unlike one that carries the task; stderr is a terminal in both."""
    for words in (["sh", "-c", 'exec "$@" </dev/null', "sh"], ["sh", "-c", 'echo go | "$@"', "sh"]):
        with stage.serving(stage.script(TOUCH, DONE)), stage.screen("go", "--no-session", before=words) as screen:
            if "/dev/null" not in words[2]:
                screen.until("[y/a/p/n/e] ")
                screen.type("n")
            assert screen.end() == (0 if "echo" in words[2] else 3, "I could not\n"), screen.shown
