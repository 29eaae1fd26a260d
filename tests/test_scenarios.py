"""Every acceptance scenario of the log format (the shared ``spec/core.md``, 17.1 to 17.10) has a test.

A test says in its docstring which it is: "A05.", or several.  How some of them differ here is told in
docs/loop.md.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SPEC = TESTS.parents[0] / "../shared/spec/core.md"
NUMBER = re.compile(r"\b[A-J]\d\d\b")
ELSEWHERE = {"test_bug_rows.py", "test_bug_rows_history.py", "test_bug_rows_logs.py", Path(__file__).name}
"""Files whose numbers are those of other lists."""


def wanted() -> list[str]:
    text = SPEC.read_text(encoding="utf-8")
    section = text[text.index("### 17.1 ") : text.index("### 17.11 ")]
    found = re.findall(r"^- ([A-J]\d\d) |\. ([A-J]\d\d) ", section, re.MULTILINE)
    return sorted({first or second for first, second in found})


def named() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        if path.name in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in NUMBER.findall(ast.get_docstring(node) or ""):
                    found.setdefault(number, []).append(f"{path.name}::{node.name}")
    return found


def test_every_scenario_has_a_test() -> None:
    if not SPEC.exists():
        pytest.skip("the specification is not here")
    scenarios = wanted()
    assert len(scenarios) > 90
    tested = named()
    assert [number for number in scenarios if number not in tested] == []
