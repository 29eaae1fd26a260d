"""docs/writing-plugins.md: its files are written out and work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "writing-plugins.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, in a folder."""
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    return tmp_path


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DSH_HOME": str(cwd / "home"), "PYTHONPATH": str(cwd)}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True)


def test_every_block_is_a_file() -> None:
    assert len(FILES) == len(re.findall(r"^```python$", TEXT, re.MULTILINE))


def test_the_tests_of_the_page_pass(folder: Path) -> None:
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("dsh_")])
def test_a_file_is_a_plugin(name: str, folder: Path) -> None:
    done = run("-m", "dsh", "-e", name, "hooks", "order", "tools_register", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if "def tools_register" in FILES[name]:
        assert name.removeprefix("dsh_").removesuffix(".py") in done.stdout


def test_the_project_file_has_six_lines_and_names_the_plugin() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)

    assert len(block.splitlines()) == 6
    assert tomllib.loads(block)["project"]["entry-points"]["dsh"] == {"nosudo": "dsh_nosudo"}


def test_a_mistake_in_the_table_is_found_at_the_start(folder: Path) -> None:
    command = ("-m", "dsh", "-e", "dsh_notes.py", "--config", "notes.limt=3", "-p", "hello")
    done = run(*command, cwd=folder)

    assert done.returncode == 2
    assert "limit" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for file, anchor in re.findall(r"\]\(([\w/.-]+\.md)(?:#([\w-]+))?\)", (DOCS / page).read_text(encoding="utf-8")):
        target = DOCS / file
        assert target.is_file(), file
        titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in anchors, f"{file}#{anchor}"
