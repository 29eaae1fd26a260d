"""The names that `dsh` offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dsh

ROOT = Path(__file__).parents[1]


def test_what_is_offered_is_what_can_be_had() -> None:
    assert set(dsh.__all__) == set(dsh._HOME_OF)
    assert len(dsh.__all__) == len(set(dsh.__all__))


@pytest.mark.parametrize("name", dsh.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dsh, name) is not None
    assert name in dir(dsh)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dsh.nothing  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "dsh" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.name) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {(home, name) for name, home in dsh._HOME_OF.items()}


def test_importing_it_imports_next_to_nothing() -> None:
    code = "import sys; before = set(sys.modules); import dsh; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"trio", "attr", "cattrs", "httpx", "pluggy", "orjson", "argparse"}
    assert heavy.isdisjoint(found.stdout.split())
    assert [name for name in found.stdout.split() if name.startswith("dsh.")] == []
