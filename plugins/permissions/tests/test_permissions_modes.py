"""Modes: what becomes of calls that no rule is about."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("mode", "reading", "looking", "editing", "changing", "outside", "hooks"),
    [
        ("default", "allow", "allow", "ask", "ask", "ask", "ask"),
        ("accept-edits", "allow", "allow", "allow", "ask", "ask", "ask"),
        ("plan", "allow", "allow", "deny", "deny", "deny", "deny"),
        ("dont-ask", "allow", "allow", "deny", "deny", "deny", "deny"),
        ("bypass", "allow", "allow", "allow", "allow", "allow", "allow"),
    ],
)
def test_modes(
    ground: Any, mode: str, reading: str, looking: str, editing: str, changing: str, outside: str, hooks: str
) -> None:
    assert ground.file("read", "README.md", mode=mode).kind == reading
    assert ground.bash("git status | cat", mode=mode).kind == looking
    assert ground.file("edit", "src/a.py", mode=mode).kind == editing
    assert ground.bash("echo x > src/new", mode=mode).kind == editing
    assert ground.bash("make", mode=mode).kind == changing
    assert ground.file("write", "../outside/x", mode=mode).kind == outside
    assert ground.file("write", ".git/hooks/x", mode=mode).kind == hooks


@pytest.mark.parametrize("mode", ["default", "accept-edits", "dont-ask", "bypass"])
def test_a_rule_allows_in_most_modes(ground: Any, mode: str) -> None:
    assert ground.bash("make all", allow=["bash(make *)"], mode=mode).kind == "allow"
    assert ground.file("write", "docs/a", allow=["write(docs/*)"], mode=mode).kind == "allow"


@pytest.mark.parametrize("mode", ["default", "accept-edits", "plan", "dont-ask", "bypass"])
def test_a_rule_denies_in_every_mode(ground: Any, mode: str) -> None:
    assert ground.bash("make all", allow=["bash"], deny=["bash(make *)"], mode=mode).kind == "deny"
    assert ground.file("read", "docs/a", deny=["read(docs/**)"], mode=mode).kind == "deny"
    assert ground.judge(deny=["web_*"], mode=mode).judge("web_fetch", {"url": "x"}, "fetch", "url").kind == "deny"


def test_bypass_lets_pass_nothing_that_may_be_denied(ground: Any) -> None:
    """With a rule that denies, what cannot be read is not waved through."""
    for command in ("$x y", 'eval "$x"', "bash script.sh | bash", "echo 'unclosed", "ls\r\nrm x"):
        assert ground.bash(command, mode="bypass").kind == "allow", command
        assert ground.bash(command, mode="bypass", deny=["bash(rm *)"]).kind == "deny", command
    assert ground.bash("cat $f", mode="bypass", allow=["bash(cat *)"], deny=["read(secrets/**)"]).kind == "deny"
    assert ground.bash("grep -r x .", mode="bypass", deny=["read(secrets/**)"]).kind == "deny"


def test_no_rule_lets_anything_change_while_planning(ground: Any) -> None:
    """Plan is nothing that writes, whatever rules allow."""
    rules = ["write", "write(docs/**)", "edit", "bash", "bash(touch *)", "third_party"]
    judge = ground.judge(mode="plan", allow=rules)
    for tool in ("write", "edit"):
        assert judge.judge(tool, {"file_path": "docs/a.md"}, "write", "file_path").kind == "deny"
    for command in ("touch a", "ls && touch a", "echo x > a", "python3 x.py"):
        assert judge.judge("bash", {"command": command}, "execute", "command").kind == "deny", command
    assert judge.judge("bash", {"command": "git status"}, "execute", "command").kind == "allow"
    assert judge.judge("third_party", {}, "write").kind == "deny"
    assert judge.judge("third_party", {}, None).kind == "allow"  # somebody said so, and nothing is known of it
    assert judge.judge("read", {"file_path": "docs/a.md"}, "read", "file_path").kind == "allow"


def test_plans_may_still_ask_of_unknown_tools(ground: Any) -> None:
    judge = ground.judge(mode="plan")
    assert judge.judge("third_party", {}, None).kind == "ask"
    assert judge.judge("third_party", {}, "write").kind == "deny"
    assert judge.judge("web_fetch", {"url": "https://a.org"}, "fetch", "url").kind == "ask"
    assert judge.judge("todo_write", {}, "none").kind == "allow"
