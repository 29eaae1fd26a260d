"""Trust on the command line: left out without it, counting with it, asked about once at a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

PLUGIN = """
from pathlib import Path
from dsh import hookimpl

Path(__file__).with_name("ran").touch()

@hookimpl
def prompt_sections(sections):
    sections.add("mine", "The plugin of the folder speaks.")
"""


@pytest.fixture
def folder(stage: Any) -> Path:
    """A project with a plugin and its table, and a setting that needs trust."""
    dsh: Path = stage.work / ".dsh"
    (dsh / "plugins").mkdir(parents=True)
    (dsh / "config.toml").write_text('append_system_prompt = "Kept."\n[mine]\nx = 1\n[shell]\nshell = "/bin/sh"\n')
    (dsh / "plugins/mine.py").write_text(
        PLUGIN + "\n@hookimpl\ndef dsh_configure(harness):\n    harness.config.section('mine', dict)\n"
    )
    return dsh


@pytest.fixture
def served(stage: Any) -> Any:
    with stage.serving(stage.script({"text": "done", "repeat": True})):
        yield stage


def system(ran: Any) -> str:
    text: str = ran.requests[-1]["body"]["messages"][0]["content"]
    return text


def go(stage: Any, *words: str) -> Any:
    return stage.run("go", "--no-session", *words)


def was_run(folder: Path) -> bool:
    """Whether the plugin was; looking takes the trace away."""
    trace = folder / "plugins/ran"
    found = trace.exists()
    trace.unlink(missing_ok=True)
    return found


def test_without_trust_it_is_left_out_and_said_so(served: Any, folder: Path) -> None:
    ran = go(served)
    assert (ran.code, ran.out) == (0, "done\n")
    assert not was_run(folder)
    (line,) = [line for line in ran.err.splitlines() if "not trusted" in line]
    assert line.startswith(f"dsh: {served.work} is not trusted, so this was left out: ")
    assert ".dsh/config.toml: shell.shell; .dsh/plugins/mine.py" in line
    assert "dsh trust add" in line
    assert "Kept." in system(ran)
    assert "speaks" not in system(ran)


def test_the_flag_trusts_until_something_changes(served: Any, folder: Path) -> None:
    ran = go(served, "--trust", "--permission-mode", "bypass")
    assert ran.code == 0
    assert was_run(folder)
    assert "The plugin of the folder speaks." in system(ran)
    assert "not trusted" not in ran.err
    assert not list(folder.rglob("__pycache__"))

    assert go(served).code == 0
    assert was_run(folder)

    with (folder / "plugins/mine.py").open("a") as file:
        file.write("# changed\n")
    ran = go(served)
    assert ran.code == 0
    assert not was_run(folder)
    assert "not trusted" in ran.err


def test_safe_mode_and_no_plugin_leave_it_out_all_the_same(served: Any, folder: Path) -> None:
    assert go(served, "--trust", "--safe-mode").code == 0
    assert not was_run(folder)
    ran = go(served, "--no-plugin", "mine", "--config", "mine.x=2")
    assert (ran.code, was_run(folder)) == (0, False), ran.err


def test_a_plugin_that_fails_is_named_and_skipped(served: Any, folder: Path) -> None:
    (folder / "plugins/mine.py").write_text("import nowhere_to_be_found\n")
    (folder / "plugins/worse.py").write_text("def broken(:\n")
    ran = go(served, "--trust")
    assert (ran.code, ran.out) == (0, "done\n")
    assert "the plugin mine is skipped: .dsh/plugins/mine.py: cannot be imported: ModuleNotFoundError" in ran.err
    assert "the plugin worse is skipped: .dsh/plugins/worse.py: cannot be imported: line 1" in ran.err
    ran = go(served, "--trust", "--config", 'plugins.required=["worse"]')
    assert ran.code == 2
    assert ".dsh/plugins/worse.py: cannot be imported: line 1" in ran.err


def test_a_folder_cannot_require_what_is_left_out_of_it(served: Any, folder: Path) -> None:
    (folder / "config.toml").write_text('[plugins]\nrequired = ["mine"]\n')
    assert go(served).code == 0
    ran = go(served, "--config", 'plugins.required=["mine"]')  # but the person can
    assert ran.code == 2
    assert "required plugin 'mine'" in ran.err


def trust(stage: Any, *words: str) -> Any:
    return stage.end(stage.start("trust", *words))


def test_the_command_shows_adds_lists_and_removes(served: Any, folder: Path) -> None:
    shown = trust(served).out
    assert f"{served.work}: not trusted\n" in shown
    assert "  .dsh/plugins/mine.py\n" in shown
    assert trust(served, "list").out == ""
    assert f"trusted as it is now: {served.work}" in trust(served, "add").out
    assert f"{served.work}: trusted\n" in trust(served).out
    (entry,) = json.loads(trust(served, "list", "--json").out)
    assert (entry["folder"], entry["trusted"]) == (str(served.work), True)
    below = folder / "plugins"
    assert json.loads(trust(served, "show", str(below), "--json").out)["trusted"]
    assert go(served).code == 0
    assert was_run(folder)
    assert trust(served, "remove").code == 0
    assert go(served).code == 0
    assert not was_run(folder)
    assert trust(served, "remove").code == 2


def test_what_cannot_be_trusted_is_said_and_left_out(served: Any, folder: Path) -> None:
    (folder / "plugins/zero.py").symlink_to("/dev/zero")
    ran = go(served)
    assert (ran.code, was_run(folder)) == (0, False)
    assert "zero.py is no regular file" in ran.err
    assert go(served, "--trust").code == 2
    assert trust(served, "add").code == 2
    assert "it cannot be trusted before that is mended" in trust(served).out


@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False)])
def test_a_person_is_asked_once(served: Any, folder: Path, answer: str, runs: bool) -> None:
    with served.screen("go") as screen:
        asked = screen.until("Trust this folder as it is now? [y/N] ")
        assert f"The folder {served.work} brings things that run code" in asked
        assert ".dsh/config.toml: shell.shell\n" in asked
        assert ".dsh/plugins/mine.py\n" in asked
        assert not was_run(folder)
        screen.type(f"{answer}\n")
        assert screen.end() == (0, "done\n")
    assert was_run(folder) == runs
    with served.screen("go") as screen:
        assert screen.end() == (0, "done\n")
        assert "Trust this folder" not in screen.shown
        assert ("is not trusted" in screen.shown) == (not runs)
    assert was_run(folder) == runs


def test_ctrl_c_is_no_answer(served: Any, folder: Path) -> None:
    with served.screen("go") as screen:
        screen.until("[y/N] ")
        screen.type("\x03")
        assert screen.end() == (130, "")
    assert not was_run(folder)
    assert "[]" in trust(served, "list", "--json").out


def test_names_of_files_cannot_paint_over_the_question(served: Any, folder: Path) -> None:
    (folder / "config.toml").write_text(
        '[providers."\\u001b[2K\\u202eevil"]\nbase_url = "http://x"\n[models."\\u001b[2K\\u202e"]\nprice = {}\n'
    )
    (folder / "plugins/mine.py").unlink()
    with served.screen("go") as screen:
        asked = screen.until("[y/N] ")
        assert "\x1b" not in asked
        assert "\u202e" not in asked
        assert "\\x1b[2K\\u202e" in asked
        screen.type("n\n")
        screen.end()
