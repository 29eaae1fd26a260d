"""Approval at a terminal: the real command, a real pseudo-terminal, every answer."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pyte
import pytest

TOUCH = {"calls": [["@shell", {"command": "touch made"}]]}
AGAIN = {"calls": [["@shell", {"command": "touch made again"}]]}
DONE = {"text": "done"}


@pytest.fixture
def asking(stage: Any) -> Any:
    """A stage whose `screen` plays the replies."""
    (stage.work / ".git").mkdir(parents=True)  # or whatever lies around above it would be the project

    class Asking:
        work: Path = stage.work
        home: Path = stage.home

        def play(self, *replies: dict[str, Any], flags: tuple[str, ...] = ()) -> Any:
            from contextlib import contextmanager

            @contextmanager
            def playing() -> Any:
                with stage.serving(stage.script(*replies)), stage.screen("go", *flags) as screen:
                    yield screen

            return playing()

        def results(self) -> list[str]:
            return [
                "".join(block["text"] for block in event["data"]["content"])
                for event in stage.events()
                if event["type"] == "tool/result"
            ]

        def data(self, kind: str) -> list[dict[str, Any]]:
            return [event["data"] for event in stage.events() if event["type"] == kind]

        def made(self, name: str = "made") -> bool:
            return (self.work / name).exists()

    return Asking()


def test_yes_is_for_this_once(asking: Any) -> None:
    with asking.play(TOUCH, AGAIN, DONE) as screen:
        asked = screen.until("e] ")
        assert "dsh: bash needs your approval\n  | touch made\n" in asked
        assert "  why: " in asked
        assert not asking.made()
        screen.type("y")
        asked = screen.until("e] ")
        assert "  | touch made again\n" in asked
        assert asking.made()
        screen.type("n")
        assert screen.end() == (0, "done\n")
        assert screen.mode == screen.before
    assert not asking.made("again")
    assert asking.results()[1] == "Error: refused by a person"
    asked, decided = asking.data("permission/asked"), asking.data("permission/decided")
    assert [entry["id"] for entry in asked] == [entry["id"] for entry in decided]
    assert [(entry["outcome"], entry.get("scope"), entry["by"]) for entry in decided] == [
        ("allowed", "once", "person"),
        ("refused", None, "person"),
    ]
    assert [entry["callId"] for entry in asked] == [entry["callId"] for entry in asking.data("tool/call")]


def test_always_is_for_this_session_and_outlives_the_process(asking: Any) -> None:
    with asking.play(TOUCH, AGAIN, DONE) as screen:
        asked = screen.until("e] ")
        assert "a  yes, and always in this session: bash(touch *)" in asked
        screen.type("a")
        assert screen.end() == (0, "done\n")
        assert screen.shown.count("needs your approval") == 1
    assert asking.made("again")
    (granted,) = asking.data("permission/granted")
    assert granted["rules"] == ["bash(touch *)"]

    with asking.play({"calls": [["@shell", {"command": "touch third"}]]}, DONE, flags=("-c",)) as screen:
        assert screen.end() == (0, "done\n")
        assert "needs your approval" not in screen.shown
    assert asking.made("third")

    with asking.play({"calls": [["@shell", {"command": "touch fourth"}]]}, DONE, flags=("-c", "--fork")) as screen:
        screen.until("needs your approval")  # another session
        screen.until("e] ")
        screen.type("n")
        screen.end()
    assert not asking.made("fourth")


def test_always_for_the_project_is_shown_confirmed_and_written(asking: Any) -> None:
    local = asking.work / ".dsh/config.local.toml"
    local.parent.mkdir()
    local.write_text('# mine\n[permissions]\nallow = [\n    "bash(make)",  # often\n]\n')
    with asking.play(DONE, flags=("--trust",)) as screen:
        assert screen.end() == (0, "done\n")
    with asking.play(TOUCH, AGAIN, DONE, flags=("-c",)) as screen:
        screen.resize(200)
        screen.until("[y/a/p/n/e] ")
        screen.type("p")
        shown = screen.until("write that? [y/n] ")
        assert f"  {local} will allow, from now on:\n    bash(touch *)\n" in shown
        screen.type("n")
        screen.until("[y/a/p/n/e] ")
        assert "touch" not in local.read_text()
        screen.type("p")
        screen.until("write that? [y/n] ")
        screen.type("y")
        assert screen.end() == (0, "done\n")
        assert screen.shown.count("needs your approval") == 1
    assert (
        local.read_text() == '# mine\n[permissions]\nallow = [\n    "bash(make)",  # often\n    "bash(touch *)",\n]\n'
    )
    (decided,) = asking.data("permission/decided")
    assert (decided["scope"], decided["rules"]) == ("project", ["bash(touch *)"])

    with asking.play({"calls": [["@shell", {"command": "touch new"}]]}, DONE, flags=("--no-session",)) as screen:
        assert screen.end() == (0, "done\n")  # the folder is trusted as it is now
        assert "needs your approval" not in screen.shown
        assert "not trusted" not in screen.shown
    assert asking.made("new")


def test_a_folder_without_settings_gets_a_file(asking: Any) -> None:
    with asking.play(TOUCH, DONE) as screen:
        screen.until("[y/a/p/n/e] ")
        screen.type("p")
        screen.until("write that? [y/n] ")
        screen.type("y")
        assert screen.end() == (0, "done\n")
    written = tomllib.loads((asking.work / ".dsh/config.local.toml").read_text())
    assert written == {"permissions": {"allow": ["bash(touch *)"]}}
    with asking.play(AGAIN, DONE, flags=("--no-session",)) as screen:
        assert screen.end() == (0, "done\n")
    assert asking.made("again")


def test_a_folder_that_is_not_trusted_gets_no_rule(asking: Any) -> None:
    (asking.work / ".dsh").mkdir()
    (asking.work / ".dsh/config.toml").write_text('[shell]\nshell = "/bin/sh"\n')
    with asking.play(TOUCH, DONE) as screen:
        screen.until("Trust this folder as it is now? [y/N] ")
        screen.type("n\n")
        screen.until("[y/a/p/n/e] ")
        screen.type("p")
        screen.until("that cannot be: this folder is not trusted")
        screen.until("[y/a/p/n/e] ")
        screen.type("n")
        assert screen.end() == (0, "done\n")
    assert [path.name for path in (asking.work / ".dsh").iterdir()] == ["config.toml"]


def test_no_with_a_reason_reaches_the_model(asking: Any) -> None:
    with asking.play(TOUCH, DONE) as screen:
        screen.until("e] ")
        screen.type("e")
        screen.until("  reason: ")
        screen.type("not hère\x7f\x7fe, please\n")
        assert screen.end() == (0, "done\n")
        assert screen.mode == screen.before
    assert asking.results() == ["Error: refused by a person: not hèe, please"]
    assert not asking.made()


@pytest.mark.parametrize("keys", ["", "e", "p"])
def test_ctrl_c_takes_the_question_back_and_ends_the_turn(asking: Any, keys: str) -> None:
    with asking.play(TOUCH, DONE) as screen:
        screen.until("[y/a/p/n/e] ")
        if keys:
            screen.type(keys)
            screen.until("reason: " if keys == "e" else "[y/n] ")
        screen.type("\x03")
        code, out = screen.end()
        assert (code, out) == (130, "")
        assert screen.mode == screen.before
    assert not asking.made()
    (decided,) = asking.data("permission/decided")
    assert decided["outcome"] == "cancelled"
    (end,) = asking.data("turn/end")
    assert end["reason"]["kind"] == "aborted"


BLOCKING = """
import time, pathlib, trio
from dsh import hookimpl

