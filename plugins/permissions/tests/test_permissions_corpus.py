"""Command lines with their verdicts, as data: benign ones that must not ask, and ways around the rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CORPUS = json.loads((Path(__file__).parent / "data/corpus.json").read_text())
LINES = [(kind, line) for kind in ("allow", "ask", "deny") for line in CORPUS[kind]]


def test_the_corpus_is_large_and_says_nothing_twice() -> None:
    lines = [line for _, line in LINES]
    assert len(lines) >= 400
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize(("kind", "line"), LINES)
def test_a_line_of_the_corpus(ground: Any, kind: str, line: str) -> None:
    verdict = ground.bash(line, **CORPUS["rules"])
    assert verdict.kind == kind, verdict


@pytest.mark.parametrize("line", CORPUS["deny"])
def test_what_is_denied_is_denied_in_every_mode(ground: Any, line: str) -> None:
    for mode in ("accept-edits", "dont-ask", "plan", "bypass"):
        assert ground.bash(line, **CORPUS["rules"], mode=mode).kind == "deny"


@pytest.mark.parametrize("line", CORPUS["deny"])
def test_no_rule_allows_what_another_denies(ground: Any, line: str) -> None:
    deny = CORPUS["rules"]["deny"]
    for allow in (["bash"], ["bash(*)"], ["*"], ["bash(?* *)", "bash(*m*)", "bash(cu*)"]):
        assert ground.bash(line, allow=[*allow, "read(**)", "write(**)"], deny=deny).kind != "allow"


HARMLESS_WITHOUT_RULES = [
    *("ls -la", "cat README.md", "head -5 src/a.py", "grep -rn x src", "rg x", "find . -name '*.py'", "git status"),
    *("git log -3 | head", "git diff && git show HEAD", "pwd", "echo hi", "wc -l README.md", "sort README.md | uniq"),
    *("which python", "sed -n 1,5p README.md", "ls; pwd", "cd src && ls", "test -f x || echo no", "ls 2>/dev/null"),
]


@pytest.mark.parametrize("line", HARMLESS_WITHOUT_RULES)
def test_looking_around_needs_no_rules(ground: Any, line: str) -> None:
    for mode in ("default", "plan", "dont-ask"):
        assert ground.bash(line, mode=mode).kind == "allow"


@pytest.mark.parametrize("line", [line for line in CORPUS["ask"] if "git push" not in line and "publish" not in line])
def test_what_asks_is_asked_without_rules_too(ground: Any, line: str) -> None:
    """Rules only ever added to what may run."""
    assert ground.bash(line).kind == "ask"
    assert ground.bash(line, mode="dont-ask").kind == "deny"
