"""A workspace with what tempts to leave it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from dsh_permissions.judge import Judge
from dsh_permissions.rules import RuleSet, parse_rule
from dsh_permissions.verdict import Kind, Mode, Verdict

from dsh.tools.tool import Effect


@frozen
class Ground:
    """A folder to work in, with another one beside it, and a home."""

    work: Path
    outside: Path
    home: Path

    def judge(
        self,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        mode: Mode = "default",
        add: Iterable[Path] = (),
    ) -> Judge:
        said: tuple[tuple[Kind, Iterable[str]], ...] = (("allow", allow), ("ask", ask), ("deny", deny))
        rules = [parse_rule(text, kind, "test") for kind, texts in said for text in texts]
        return Judge(RuleSet(rules), mode, self.work, tuple(add), self.home)

    def bash(self, command: str, **rules: Any) -> Verdict:
        """What becomes of a command."""
        return self.judge(**rules).judge("bash", {"command": command}, "execute", "command")

    def file(self, tool: str, path: str, **rules: Any) -> Verdict:
        """What becomes of reading, writing or editing a file."""
        effect: Effect = "read" if tool == "read" else "write"
        return self.judge(**rules).judge(tool, {"file_path": path}, effect, "file_path")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    work, outside, home = tmp_path / "work", tmp_path / "outside", tmp_path / "home"
    for name in ("src", "docs", "secrets", "build", "locked", "scripts", ".git/hooks"):
        (work / name).mkdir(parents=True)
    outside.mkdir()
    (home / ".ssh").mkdir(parents=True)
    for name in ("README.md", ".env", "src/a.py", "secrets/key.txt", "package.json"):
        (work / name).write_text("x")
    os.symlink("/etc", work / "link")
    os.symlink("../outside", work / "link2")
    os.symlink("../outside/new.txt", work / "note.txt")
    os.symlink("secrets", work / "sl")
    return Ground(work, outside, home)
