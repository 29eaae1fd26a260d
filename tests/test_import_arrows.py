"""Imports point one way."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "dsh").rglob("*.py"))
PLUGINS = sorted(ROOT.glob("plugins/*/dsh_*/**/*.py"))

BASE = {"decisions", "errors", "hooks", "jsonvalue", "messages", "patterns", "process", "stash"}
ALL = {path.relative_to(ROOT / "dsh").parts[0].removesuffix(".py") for path in CORE} - {"loop", "cli"}
MAY: dict[str, set[str]] = {
    "errors": set(),
    "durations": set(),
    "frontmatter": {"jsonvalue"},
    "textfile": {"jsonvalue"},
    "stash": set(),
    "patterns": set(),
    "process": set(),
    "jsonvalue": {"errors"},
    "messages": {"jsonvalue"},
    "decisions": {"errors", "messages"},
    "hooks": {"decisions", "errors", "messages"},
    "hookspecs": {"hooks"},
    "secrets": BASE,
    "tasks": BASE,
    "structure": BASE,
    "layers": BASE | {"structure"},
    "paths": BASE | {"tools"},
    "approval": BASE,
    "cells": set(),
    "terminal": BASE,
    "trust": BASE | {"layers"},
    "tomledit": set(),
    "credentials": BASE | {"layers", "textfile"},
    "config": BASE | {"structure", "layers", "trust"},
    "discovery": BASE,
    "llm": BASE | {"models"},
    "models": BASE | {"llm.listing"},
    "session": BASE | {"llm.chunks"},
    "agents": BASE | {"session.events"},
    "tools": BASE | {"agents"},
    "prompt": BASE | {"agents", "tools"},
    "groups": set(),
    "ownfolder": set(),
    "watchdog": {"groups"},
    "checks": BASE,
    "commands": BASE,
    "conversation": BASE | {"agents"},
    "explain": BASE | {"session"},
    "loop": BASE | {"agents", "hookspecs", "llm", "prompt", "session", "tasks", "tools"},
    "canaries": BASE | {"agents", "tools"},
    "configured": BASE | {"agents"},
    "configuring": BASE | {"credentials", "llm", "secrets"},
    "owned": BASE | {"agents", "config", "tasks"},
    "harness": ALL,
    "testing": ALL,
    "cli": ALL,
    "__main__": {"cli"},
}


def imports(path: Path) -> Iterator[str]:
    """The full names that a module imports at run time, also within functions."""
    package = list(path.relative_to(ROOT if path.is_relative_to(ROOT / "dsh") else path.parents[1]).parts[:-1])
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            for alias in node.names:
                yield ".".join([*base, *([node.module] if node.module else []), alias.name])


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", CORE, ids=ids)
def test_the_core_imports_one_way(path: Path) -> None:
    area = path.relative_to(ROOT / "dsh").parts[0].removesuffix(".py")
    if area == "__init__":
        assert [name for name in imports(path) if name.startswith("dsh.")] == []
        return
    for name in imports(path):
        assert not name.startswith("dsh_"), f"{ids(path)}: the core imports no plugin"
        if not name.startswith("dsh.") or name == "dsh.__version__":
            continue
        inner = name.removeprefix("dsh.")
        may = MAY[area] | {area}
        assert any(f"{inner}.".startswith(f"{other}.") for other in may), f"{ids(path)} must not import {name}"


def test_the_engine_needs_little() -> None:
    for path in (ROOT / "dsh" / "hooks").glob("*.py"):
        outside = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {"dsh"}
        assert outside <= {"attrs", "pluggy", "trio"}, ids(path)


@pytest.mark.parametrize("path", PLUGINS, ids=ids)
def test_plugins_import_public_names_of_dsh_alone(path: Path) -> None:
    own = path.relative_to(ROOT).parts[2]
    for name in imports(path):
        top = name.split(".")[0]
        if top.startswith("dsh_"):
            assert top == own, f"{ids(path)}: plugins do not import each other"
        if top != "dsh":
            continue
        assert not name.startswith(("dsh.loop", "dsh.cli", "dsh.harness.")), f"{ids(path)} must not import {name}"
        module, _, attribute = name.rpartition(".")
        assert not any(part.startswith("_") for part in name.split(".")), f"{ids(path)}: {name} is private"
        public = getattr(importlib.import_module(module), "__all__", None)
        assert public is None or attribute in public, f"{ids(path)}: {name} is not public"
