"""Keys, proposals and lists on a real pseudo-terminal; looks of terminals that can do less."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import pytest

pytest.importorskip("pyte")

DOWN = "\x1b[B"


def prompts(desk: Any) -> list[str]:
    return [event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message"]


def test_a_session_is_chosen_from_a_list(desk: Any) -> None:
    """``-r`` without an ID, then /resume, then proposals: one terminal for all."""
    for said in ("the first one", "the second one"):
        terminal = desk.open('text("Yes.")', said)
        terminal.wait_for("Yes.")
        terminal.type("\x04")
        assert terminal.wait() == 0
    before = desk.events()
    terminal = desk.open('text("x")', "-r", ready="Go on with which session?")
    terminal.type("\x1b")
    assert terminal.wait() == 130
    assert desk.events() == before
    assert "Traceback" not in terminal.shown()
    terminal = desk.open('text("Here.")', "-r", ready="Go on with which session?")
    terminal.wait_for("the first one")
    terminal.kept("choose-session")
    terminal.type(DOWN + "\r")
    terminal.wait_for("1 turn so far", words=True)
    terminal.type("hello\r")
    terminal.wait_for("Here.")
    assert prompts(desk) == ["the first one", "hello"]
    terminal.type("/resume\r")
    terminal.wait_for("Go on with which session?")
    terminal.type("secon")
    terminal.wait_for("session? secon", words=True)
    terminal.type("\r")
    terminal.wait_for("goes on with the one before", words=True)
    terminal.type("/resume fir")
    terminal.wait_for("the first one")  # beside its id
    terminal.type("\x15\x04")
    assert terminal.wait() == 0


def test_proposals(desk: Any) -> None:
    (desk.work / "notes with blanks.txt").write_text("x")
    (desk.work / "src").mkdir()
    (desk.work / "src" / "main.py").write_text("x")
    terminal = desk.open('text("one"), text("two")', lines=30)
    terminal.type("/perm")
    terminal.wait_for("the rules, and the mode")
    terminal.kept("proposals")
    terminal.type("\t ac")
    terminal.wait_for("accept-edits")
    terminal.type("\x15look at @mai")
    terminal.wait_for("src/main.py")
    terminal.type("\t\r\r")  # takes it, then sends
    terminal.wait_for("one")
    assert prompts(desk)[0].startswith("look at @src/main.py")
    terminal.type("\x1b[A")
    terminal.wait_for("> look at @src/main.py", words=True)
    terminal.type(" again\r")
    terminal.wait_for("two")
    terminal.type("\x04")
    terminal.wait()
    again = desk.open('text("three")')  # what was entered is there in the next conversation of this folder
    again.type("\x1b[A\r")
    again.wait_for("three")
    assert prompts(desk) == ["look at @src/main.py again"]


def test_keys_of_vi(desk: Any) -> None:
    terminal = desk.open('text("Fine.")', "--config", "terminal.vi=true")
    terminal.type("hello wrold\x1bbcwworld\x1b")
    terminal.settle()
    terminal.type("A!\r")
    terminal.wait_for("Fine.")
    assert prompts(desk) == ["hello world!"]


def test_forty_columns(desk: Any) -> None:
    terminal = desk.open(
        'call("bash", {"command": "echo a rather long command that does not fit into one line"}), '
        'text("# A heading\\n\\nSome **words** that fill more than a line.\\n\\n- 你好你好你好你好你好你好你好你好你好'
        '\\n\\n| a | b |\\n|---|---|\\n| ⚠️ one | 🏳️‍🌈 two |\\n")',
        columns=40,
    )
    terminal.type("go\r")
    terminal.wait_for("two")
    terminal.kept("forty-columns")
    terminal.type("/help\r")
    terminal.wait_for("Ctrl-O")
    terminal.settle()
    assert terminal.lines()[-1].startswith("scripted/m")


def test_without_colours(desk: Any) -> None:
    terminal = desk.open('text("**bold** `code`\\n\\n```py\\nx = 1\\n```")', NO_COLOR="1")
    terminal.type("go\r")
    terminal.wait_for("x = 1")
    terminal.settle()
    assert "bold code" in terminal.shown()
    codes = b";".join(re.findall(rb"\x1b\[([0-9;]*)m", bytes(terminal.raw))).split(b";")
    assert not [code for code in codes if len(code) > 1 and code[:1] in b"349"]


@pytest.mark.parametrize("why", ["dumb", "plain"])
def test_lines_alone(desk: Any, why: str) -> None:
    """For dumb terminals and screen readers: nothing moves, and no sequence is written."""
    flags = ["--config", "terminal.plain=true"] if why == "plain" else []
    environ = {"TERM": "dumb"} if why == "dumb" else {}
    for said in ("first", "second"):
        done = desk.pipe('text("Yes.")', said + "\n")
        assert done.returncode == 0, done.stderr
    terminal = desk.open(
        'call("bash", {"command": "sleep 20"}), text("Then **this**."), text("And that.")',
        "-r",
        *flags,
        ready="Enter a number",
        **environ,
    )
    terminal.settle()
    terminal.type("7\r")
    terminal.wait_for("a number from 1 to 2")
    terminal.settle()
    terminal.type("2\r")
    terminal.wait_for("Yes.")
    terminal.settle()
    terminal.type("go\r")
    terminal.settle(0.8)
    terminal.type("\x03")
    terminal.wait_for("(aborted")
    terminal.settle()
    terminal.type("go on\r")
    terminal.wait_for("Then **this**.")
    terminal.settle()
    terminal.type("one \\\r")
    terminal.type("two\r")
    terminal.wait_for("And that.")
    terminal.settle()
    terminal.type("/exit\r")
    assert terminal.wait() == 0
    assert b"\x1b" not in terminal.raw
    assert prompts(desk) == ["first", "go", "go on", "one \ntwo"]
    if why == "plain":
        terminal.kept("plain")


def test_over_a_pipe(desk: Any) -> None:
    done = desk.pipe('text("One."), text("Two.")', "first\n/cost\nsecond\n!echo mine\n/nothing\n")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines.index("One.") < lines.index("Two.") < lines.index("  mine")
    assert "\x1b" not in done.stdout
    assert "there is no command /nothing" in done.stdout
    assert "dsh -r" in done.stderr
    assert prompts(desk) == ["first", "second"]


def test_what_follows_exit_in_a_pipe_is_not_done(desk: Any) -> None:
    done = desk.pipe('text("One."), text("Two.")', "first\n/exit\nsecond\n")
    assert done.returncode == 0
    assert "second" not in done.stdout
    assert prompts(desk) == ["first"]


def test_ctrl_c_takes_a_numbered_list_away(desk: Any) -> None:
    terminal = desk.open('text("Still here.")', TERM="dumb")
    terminal.type("/model\r")
    terminal.wait_for("Enter a number")
    terminal.settle()
    terminal.type("\x03")
    terminal.settle()
    terminal.type("go\r")
    terminal.wait_for("Still here.")
    assert prompts(desk) == ["go"]


def test_nobody_can_choose_over_a_pipe(desk: Any) -> None:
    desk.pipe('text("Yes.")', "said\n")
    done = desk.pipe('text("x")', "", "-r")
    assert done.returncode == 2
    assert "--resume needs an ID" in done.stderr


def test_what_somebody_pipes_into_is_closed(desk: Any) -> None:
    """Row D02: nobody reads the answers."""
    with open("/dev/full", "w") as full:
        done = desk.pipe('text("One.")', "first\n", out=full)
    assert "Traceback" not in done.stderr
    assert desk.kinds()[-1] == "turn/end"


def test_help_and_tasks_import_neither_of_the_two(desk: Any) -> None:
    code = (
        "import sys; from dsh.cli import main; main(sys.argv[1:]); "
        "print([m for m in sys.modules if m in ('rich', 'prompt_toolkit', 'pygments')])"
    )
    done = subprocess.run(
        [*desk.python(), "-c", code, *desk.flags('text("x")'), "-p", "go"],
        cwd=desk.work,
        env={**os.environ, **desk.environ()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]", done


def test_keys_pressed_behind_a_list_are_in_the_line(desk: Any) -> None:
    terminal = desk.open('text("Here.")')
    terminal.type("/model\r")
    terminal.wait_for("which one?")
    terminal.settle()
    terminal.type("\rhel")
    terminal.wait_for("> hel")
    terminal.settle()
    terminal.type("lo\r")
    terminal.wait_for("Here.")
    assert prompts(desk) == ["hello"]
