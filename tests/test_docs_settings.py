"""docs/settings.md: every setting is there, as it is, and explained."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "settings.md"


@pytest.fixture(scope="module")
def written() -> Any:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("write_settings", DOCS / "write_settings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_script_writes(written: Any) -> None:
    assert written.page() == PAGE.read_text(encoding="utf-8"), "run python docs/write_settings.py"


def test_every_setting_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| *(.*?) *\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 150
    assert [key for key, text in rows if not text] == []


def test_every_plugin_that_reads_settings_is_on_it(written: Any) -> None:
    """A table that no harness asks for as it opens would be missed."""
    sources = [*DOCS.parent.glob("plugins/*/dsh_*/**/*.py"), *DOCS.parent.glob("dsh/**/*.py")]
    named = {name for path in sources for name in re.findall(r'\.section\(\s*"(\w+)"', path.read_text())}
    assert len(named) > 20
    assert named <= set(written.asked())
