"""Rows of the bug list about what may run: shell rules, links, broken plugins and keys, with the real command."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "../shared/bugs/scripts"
pytestmark = pytest.mark.skipif(not SCRIPTS.is_dir(), reason="needs ../shared/bugs")
KEY = "sk-test-0123456789"


@pytest.fixture
def row(stage: Any) -> Any:
    """Play a row's script under rules; paths are called file_path here."""
    stage.work.mkdir()
    (stage.work / "victim").touch()

    def play(name: str, *rules: str) -> Any:
        text = (SCRIPTS / f"{name}.json").read_text().replace('"path":', '"file_path":')
        script = stage.tmp / f"{name}.json"
        script.write_text(text)
        with stage.serving(script):
            return stage.run("go", "--json", *rules)

    return play


def denied(ran: Any) -> list[bool]:
    """Which calls were denied, each with whether somebody might have allowed it."""
    return [entry["unanswered"] for entry in json.loads(ran.out)["denied"]]


def test_m01_a_prefix_does_not_allow_a_second_command(row: Any, stage: Any) -> None:
    ran = row("M01", "--allowed-tools", "bash(echo *)")
    assert (ran.code, denied(ran)) == (3, [True])
    assert (stage.work / "victim").exists()


def test_m02_a_cd_opens_no_door(row: Any, stage: Any) -> None:
    ran = row("M02", "--allowed-tools", "bash(cd *)", "--config", 'permissions.ask=["bash(git push*)"]')
    assert (ran.code, denied(ran)) == (3, [True, True])
    assert not (stage.work / "victim2").exists()


def test_m03_nothing_follows_an_allowed_command_unasked(row: Any, stage: Any) -> None:
    ran = row("M03", "--allowed-tools", "bash(git log*)")
    assert (ran.code, denied(ran)) == (3, [True] * 4)
    assert not (stage.work / "v").exists()


def test_m04_a_denied_command_hides_nowhere(row: Any, stage: Any) -> None:
    ran = row("M04", "--allowed-tools", "bash(echo *)", "--disallowed-tools", "bash(rm *)")
    assert len(denied(ran)) == 4
    assert (stage.work / "victim").exists()


def test_m05_a_new_line_ends_a_command(row: Any, stage: Any) -> None:
    (stage.work / "build").mkdir()
    ran = row("M05", "--allowed-tools", "bash(gh pr view*)")
    assert (ran.code, denied(ran)) == (3, [True])
    assert (stage.work / "build").is_dir()


def test_m06_what_is_allowed_in_all_its_parts_is_not_asked_about(row: Any, stage: Any) -> None:
    for command in ("git init -q", "git config user.email a@b.c", "git config user.name a"):
        subprocess.run(command.split(), cwd=stage.work, check=True)
    (stage.work / "f").touch()
    ran = row("M06", "--allowed-tools", "bash(git add*),bash(git commit*)")
    assert (ran.code, denied(ran)) == (0, [])
    assert ran.data("permission/asked") == []


def test_f01_links_lead_nowhere_else(row: Any, stage: Any) -> None:
    (stage.work / "link").symlink_to("/etc")
    outside = stage.tmp / "outside"
    outside.mkdir()
    (stage.work / "link2").symlink_to(outside)
    ran = row("F01")
    assert ran.code == 3
    assert list(outside.iterdir()) == []
    assert denied(ran)[-1]


def test_f02_a_dangling_link_makes_no_file_outside(row: Any, stage: Any) -> None:
    outside = stage.tmp / "outside"
    outside.mkdir()
    (stage.work / "note.txt").symlink_to(outside / "new.txt")
    ran = row("F02")
    assert ran.code == 3
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("breaks", ["raise ImportError('gone')", "raise SystemExit(7)", None])
def test_g05_a_broken_plugin_is_named_and_skipped(stage: Any, breaks: str | None) -> None:
    site = stage.tmp / "site"
    info = site / "dsh_broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dsh-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh]\nbroken = dsh_broken_module\n")
    if breaks is not None:
        (site / "dsh_broken_module.py").write_text(breaks)
    stage.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    with stage.serving(stage.script({"text": "done"})):
        ran = stage.run("go")
    assert (ran.code, ran.out) == (0, "done\n")
    assert "the plugin broken of dsh-broken is skipped, it cannot be loaded: " in ran.err
    for words in (["--help"], ["plugins"], ["--version"]):
        assert stage.end(stage.start(*words)).code == 0


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n", " "])
def test_g06_a_key_with_an_end_of_line_is_shown_nowhere(stage: Any, end: str) -> None:
    stage.env["OPENAI_API_KEY"] = KEY + end
    with stage.serving(stage.script({"text": "done"})):
        ran = stage.run("go", "--json", "--debug")
    assert KEY not in ran.out + ran.err
    assert all(KEY not in path.read_text() for path in stage.home.rglob("*") if path.is_file())


def test_g07_a_providers_key_is_no_tools_to_see(row: Any, stage: Any) -> None:
    ran = row("G07", "--permission-mode", "bypass")
    assert ran.code == 0
    assert KEY not in json.dumps(ran.requests[-1]["body"])
    assert KEY not in stage.log.read_text()
    (result,) = ran.results
    assert "OPENAI_API_KEY" not in result
