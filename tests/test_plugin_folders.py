"""The bundled plugins: one distribution, and folders that are whole projects."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


ROOT_PROJECT = project(ROOT)


def needs(own: dict[str, Any]) -> set[str]:
    """The names of the distributions that a project depends on."""
    return {re.split(r"[^A-Za-z0-9_-]", requirement)[0] for requirement in own["project"]["dependencies"]}


def test_both_lists_of_entry_points_are_equal() -> None:
    bundled = dict(ROOT_PROJECT["project"]["entry-points"]["dsh"])
    assert bundled.pop("loop") == "dsh.loop"

    own: dict[str, str] = {}
    for name in FOLDERS:
        own |= project(ROOT / "plugins" / name)["project"]["entry-points"]["dsh"]
    assert bundled == own


def test_every_folder_is_a_project() -> None:
    folders = {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir() and any(path.glob("dsh_*"))}
    assert folders == set(FOLDERS)
    assert folders >= {"chat", "files", "jsonl", "local", "shell"}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_complete(name: str) -> None:
    folder, package = ROOT / "plugins" / name, f"dsh_{name}"
    own = project(folder)

    assert (folder / "README.md").read_text(encoding="utf-8").strip()
    assert (folder / package / "__init__.py").is_file()
    assert own["project"]["name"] == f"dsh-{name}"
    assert own["project"]["readme"] == "README.md"
    assert "dsh-harness" in own["project"]["dependencies"]
    assert own["project"]["requires-python"] == ROOT_PROJECT["project"]["requires-python"]
    assert own["project"]["entry-points"]["dsh"] == {name: package}
    assert own["build-system"] == ROOT_PROJECT["build-system"]
    assert own["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [package]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_wheel_and_the_type_checker_know_the_package(name: str) -> None:
    assert f"plugins/{name}/dsh_{name}" in ROOT_PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert f"plugins/{name}" in ROOT_PROJECT["tool"]["mypy"]["mypy_path"]


@pytest.mark.parametrize("name", FOLDERS)
def test_what_a_plugin_needs_comes_with_dsh(name: str) -> None:
    # What httpx brings, a plugin may name as well.
    have = needs(ROOT_PROJECT) | {"dsh-harness", "certifi", "h11", "httpcore", "anyio"}
    assert needs(project(ROOT / "plugins" / name)) <= have


def test_names_of_test_files_are_unique() -> None:
    names = [path.name for path in (*ROOT.glob("tests/test_*.py"), *ROOT.glob("plugins/*/tests/test_*.py"))]
    assert len(names) == len(set(names))
    assert not list(ROOT.glob("plugins/*/tests/__init__.py"))