async def block():
    while not pathlib.Path("block").exists():
        await trio.sleep(0.01)
    pathlib.Path("blocking").touch()
    time.sleep(300)

@hookimpl
def agent_created(agent):
    agent.start_soon(block)
"""


def test_the_terminal_is_left_as_it_was_even_when_a_plugin_blocks(asking: Any, stage: Any) -> None:
    stage.plugin("blocking", BLOCKING)
    with asking.play(TOUCH, DONE) as screen:
        screen.until("[y/a/p/n/e] ")
        assert screen.mode != screen.before
        (asking.work / "block").touch()
        stage.until((asking.work / "blocking").exists, "the plugin to block")

        def pressed() -> bool:
            screen.type("\x03")  # until the second one has arrived
            return screen.started.poll() is not None

        stage.until(pressed, "the end")
        assert screen.end()[0] == 130
        assert screen.mode == screen.before
    assert not asking.made()


def test_other_keys_and_what_was_typed_ahead_are_no_answer(asking: Any) -> None:
    with asking.play({"calls": [["@shell", {"command": "touch made"}]]}, DONE) as screen:
        screen.until("e] ")
        for key in ("x", "\x1b[A", "?"):
            screen.type(key)
            screen.until("press one of y, a, p, n, e")
            screen.until("e] ")
        assert not asking.made()
        screen.type("\x04")  # the end of what is typed is a no
        assert screen.end() == (0, "done\n")
    assert not asking.made()


def test_a_command_cannot_paint_over_the_question(asking: Any) -> None:
    evil = "touch made \x1b[1A\x1b[2K\r\x07\u202e\u200b\x9b2J\ndsh: bash needs your approval\n  | ls\n  [y/a/p/n/e] "
    with asking.play({"calls": [["@shell", {"command": evil}]]}, DONE) as screen:
        asked = screen.until("  n  no")
        assert not set("\x1b\x07\u202e\u200b\x9b") & set(asked)
        assert "  | touch made \\x1b[1A\\x1b[2K\\r\\x07\\u202e\\u200b\\x9b2J\n" in asked
        assert "  | dsh: bash needs your approval\n" in asked
        screen.until("e] ")
        screen.type("n")
        screen.end()


def test_a_long_command_says_what_it_does_not_show_and_shows_it_when_asked(asking: Any) -> None:
    lines = [f"echo {number}" for number in range(100)]
    lines[50] = "touch made"
    with asking.play({"calls": [["@shell", {"command": "\n".join(lines)}]]}, DONE) as screen:
        asked = screen.until("[y/")
        assert "more lines: v shows them" in asked
        screen.until("e] ")
        screen.type("v")
        assert "  | echo 49\n  | touch made\n  | echo 51\n" in screen.until("[y/")
        screen.until("e] ")
        screen.type("n")
        screen.end()


COLOURED = "  | \x1b[31m- two\x1b[0m\n  | \x1b[32m+ 2\x1b[0m\n"


@pytest.mark.parametrize(
    ("environ", "change"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, COLOURED),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "  | - two\n  | + 2\n"),
        ({"TERM": "dumb", "NO_COLOR": ""}, "  | - two\n  | + 2\n"),
    ],
    ids=["colours", "NO_COLOR", "dumb"],
)
def test_an_edit_is_shown_as_what_it_changes(asking: Any, stage: Any, environ: dict[str, str], change: str) -> None:
    outside = asking.work.parent / "outside.txt"
    outside.write_text("one\ntwo\nthree\n")
    edit = {"file_path": str(outside), "old_string": "one\ntwo", "new_string": "one\n2"}
    replies = ({"calls": [["@read", {"file_path": str(outside)}]]}, {"calls": [["@edit", edit]]}, DONE)
    stage.env.update(environ)
    with asking.play(*replies) as screen:
        screen.resize(200)
        screen.until("e] ")
        screen.type("y")
        asked = screen.until("  why: ")
        assert f"  | {outside}\n  |   one\n{change}" in asked
        screen.until("e] ")
        screen.type("y")
        assert screen.end() == (0, "done\n")
    assert outside.read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize("fill", [" ", "-"])
def test_a_command_cannot_forge_lines_of_the_question(asking: Any, columns: int, fill: str) -> None:
    """Padded so that a terminal that wraps it by itself would begin lines with what looks like dsh's own."""
    forged = ["  why: nothing: it only reads", "  y  yes, this once", "[y/a/p/n/e] "]
    command = "rm -rf sub # ".ljust(columns - 4, fill) + "".join(line.ljust(columns, fill) for line in forged)
    with asking.play({"calls": [["@shell", {"command": command}]]}, DONE) as screen:
        screen.resize(columns)
        asked = screen.until("  e  no, with a reason for the model\n[y/") + screen.until("e] ")
        screen.type("n")
        assert screen.end() == (0, "done\n")
    drawn = pyte.Screen(columns, 100)
    pyte.Stream(drawn).feed(asked.replace("\n", "\r\n"))
    rows = [row.rstrip() for row in drawn.display]
    first = rows.index("dsh: bash needs your approval") + 1
    (why,) = (at for at, row in enumerate(rows) if row.startswith("  why:"))
    own = ("  rule:", "  asks:", "  y  ", "  a  ", "  p  ", "  n  ", "  e  ", "[y/", " " * 8)
    assert "".join(row[:4] for row in rows[first:why]) == "  | " * (why - first)
    assert "rm -rf sub #" in rows[first]
    assert ("blanks]" in "".join(row[4:] for row in rows[first:why])) is (fill == " ")
    behind = [row for row in rows[why + 1 :] if row]
    assert [row for row in behind if not row.startswith(own)] == []
    assert [row[:5] for row in behind if row.startswith("  ") and row[2] in "yn"] == ["  y  ", "  n  "]
    assert not (asking.work / "sub").exists()


def test_questions_come_one_after_another(asking: Any) -> None:
    calls = [["@read", {"file_path": f"{asking.work.parent}/{name}"}] for name in "abc"]
    for name in "abc":
        (asking.work.parent / name).write_text(f"this is {name}")
    with asking.play({"calls": calls}, DONE) as screen:
        for key in "yny":
            asked = screen.until("[y/a/p/n/e] ")
            assert asked.count("needs your approval") == 1
            screen.type(key)
        assert screen.end() == (0, "done\n")
    assert ["this is" in result for result in asking.results()] == [True, False, True]


def test_without_a_terminal_on_stdin_or_stderr_nobody_is_asked(stage: Any) -> None:
    with stage.serving(stage.script(TOUCH, DONE)):
        ran = stage.run("go")
    assert (ran.code, ran.out) == (3, "done\n")
    assert "denied, since nobody was there to ask:\ndsh:   bash: touch made  (needs bash(touch *))" in ran.err
