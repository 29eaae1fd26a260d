"""Every acceptance scenario of the shared ``spec/core.md``, 17.1 to 17.12, has a test, here or in a plugin's folder.

A test says in its docstring which it is: "A05.", or several; or its name begins with it, as ``test_l07_``.  How
some of them differ here is told in docs/loop.md.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SPEC = TESTS.parents[0] / "../shared/spec/core.md"
NUMBER = re.compile(r"\b[A-L]\d\d\b")
ELSEWHERE = re.compile(r"test_bug_rows\w*|test_scenarios|test_repeats_guard")
"""Files whose numbers are those of other lists."""


def wanted() -> list[str]:
    text = SPEC.read_text(encoding="utf-8")
    section = text[text.index("### 17.1 ") : text.index("## 18. ")]
    found = re.findall(r"^- ([A-L]\d\d) |\. ([A-L]\d\d) ", section, re.MULTILINE)
    return sorted({first or second for first, second in found})


def named() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted([*TESTS.glob("test_*.py"), *TESTS.parent.glob("plugins/*/tests/test_*.py")]):
        if ELSEWHERE.fullmatch(path.stem):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for number in NUMBER.findall(f"{node.name.split('_')[1].upper()} {ast.get_docstring(node) or ''}"):
                    found.setdefault(number, []).append(f"{path.name}::{node.name}")
    return found


def test_every_scenario_has_a_test() -> None:
    if not SPEC.exists():
        pytest.skip("the specification is not here")
    scenarios = wanted()
    assert len(scenarios) > 90
    tested = named()
    assert [number for number in scenarios if number not in tested] == []
