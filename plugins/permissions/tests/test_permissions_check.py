"""``dsh permissions``, as the whole command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from dsh.cli import main


@frozen
class Ran:
    returncode: int
    stdout: str
    stderr: str


Dsh = Callable[..., Ran]


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Dsh:
    work, home = tmp_path / "work", tmp_path / "home"
    (work / ".dsh").mkdir(parents=True)
    home.mkdir()
    (home / "config.toml").write_text(
        '[permissions]\nallow = ["bash(make *)"]\ndeny = ["bash(rm *)", "read(secret/**)"]\n'
    )
    monkeypatch.setenv("DSH_HOME", str(home))
    monkeypatch.chdir(work)

    def run(*arguments: str) -> Ran:
        code = main(arguments)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


def checked(dsh: Dsh, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    ran = dsh("permissions", "check", "--json", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_a_verdict_as_json(dsh: Dsh, tmp_path: Path) -> None:
    found = checked(dsh, tmp_path, "bash(make all && rm x | git push)")
    assert found["verdict"] == "deny"
    assert found["rule"] == "bash(rm *)"
    assert found["source"] == str(tmp_path / "home/config.toml")
    assert "denies rm x" in found["reason"]
    assert [(part["verdict"], part["what"], part["text"], part["rule"]) for part in found["parts"]] == [
        ("allow", "command", "make all", "bash(make *)"),
        ("deny", "command", "rm x", "bash(rm *)"),
        ("ask", "command", "git push", None),
    ]


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        ("bash(ls)", "allow"),
        ("bash(python x.py)", "ask"),
        ("read(a.py)", "allow"),
        ("read(secret/x)", "deny"),
        ("read(.env)", "ask"),
        ("write(a.py)", "ask"),
        ("edit(.git/config)", "ask"),
        ("web_fetch(https://example.org)", "ask"),
        ("mcp__x__y", "ask"),
        ("bash(echo ')' && rm x)", "deny"),
    ],
)
def test_verdicts(dsh: Dsh, tmp_path: Path, call: str, verdict: str) -> None:
    assert checked(dsh, tmp_path, call)["verdict"] == verdict


def test_flags_are_rules_too(dsh: Dsh, tmp_path: Path) -> None:
    found = checked(dsh, tmp_path, "bash(git push)", "--allowed-tools", "read,bash(git *)")
    assert (found["verdict"], found["rule"], found["source"]) == ("allow", "bash(git *)", "--allowed-tools")
    assert checked(dsh, tmp_path, "bash(ls)", "--disallowed-tools", "bash(ls *)")["verdict"] == "deny"
    assert checked(dsh, tmp_path, "write(a)", "--permission-mode", "accept-edits")["verdict"] == "allow"
    assert checked(dsh, tmp_path, "read(../home2/x)", "--add-dir", str(tmp_path / "home2"))["verdict"] == "allow"


def test_a_verdict_for_people(dsh: Dsh) -> None:
    ran = dsh("permissions", "check", "bash(ls && git commit -m x)")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[0] == "ask: bash(ls && git commit -m x)"
    assert "to allow it: bash(git commit *)" in ran.stdout


def test_the_rules_with_their_files(dsh: Dsh, tmp_path: Path) -> None:
    (tmp_path / "work/.dsh/config.toml").write_text('[permissions]\nallow = ["bash"]\nask = ["edit"]\n')
    ran = dsh("permissions", "list")
    assert ran.returncode == 0
    assert ran.stdout.splitlines()[:5] == [
        "mode default (built-in)",
        f"deny  bash(rm *)  ({tmp_path}/home/config.toml)",
        f"deny  read(secret/**)  ({tmp_path}/home/config.toml)",
        "ask   edit  (.dsh/config.toml)",
        f"allow bash(make *)  ({tmp_path}/home/config.toml)",
    ]
    assert ".dsh/config.toml: permissions.allow" in ran.stderr
    found = json.loads(dsh("permissions", "list", "--json").stdout)
    assert [rule["rule"] for rule in found["rules"]] == ["bash(make *)", "bash(rm *)", "read(secret/**)", "edit"]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('allow = ["bash(a && b)"]', "config.toml: permissions.allow: 'bash(a && b)': matches nothing"),
        ('deny = "bash"', "permissions.deny"),
        ("allow = [1]", "permissions.allow"),
        ('mode = "auto"', "permissions.mode"),
        ('allows = ["bash"]', "allows"),
    ],
)
def test_wrong_settings_end_with_2(dsh: Dsh, tmp_path: Path, toml: str, words: str) -> None:
    (tmp_path / "home/config.toml").write_text(f"[permissions]\n{toml}\n")
    ran = dsh("permissions", "check", "bash(ls)")
    assert ran.returncode == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [["check"], ["check", "bash(ls"], ["list", "bash(ls)"], ["chekc", "bash"]])
def test_wrong_lines_end_with_2(dsh: Dsh, words: list[str]) -> None:
    ran = dsh("permissions", *words)
    assert ran.returncode == 2
    assert ran.stderr.startswith("dsh: ")


def test_a_tool_that_there_is_not_is_said(dsh: Dsh) -> None:
    ran = dsh("permissions", "check", "nosuch(x)", "rea(x)", "todo_write")
    assert "  there is no tool nosuch\n" in ran.stdout
    assert "  there is no tool rea, did you mean read?\n" in ran.stdout
    assert "there is no tool todo_write" not in ran.stdout
    assert "to allow it: nosuch" not in ran.stdout
