"""The line of input: what is typed and pasted into it, and that nothing of it is lost."""

from __future__ import annotations

import os
import signal
import time
import types
from pathlib import Path
from typing import Any

import pytest
from dsh_terminal.entry import Entry
from dsh_terminal.ports import is_paste
from dsh_terminal.unseen import Unseen
from prompt_toolkit.buffer import Buffer

pytest.importorskip("pyte")

SLEEP = 'call("bash", {"command": "sleep 30"}, id="c1")'
ASKS = 'call("write", {"file_path": "a.txt", "content": "hello\\n"}, id="w1"), text("It is written.")'
UP = "\x1b[A"


def prompts(desk: Any) -> list[str]:
    return [event["data"]["content"][0]["text"] for event in desk.events() if event["type"] == "user/message"]


def history(desk: Any) -> str:
    (path,) = desk.home.glob("history/*")
    kept: str = path.read_text()
    return kept


# -- what is not sent


@pytest.mark.parametrize("way", ["SIGHUP", "SIGTERM", "the window is closed"])
def test_a_draft_is_there_in_the_next_conversation(desk: Any, way: str) -> None:
    terminal = desk.open('text("x")')
    terminal.type("half a\x1b\rthought")
    terminal.wait_for("thought")
    if way.startswith("SIG"):
        os.kill(terminal.pid, getattr(signal, way))
        terminal.wait()
        assert "not sent: half a" in terminal.shown()
    else:
        os.close(terminal.master)
        terminal.master = os.open(os.devnull, os.O_RDWR)
        until = time.monotonic() + 30
        while not terminal.ended():
            assert time.monotonic() < until, "it does not end"
            time.sleep(0.05)
    again = desk.open('text("Now I have it.")')
    again.type(f"{UP}\r")
    again.wait_for("Now I have it.")
    assert prompts(desk) == ["half a\nthought"]


def test_leaving_in_a_turn_keeps_what_waited_and_what_was_typed(desk: Any) -> None:
    terminal = desk.open(f'{SLEEP}, text("x")')
    terminal.type("begin\r")
    terminal.wait_for("bash sleep 30")
    terminal.type("steers\r")
    terminal.wait_for("> steers")
    terminal.type("queues\t")
    terminal.wait_for("1 queued")
    terminal.type("half")
    terminal.wait_for("… half")
    terminal.type("\x03\x03")
    assert terminal.wait() == 130
    assert prompts(desk) == ["begin"]
    told = terminal.shown()
    assert told.index("not sent: steers") < told.index("dsh -r")
    for word in ("queues", "half"):
        assert word in told[told.index("not sent: steers") :]
    assert "+half\n" in history(desk)


def test_ctrl_c_empties_the_line_and_up_brings_it_back(desk: Any) -> None:
    terminal = desk.open('text("There.")')
    terminal.type("a long thought")
    terminal.wait_for("> a long thought")
    terminal.type("\x03")
    terminal.wait_for("again leaves")
    terminal.wait_for("> a long thought", gone=True)
    terminal.type(f"{UP}\r")
    terminal.wait_for("There.")
    assert prompts(desk) == ["a long thought"]


def test_the_history_keeps_no_secrets_and_nothing_behind_a_blank(desk: Any) -> None:
    key = "sk-" + "a1B2" * 10
    terminal = desk.open('text("One."), text("Two.")', "-e", str(secretive(desk)))
    terminal.type(f"use {key} and hush-hush-hush\r")
    terminal.wait_for("One.")
    terminal.type(" between us\r")
    terminal.wait_for("Two.")
    kept = history(desk)
    assert "use [secret" in kept
    for word in (key, "hush-hush-hush", "between us"):
        assert word not in kept
    assert prompts(desk)[1].strip() == "between us"


def secretive(desk: Any) -> Path:
    plugin: Path = desk.home.parent / "secretive.py"
    plugin.write_text(
        "from dsh import hookimpl\n\n"
        "@hookimpl\ndef secrets_register(secrets):\n    secrets.add('hush-hush-hush', 'HUSH')\n"
    )
    return plugin


def test_two_conversations_in_a_folder_keep_both_histories(desk: Any) -> None:
    first, second = desk.open('text("One.")'), desk.open('text("Two.")')
    for terminal, said, answer in ((first, "from the first", "One."), (second, "from\x1b\rthe second", "Two.")):
        terminal.type(f"{said}\r")
        terminal.wait_for(answer)
    assert "+from the first\n" in history(desk)
    assert "+from\n+the second\n" in history(desk)


# -- questions


def test_a_question_waits_for_who_is_typing(desk: Any) -> None:
    """A key that was meant for the line is no answer."""
    terminal = desk.open(ASKS, mode="default")
    terminal.type("write it\r")
    until = time.monotonic() + 30
    while "a question waits" not in terminal.shown():
        assert time.monotonic() < until, terminal.shown()
        terminal.type("y")
        terminal.read(0.05)
    assert "needs your approval" not in terminal.shown()
    assert not (desk.work / "a.txt").exists()
    terminal.wait_asked()
    assert not (desk.work / "a.txt").exists()
    terminal.type("y")
    terminal.wait_for("It is written.")
    terminal.wait_for("> y")  # what was typed is there again


