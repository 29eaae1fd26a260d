"""Ways out, and the terminal lent to others: questions, shells, signals."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

pytest.importorskip("pyte")

ASKS = 'call("write", {"file_path": "a.txt", "content": "hello\\n"}, id="w1"), text("Something else, then.")'
FULL = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"]
SLEEP = 'call("bash", {"command": "sleep 30; touch late"}, id="c1"), text("Something else, then.")'


def balanced(desk: Any) -> bool:
    kinds = desk.kinds()
    return bool(kinds.count("turn/start") == kinds.count("turn/end") and kinds[-1] == "turn/end")


def end_with_a_signal(number: int) -> Any:
    return lambda terminal: os.kill(terminal.pid, number)


@pytest.mark.parametrize(
    ("way", "code"),
    [
        (lambda terminal: terminal.type("\x04"), 0),
        (lambda terminal: terminal.type("\x03\x03"), 130),
        (end_with_a_signal(signal.SIGTERM), 143),
        (lambda terminal: terminal.type("/boom\r"), 1),
    ],
    ids=["Ctrl-D", "Ctrl-C", "SIGTERM", "an error"],
)
def test_the_terminal_is_left_as_it_was_found(desk: Any, way: Any, code: int) -> None:
    boom = desk.home.parent / "boom.py"
    boom.write_text(
        "from dsh import hookimpl\n\nasync def boom(agent, text):\n    raise SystemError('boom')\n\n"
        "async def die(agent, text):\n    raise BaseException('boom')\n\n"
        "@hookimpl\ndef dsh_add_commands(commands):\n    commands.add_slash('boom', 'x', die)\n"
    )
    terminal = desk.open(SLEEP, "-e", str(boom), wrap=desk.keeps_modes)
    before = terminal.before()
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 30")
    assert terminal.termios() != before
    way(terminal)
    assert terminal.wait() == code
    assert terminal.after() == before
    assert balanced(desk)
    assert not (desk.work / "late").exists()


def test_a_question_is_taken_back_by_ctrl_c(desk: Any) -> None:
    """Cancelling during an approval; the conversation goes on, what was typed before is there, the mode is the same."""
    terminal = desk.open(f"{ASKS}, {ASKS}", mode="default")
    terminal.type("write it\r")
    terminal.wait_asked()
    terminal.type("\x03")
    terminal.wait_for("(aborted")
    terminal.settle()
    terminal.type("go on\r")
    terminal.wait_for("Something else, then.")
    assert not (desk.work / "a.txt").exists()
    terminal.type("again\r")  # row X04: the mode is what it was, so it asks again
    terminal.wait_asked()
    terminal.type("n")
    terminal.wait_for("refused", words=True)
    terminal.wait_for("tokens · default")
    assert balanced(desk)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_while_somebody_is_asked(desk: Any, number: int) -> None:
    terminal = desk.open(ASKS, mode="default", wrap=desk.keeps_modes)
    before = terminal.before()
    terminal.type("write it\r")
    terminal.wait_asked()
    os.kill(terminal.pid, number)
    assert terminal.wait() == {signal.SIGTERM: 143, signal.SIGHUP: 129}[signal.Signals(number)]
    assert terminal.after() == before
    assert balanced(desk)
    assert not (desk.work / "a.txt").exists()


def test_two_questions_at_once_and_one_of_a_child(desk: Any) -> None:
    """They come one after another, each with its own call."""
    terminal = desk.open(
        'call("subagent", {"description": "d", "prompt": "write b"}, id="t1"), '
        'call("write", {"file_path": "b.txt", "content": "b\\n"}, id="w1"), text("The child has it."), '
        'reply(calls=[("x1", "bash", {"command": "touch one"}), ("x2", "bash", {"command": "touch two"})]), '
        'text("All done.")',
        mode="default",
    )
    terminal.type("begin\r")
    terminal.wait_asked()
    terminal.kept("question-of-a-child")
    terminal.type("y")
    terminal.wait_asked()
    assert "touch one" in terminal.shown()
    terminal.type("y")
    terminal.wait_asked()
    assert "touch two" in terminal.shown()
    terminal.type("n")
    terminal.wait_for("All done.")
    assert (desk.work / "b.txt").exists()
    assert (desk.work / "one").exists()
    assert not (desk.work / "two").exists()


def test_ctrl_z_gives_the_shell_and_fg_comes_back(desk: Any) -> None:
    """In a shell with jobs, as people run it."""
    words = " ".join(f"'{word}'" for word in desk.command('text("Here again.")'))
    terminal = desk.shell()
    terminal.type(f"{words}\r")
    terminal.wait_for("lists commands", words=True)
    terminal.settle()
    terminal.type("half a thou")
    terminal.wait_for("half a thou")
    terminal.type("\x1a")
    terminal.wait_for("Stopped")
    terminal.type("echo in the $((40+2)) shell\r")
    terminal.wait_for("in the 42 shell")
    terminal.type("fg\r")
    terminal.settle()
    terminal.type("ght\r")
    terminal.wait_for("Here again.")
    (prompt,) = (event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message")
    assert prompt == "half a thought"
    terminal.type("\x04")
    terminal.wait_for("goes on with it", words=True)
    terminal.type("exit\r")
    terminal.wait()


def test_ctrl_z_without_a_shell_does_nothing(desk: Any) -> None:
    """Nobody could wake it up again."""
    terminal = desk.open('text("Still here.")')
    terminal.type("\x1ago\r")
    terminal.wait_for("Still here.")


def test_the_terminal_goes_away_while_it_writes(desk: Any) -> None:
    """The window is closed in the middle of a flood; the log is closed, and nothing hangs."""
    words = "\\n\\n".join(f"Paragraph {n} with some words." for n in range(800))
    terminal = desk.open(f'text("{words}")')
    terminal.type("go\r")
    terminal.wait_for("Paragraph 3 ")
    os.close(terminal.master)
    terminal.master = os.open(os.devnull, os.O_RDWR)
    until = time.monotonic() + 30
    while not terminal.ended():
        assert time.monotonic() < until, "it does not end"
        time.sleep(0.05)
    assert terminal.code in (0, 129)
    assert balanced(desk)


def test_a_program_that_is_killed_leaves_a_session_to_go_on_with(desk: Any) -> None:
    terminal = desk.open(SLEEP)
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 30")
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.wait()
    again = desk.open('text("I see what happened.")', "-c")
    again.type("go on\r")
    again.wait_for("I see what happened.")
    again.kept("after-sigkill")
    assert balanced(desk)
    assert not (desk.work / "late").exists()


def test_the_network_stalls_at_the_first_request(desk: Any) -> None:
    """Row X06: Ctrl-C always works."""
    terminal = desk.open('hang("stalled")')
    terminal.type("go\r")
    terminal.wait_for("stalled")
    terminal.type("\x03\x03")
    assert terminal.wait() == 130
    assert balanced(desk)


def test_five_calls_at_once_are_cancelled_at_once(desk: Any) -> None:
    """Row X03."""
    calls = ", ".join(f'("x{n}", "subagent", {{"description": "d{n}", "prompt": "p"}})' for n in range(3))
    terminal = desk.open(f'reply(calls=[{calls}]), *[hang("waiting")] * 3, text("Then this."), text("Then this.")')
    terminal.type("go\r")
    terminal.wait_for("3 agents")
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    results = [event for event in desk.events() if event["type"] == "tool/result"]
    assert len(results) == 3
    terminal.type("go on\r")
    terminal.wait_for("Then this.")


def test_a_disk_without_room_is_told_at_once(desk: Any) -> None:
    """Row D01: the person hears of it, and no way to go on is promised."""
    terminal = desk.open('text("word " * 4000), text("more")', wrap=FULL, PYTHONDONTWRITEBYTECODE="1")
    terminal.type("go\r")
    terminal.wait_for("File too large", words=True)
    terminal.type("\x04")
    terminal.wait()
    assert "goes on with it" not in " ".join(terminal.shown().split())
