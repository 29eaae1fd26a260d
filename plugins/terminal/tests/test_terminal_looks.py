"""What is easy to lose unseen: colours, the sign that turns, the bell, the line of status, a history of each folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dsh_terminal.entry import history_file
from dsh_terminal.feed import SPINNER, Feed
from dsh_terminal.paint import Look, Painter

from dsh.session.events import Event, StepStart, ToolCall
from dsh.tools.views import Diff

RED, GREEN, DIM = "\x1b[31m", "\x1b[32m", "\x1b[2m"


def test_changes_have_colours_and_thoughts_are_dim() -> None:
    painter = Painter(Look(colour=True))
    for drawn in (painter.diff(Diff("f", "one\n", "two\n")), painter.patch("@@ -1 +1 @@\n-one\n+two\n")):
        assert RED in next(line for line in drawn.split("\n") if "one" in line)
        assert GREEN in next(line for line in drawn.split("\n") if "two" in line)
    assert DIM in painter.reasoning("hm")
    assert DIM in painter.notice("a word")
    assert RED in painter.trouble("no")
    plain = Painter(Look(colour=False))
    assert "\x1b" not in plain.diff(Diff("f", "one\n", "two\n")) + plain.reasoning("hm") + plain.trouble("no")


def test_a_turn_that_took_long_rings_and_notifies(desk: Any) -> None:
    terminal = desk.open('text("All of it.")', "--config", "terminal.bell=0.001", "--config", "terminal.notify=true")
    terminal.type("go\r")
    terminal.wait_for("All of it.")
    terminal.settle()
    assert b"\x1b]9;dsh is done in work\x1b\\\a" in terminal.raw


def test_nothing_rings_unasked(desk: Any) -> None:
    terminal = desk.open('text("All of it.")')
    terminal.type("go\r")
    terminal.wait_for("All of it.")
    terminal.settle()
    assert b"\a" not in terminal.raw


def test_the_status_tells_cost_and_share_of_the_window(scripted: Any, desk: Any) -> None:
    desk.home.mkdir(exist_ok=True)
    facts = '[models."scripted/model"]\ncontext_window = 100\nprice = { input = 1000.0, output = 2000.0 }\n'
    (desk.home / "config.toml").write_text(facts)
    screen = scripted('reply("Fine.", usage=TokenUsage(12, 2))', "go")
    assert "14 of 100 (14 %)" in screen.statuses[-1]
    assert "$0.02" in screen.statuses[-1]


def test_the_sign_of_a_call_turns(desk: Any) -> None:
    terminal = desk.open('call("bash", {"command": "sleep 30"})')
    terminal.type("go\r")
    terminal.wait_for("sleep 30  1 s")
    terminal.wait_for("sleep 30  2 s")
    drawn = terminal.raw.decode(errors="replace")
    assert len([sign for sign in SPINNER if sign in drawn]) > 2
    terminal.type("\x1b")
    terminal.wait_for("(aborted")


def test_plain_mode_says_that_something_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call, and a model that has not begun to answer; once for each so many seconds."""
    said: list[str] = []
    screen: Any = SimpleNamespace(show=said.append, live=lambda parts: None)
    feed = Feed(screen, Painter(Look(colour=False, plain=True)), session_id="s")
    session: Any = SimpleNamespace(id="s")
    feed.event(session, Event(0, 0, StepStart(1, 1)), None)
    feed.event(session, Event(1, 0, ToolCall(1, 1, "c", "bash", '{"command": "sleep 30"}')), None)
    feed.tick()
    assert said == []
    monkeypatch.setattr("dsh_terminal.feed.PATIENCE", 0.0)
    feed.tick()
    assert said == ["still waiting for the model\n", "still runs: bash sleep 30\n"]


def test_each_folder_has_a_history_of_its_own(desk: Any, tmp_path: Path) -> None:
    assert history_file(tmp_path, "/a") == history_file(tmp_path, "/a") != history_file(tmp_path, "/b")
    first = desk.open('text("Here.")')
    first.type("what I said here\r")
    first.wait_for("Here.")
    first.type("\x04")
    first.wait()
    desk.work = desk.work.parent / "elsewhere"
    desk.work.mkdir()
    other = desk.open('text("Never.")')
    other.type("\x1b[A")
    other.settle(0.5)
    assert "what I said here" not in other.shown()
