"""Conversations in a real pseudo-terminal: what is typed, what is seen, what is left in the log."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytest.importorskip("pyte")

SLEEP = 'call("bash", {"command": "sleep 20; echo late"}, id="c1")'


def test_a_task_and_its_answer(desk: Any) -> None:
    terminal = desk.open(
        'call("bash", {"command": "echo found"}), '
        'text("# Done\\n\\nIt is **there**:\\n\\n- one\\n- two\\n\\n```sh\\nls\\n```\\n")'
    )
    terminal.type("look for it\r")
    terminal.wait_for("two")
    terminal.settle()
    terminal.kept("task")
    shown = terminal.shown()
    assert "> look for it" in shown
    assert "✓ bash echo found" in shown
    assert "**" not in shown
    assert "• one" in shown
    assert "scripted/m" in "".join(terminal.lines()[-8:])
    terminal.type("\x04")
    assert terminal.wait() == 0
    assert "goes on with it" in terminal.shown().replace("\n", "")
    assert desk.kinds()[-1] == "turn/end"


def test_an_approval_with_its_change_and_why(desk: Any) -> None:
    terminal = desk.open(
        'call("write", {"file_path": "a.txt", "content": "hello\\n"}), text("It is written.")', mode="default"
    )
    terminal.type("write it\r")
    terminal.wait_for("needs your approval")
    terminal.wait_for("[y/a/p/n/e]")
    terminal.kept("approval")
    assert "+ hello" in terminal.shown()
    assert "why: writing a.txt" in terminal.shown()
    assert not (desk.work / "a.txt").exists()
    terminal.type("y")
    terminal.wait_for("It is written.")
    terminal.kept("approved")
    assert (desk.work / "a.txt").read_text() == "hello\n"
    assert "permission/decided" in desk.kinds()
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_a_refusal_with_a_reason_reaches_the_model(desk: Any) -> None:
    terminal = desk.open('call("write", {"file_path": "a.txt", "content": "x"}), text("I see.")', mode="default")
    terminal.type("write it\r")
    terminal.wait_for("[y/a/p/n/e]")
    terminal.type("e")
    terminal.wait_for("reason:")
    terminal.type("use another name\r")
    terminal.wait_for("I see.")
    (result,) = (event["data"] for event in desk.events() if event["type"] == "tool/result")
    assert "use another name" in result["content"][0]["text"]
    assert not (desk.work / "a.txt").exists()


def test_what_is_entered_meanwhile_steers_the_turn(desk: Any) -> None:
    terminal = desk.open('call("bash", {"command": "sleep 2"}, id="c1"), text("Done as you say.")')
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 2")
    terminal.type("do it otherwise\r")
    terminal.wait_for("Done as you say.")
    kinds = desk.kinds()
    assert kinds.count("turn/start") == 1
    assert kinds.index("tool/result") < kinds.index("steering/message")
    assert "> do it otherwise" in terminal.shown()
    terminal.kept("steering")


def test_tab_keeps_it_for_the_next_turn(desk: Any) -> None:
    terminal = desk.open('call("bash", {"command": "sleep 2"}, id="c1"), text("First."), text("Second.")')
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 2")
    terminal.type("and then\t")
    terminal.wait_for("1 queued")
    terminal.wait_for("Second.")
    assert desk.kinds().count("turn/start") == 2
    assert "steering/message" not in desk.kinds()


def test_cancel_keeps_what_was_typed_and_the_conversation_goes_on(desk: Any) -> None:
    terminal = desk.open(f'{SLEEP}, {SLEEP.replace("c1", "c2")}, text("Something else, then.")')
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 20")
    terminal.type("half")
    terminal.wait_for("… half")
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    terminal.wait_for("> half")
    terminal.type(" a thought\r")
    terminal.wait_for("> half a thought")
    terminal.wait_for("sleep 20; echo late  1 s")
    terminal.type("kept")
    terminal.wait_for("… kept")
    terminal.type("\x03")
    terminal.wait_for("> kept")
    terminal.wait_for("again leaves")
    terminal.wait_for("again leaves", gone=True)
    terminal.kept("cancelled")
    terminal.type(" more\r")
    terminal.wait_for("Something else, then.")
    prompts = [event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message"]
    assert prompts == ["begin", "half a thought", "kept more"]
    assert desk.kinds().count("turn/end") == 3


def test_ctrl_c_twice_leaves_with_the_log_closed(desk: Any) -> None:
    terminal = desk.open(SLEEP)
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 20")
    terminal.type("\x03")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert "dsh -r " in terminal.shown()
    assert desk.kinds()[-1] == "turn/end"


def test_a_terminal_that_is_closed_loses_nothing(desk: Any) -> None:
    """SIGHUP, as when the window goes; the session goes on where it was."""
    terminal = desk.open(SLEEP)
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 20")
    os.kill(terminal.pid, signal.SIGHUP)
    assert terminal.wait() == 129
    assert desk.kinds()[-1] == "turn/end"
    again = desk.open('text("Here I am again.")', "-c")
    again.type("are you there?\r")
    again.wait_for("Here I am again.")
    again.kept("after-sighup")
    assert desk.kinds().count("turn/start") == 2


def test_another_size_while_it_writes(desk: Any) -> None:
    long = "\\n\\n".join(f"Paragraph {n} with some words in it." for n in range(40))
    terminal = desk.open(f'text("{long}")')
    terminal.type("go\r")
    terminal.wait_for("Paragraph 3 ")
    terminal.resize(40, 15)
    terminal.wait_for("Paragraph 39")
    terminal.settle()
    assert all(len(line) <= 40 for line in terminal.lines())
    assert all("some words in it." in line for line in terminal.lines() if line.startswith("Paragraph"))
    terminal.type("typed after")
    terminal.wait_for("typed after")


def test_twenty_columns_and_back_while_it_writes(desk: Any) -> None:
    """What was typed stays, and what comes afterwards fits."""
    long = "\\n\\n".join(f"Paragraph {n} with some words in it." for n in range(60))
    terminal = desk.open(f'text("{long}"), text("Still here.")')
    terminal.type("go\r")
    terminal.wait_for("Paragraph 3 ")
    terminal.type("half")
    terminal.resize(20, 10)
    terminal.wait_for("Paragraph 59")
    terminal.type(" a")
    terminal.wait_for("half a")
    terminal.settle()
    assert all(len(line) <= 20 for line in terminal.lines())
    terminal.resize(80, 24)
    terminal.type(" line\r")
    terminal.wait_for("Still here.")
    assert "Traceback" not in terminal.shown()
    prompts = [event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message"]
    assert prompts == ["go", "half a line"]


def test_a_model_that_says_nothing_yet_is_waited_for_visibly(desk: Any) -> None:
    terminal = desk.open("Reply((), hangs=True)")
    terminal.type("go\r")
    terminal.wait_for("waiting for the model  1 s")
    terminal.wait_for("waiting for the model  2 s")
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    terminal.settle()
    assert "waiting for the model" not in terminal.shown()


def test_wide_characters_fit(desk: Any) -> None:
    """Rows U01 and U03: 61 characters of two cells each, and signs that are several characters."""
    terminal = desk.open(f'text("{"你" * 61}\\n\\n| a | b |\\n|---|---|\\n| ⚠️ | 🏳️‍🌈 |\\n\\n，，")', columns=120)
    terminal.type("go\r")
    terminal.wait_for("你你")
    terminal.settle()
    assert "Traceback" not in terminal.shown()
    assert terminal.shown().replace("\n", "").replace(" ", "").count("你") >= 61
    terminal.kept("wide-characters")


def test_a_result_of_20_000_lines(desk: Any) -> None:
    terminal = desk.open('call("bash", {"command": "seq 1 20000"}), text("Counted.")')
    terminal.type("count\r")
    terminal.wait_for("Counted.")
    terminal.settle()
    assert len(terminal.shown().splitlines()) < 60
    terminal.kept("long-result")
    terminal.type("\x0f")  # Ctrl-O
    terminal.wait_for("20000 lines")


def test_a_paste_of_a_megabyte(desk: Any) -> None:
    terminal = desk.open('text("That was long.")')
    pasted = "word " * 200_000 + "end"
    terminal.type(f"\x1b[200~{pasted}\x1b[201~")
    terminal.wait_for("[pasted 1 line, 1000003 signs #1]")
    terminal.kept("long-paste")
    terminal.type("\r")
    terminal.wait_for("That was long.")
    (prompt,) = (event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message")
    assert prompt == pasted


def test_lines_are_entered_with_alt_enter(desk: Any) -> None:
    terminal = desk.open('text("Two lines.")')
    terminal.type("one\x1b\rtwo\r")
    terminal.wait_for("Two lines.")
    (prompt,) = (event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message")
    assert prompt == "one\ntwo"


def test_what_steers_terminals_is_shown_and_not_obeyed(desk: Any) -> None:
    """Row O04."""
    terminal = desk.open('text("a \\x1b[2J\\x1b]0;pwn\\x07 b")')
    terminal.type("go\r")
    terminal.wait_for(" b")
    terminal.settle()
    assert "> go" in terminal.shown()
    assert b"\x1b]0;pwn" not in terminal.raw


def test_a_plugin_that_prints_does_not_wreck_the_screen(desk: Any) -> None:
    noisy = desk.home.parent / "noisy.py"
    noisy.write_text(
        "import logging, os, subprocess, sys\nfrom dsh import hookimpl\n\n"
        "log = logging.getLogger('noisy')\nlog.addHandler(logging.StreamHandler(sys.stderr))\n\n"
        "@hookimpl\ndef agent_status(status):\n"
        "    print('NOISE', status)\n    log.warning('LOGGED %s', status)\n"
        "    os.write(2, b'BELOW \\x1b[2J ' + status.encode() + b'\\n')\n"
        "    subprocess.run(['sh', '-c', 'echo CHILD $0 >&2', status])\n"
    )
    terminal = desk.open('text("Fine.")', "-e", str(noisy))
    terminal.type("go\r")
    terminal.wait_for("Fine.")
    for word in ("NOISE idle", "LOGGED idle", "BELOW \\x1b[2J idle", "CHILD idle"):
        terminal.wait_for(word)
    terminal.type("typed")
    terminal.wait_for("> typed")


def test_a_command_of_ones_own_is_stopped(desk: Any) -> None:
    terminal = desk.open('text("Here.")')
    terminal.type("!sleep 30; touch late\r")
    terminal.wait_for("> !sleep")
    terminal.wait_for("\n…", words=False)
    terminal.type("\x1b")
    terminal.wait_for("(stopped: !sleep 30; touch late)")
    terminal.type("go\r")
    terminal.wait_for("Here.")
    assert not (desk.work / "late").exists()