# -- pastes


@pytest.mark.parametrize(
    ("data", "paste"),
    [
        ("a", False),
        ("go on\r", False),
        ("ls\rx", False),
        ("one\rtwo three\r", True),
        ("one\ntwo three", True),
        ("word " * 50, True),
        ("a" * 300 + "\x03", False),
        ("\x1b[A" * 100, False),
        ("\t\r\r", False),
    ],
)
def test_what_is_a_paste_without_marks(data: str, paste: bool) -> None:
    assert is_paste(data) == paste


def test_parts_of_an_unmarked_paste_are_one(tmp_path: Path) -> None:
    entry, buffer = Entry(tmp_path / "history"), Buffer()
    entry.use(buffer)
    buffer.insert_text("see ")
    whole = "".join(f"line {number}\r" for number in range(2000))
    for at in range(0, len(whole), 1000):
        entry.paste(whole[at : at + 1000])
    assert buffer.text == f"see [pasted 2001 lines, {len(whole)} signs #1]"
    assert entry.take() == "see " + whole.replace("\r", "\n")


def test_lines_pasted_without_marks_are_not_sent_one_by_one(desk: Any) -> None:
    terminal = desk.open('text("All three.")')
    terminal.type("line one\rline two\rline three\r")
    terminal.wait_for("  line three")
    assert not list(desk.home.glob("sessions/*/*.jsonl"))
    terminal.type("\r")
    terminal.wait_for("All three.")
    assert prompts(desk) == ["line one\nline two\nline three"]


def test_the_line_in_an_editor(desk: Any) -> None:
    """It comes back into the line, pasted texts and all, and is sent with Enter."""
    editor = desk.home.parent / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf " and more" >> "$1"\n')
    editor.chmod(0o755)
    terminal = desk.open('text("Edited."), text("Once more.")', EDITOR=str(editor))
    terminal.type("some words\x18\x05")
    terminal.wait_for("> some words and more")
    terminal.settle()
    assert not list(desk.home.glob("sessions/*/*.jsonl"))
    terminal.type("\r")
    terminal.wait_for("Edited.")
    terminal.type("\x1b[200~" + "line\n" * 20 + "\x1b[201~")
    terminal.wait_for("[pasted 21 lines")
    terminal.type("\x18\x05")
    terminal.wait_for("  and more")
    terminal.settle()
    terminal.type("\r")
    terminal.wait_for("Once more.")
    assert prompts(desk) == ["some words and more", "line\n" * 20 + " and more"]


def test_a_signal_ends_the_editor_and_keeps_the_line(desk: Any) -> None:
    editor = desk.home.parent / "editor.sh"
    editor.write_text("#!/bin/sh\necho IN THE EDITOR\nexec sleep 60\n")
    editor.chmod(0o755)
    terminal = desk.open('text("x")', EDITOR=str(editor), wrap=desk.keeps_modes)
    terminal.type("some words\x18\x05")
    terminal.wait_for("IN THE EDITOR")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait() == 143
    assert terminal.after() == terminal.before()
    assert "not sent: some words" in terminal.shown()


# -- what is shown of it


def test_signs_that_terminals_draw_differently(desk: Any) -> None:
    """They are shown as escapes, or not at all, and sent as they were typed; the cursor stands where it is."""
    text = "👨\u200d👩 \u202eabc ⚠\ufe0f"
    terminal = desk.open('text("Yes.")')
    terminal.type(f"\x1b[200~{text}\x1b[201~")
    terminal.wait_for("👨👩 \\u202eabc ⚠")
    terminal.type("!")
    terminal.wait_for("⚠!")
    assert b"\xe2\x80\xae" not in terminal.raw
    terminal.type("\r")
    terminal.wait_for("Yes.")
    assert prompts(desk) == [f"{text}!"]


def test_places_of_what_is_shown() -> None:
    line = types.SimpleNamespace(fragments=[("", "a\u200db\u202ec")])
    shown = Unseen().apply_transformation(line)  # type: ignore[arg-type]  # all that it looks at
    assert "".join(text for _, text, *_ in shown.fragments) == "ab\\u202ec"
    assert [shown.source_to_display(place) for place in range(6)] == [0, 1, 1, 2, 8, 9]
    assert [shown.display_to_source(place) for place in (0, 1, 2, 8, 9)] == [0, 1, 3, 4, 5]


def test_no_terminal_is_asked_where_its_cursor_is(desk: Any) -> None:
    """One that does not answer would be complained of, and late answers are read as keys."""
    terminal = desk.open('text("Fine.")')
    terminal.type("go\r")
    terminal.wait_for("Fine.")
    terminal.type("/model\r")
    terminal.wait_for("which one?")
    terminal.type("\x1b")
    terminal.wait_for("which one?", gone=True)
    terminal.settle()
    terminal.type("\x04")
    terminal.wait()
    assert b"\x1b[6n" not in terminal.raw
    assert b"scripted/m \xc2\xb7" in terminal.raw  # the line of status is there all the same
