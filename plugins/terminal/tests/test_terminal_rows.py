"""Rows of the list of bugs, through the conversation: what a person sees, and what is left."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyte")

SMALL = ["sh", "-c", 'ulimit -v 1500000; exec "$@"', "sh"]


def results(desk: Any) -> list[dict[str, Any]]:
    return [event["data"] for event in desk.events() if event["type"] == "tool/result"]


def working_in(folder: Path) -> set[str]:
    """The processes that have that working directory."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder:
                found.add(process.name)
        except OSError:
            continue  # it has ended, or is not ours
    return found


def test_cancel_reaches_what_subagents_run(desk: Any) -> None:
    """Row X01: two children, each in a command; nothing of them is left, and nothing is asked afterwards."""
    tasks = ", ".join(f'("t{n}", "subagent", {{"description": "d{n}", "prompt": "p"}})' for n in (1, 2))
    run = 'call("bash", {"command": "sleep 60; touch late"}, id="b1")'
    terminal = desk.open(f'reply(calls=[{tasks}]), {run}, {run}, text("And then?")')
    idle = working_in(desk.work)
    terminal.type("begin\r")
    terminal.wait_for("2 agents")
    until = time.monotonic() + 30
    while len(working_in(desk.work) - idle) < 2:
        assert time.monotonic() < until, "the commands do not begin"
        terminal.read(0.05)
    terminal.type("\x03")
    terminal.wait_for("(aborted")
    while working_in(desk.work) - idle:
        assert time.monotonic() < until, "something still runs"
        terminal.read(0.05)
    assert len(results(desk)) == 2
    terminal.type("go on\r")
    terminal.wait_for("And then?")  # the children have asked for nothing more, so this is the next answer
    assert not (desk.work / "late").exists()


def test_no_request_after_a_cancel_between_a_result_and_the_next_request(desk: Any) -> None:
    """Row X05."""
    gap = desk.home.parent / "gap.py"
    gap.write_text(
        "import trio\nfrom dsh import hookimpl\n\n"
        "@hookimpl\nasync def agent_pre_step(turn, step):\n"
        "    if turn == 1 and step == 2:\n        print('IN BETWEEN')\n        await trio.sleep(60)\n"
    )
    terminal = desk.open('call("bash", {"command": "true"}), text("The next answer.")', "-e", str(gap))
    terminal.type("begin\r")
    terminal.wait_for("IN BETWEEN")
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    assert len(results(desk)) == 1
    assert "The next answer." not in terminal.shown()
    terminal.type("go on\r")
    terminal.wait_for("The next answer.")  # nobody has asked for it before
    terminal.type("\x04")
    terminal.wait()
    assert desk.kinds().count("turn/end") == 2


def test_commands_run_where_no_temporary_file_can_be_made(desk: Any) -> None:
    """Row D03."""
    terminal = desk.open(
        'call("bash", {"command": "echo still; seq 1 20000"}), text("It ran.")',
        TMPDIR="/proc",
        PYTHONDONTWRITEBYTECODE="1",
    )
    terminal.type("begin\r")
    terminal.wait_for("It ran.")
    (result,) = results(desk)
    assert not result.get("isError")
    assert result["content"][0]["text"].startswith("still")


def test_no_room_for_a_command_is_that_commands_trouble(desk: Any) -> None:
    """Row D04: an ordinary result, and the turn goes on."""
    terminal = desk.open('call("bash", {"command": "echo x > /dev/full"}), text("I see: it is full.")')
    terminal.type("begin\r")
    terminal.wait_for("I see: it is full.")
    (result,) = results(desk)
    assert "No space left on device" in result["content"][0]["text"]
    terminal.type("\x04")
    terminal.wait()
    (end,) = (event["data"] for event in desk.events() if event["type"] == "turn/end")
    assert end["reason"]["kind"] == "completed"
    assert "✗ bash echo x > /dev/full  exit code " in terminal.shown()  # the person sees that it went wrong


def test_a_flood_is_bounded_and_keys_are_taken_meanwhile(desk: Any) -> None:
    """Row O01."""
    terminal = desk.open('call("bash", {"command": "timeout 2 yes"}), text("That was much.")', wrap=SMALL)
    terminal.type("begin\r")
    terminal.wait_for("bash timeout 2 yes")
    terminal.type("typed in the flood")
    terminal.wait_for("… typed in the flood")
    terminal.wait_for("That was much.")
    terminal.wait_for("> typed in the flood")
    (result,) = results(desk)
    assert len(result["content"][0]["text"]) < 200_000


def test_a_cut_result_says_what_is_missing(desk: Any) -> None:
    """Row O03: to the model and, with Ctrl-O, to the person; no character is cut in two."""
    command = "seq 1 30000; printf '\\u4f60%.0s' $(seq 1 3000)"
    terminal = desk.open(f'call("bash", {{"command": {command!r}}}), text("Much of it.")')
    terminal.type("begin\r")
    terminal.wait_for("Much of it.")
    (result,) = results(desk)
    text = result["content"][0]["text"]
    assert "are left out here]" in text
    assert "\ufffd" not in text
    assert len(text) < 200_000
    terminal.type("\x0f")
    terminal.wait_for("all of it is in")


def test_a_cancel_ends_what_a_command_left_behind_it_and_keeps_the_mode(desk: Any) -> None:
    """Row X04."""
    terminal = desk.open(
        'call("bash", {"command": "sleep 100 & wait"}, id="b1"), call("bash", {"command": "touch asked"}, id="b2"), '
        'text("I see.")',
        mode="default",
    )
    idle = working_in(desk.work)
    terminal.type("begin\r")
    until = time.monotonic() + 30
    while len(working_in(desk.work) - idle) < 2:  # the shell, and what it runs
        assert time.monotonic() < until, "the command does not begin"
        terminal.read(0.05)
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    while working_in(desk.work) - idle:
        assert time.monotonic() < until, "something still runs"
        terminal.read(0.05)
    terminal.type("go on\r")
    terminal.wait_asked()
    terminal.type("n")
    terminal.wait_for("I see.")
    assert not (desk.work / "asked").exists()
    terminal.wait_for("· default")
