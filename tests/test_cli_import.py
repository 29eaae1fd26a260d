"""What the command line imports before it knows what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("httpx", "trio", "attr", "attrs", "cattrs", "pluggy", "orjson", "tomllib", "tomli_w", "importlib.metadata")


def imported(*argv: str, cwd: Path) -> set[str]:
    """The modules that ``dsh argv`` imports."""
    command = [sys.executable, "-X", "importtime", "-m", "dsh", *argv]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "DSH_HOME": str(cwd)})
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["run", "--help"], ["plugins", "--help"], ["sessions", "-h"]]
)
def test_help_imports_nothing_heavy_and_no_plugin(argv: list[str], tmp_path: Path) -> None:
    modules = imported(*argv, cwd=tmp_path)
    assert "argparse" in modules
    assert modules.isdisjoint(HEAVY)
    assert not [name for name in modules if name.startswith(("dsh_", "dsh.hooks", "dsh.config", "dsh.loop"))]


def test_settings_are_read_without_the_loop_or_a_client(tmp_path: Path) -> None:
    modules = imported("config", "path", cwd=tmp_path)
    assert modules.isdisjoint({"httpx", "trio", "cattrs", "tomli_w"})
    assert not [name for name in modules if name.startswith(("dsh_", "dsh.loop"))]


def test_the_plugins_are_loaded_without_what_they_use_later(tmp_path: Path) -> None:
    modules = imported("plugins", cwd=tmp_path)
    assert any(name.startswith("dsh_") for name in modules)
    assert modules.isdisjoint(
        {"httpx", "tree_sitter", "tree_sitter_bash", "yaml", "rich", "prompt_toolkit", "sqlite3", "genai_prices"}
    )
