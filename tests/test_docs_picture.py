"""The README's picture: there, small, and what the script makes of a screen."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyte
import pytest

ROOT = Path(__file__).parents[1]
TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module")
def writer() -> Any:
    spec = importlib.util.spec_from_file_location("write_picture", ROOT / "docs" / "write_picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_a_small_picture_that_needs_nothing_from_elsewhere() -> None:
    assert "](docs/dsh.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
    picture = (ROOT / "docs" / "dsh.svg").read_text(encoding="utf-8")
    assert len(picture) < 30_000
    assert picture.count("http") == 1  # the name of the format
    shown = " ".join(element.text or "" for element in ElementTree.fromstring(picture).iter(TEXT))
    assert "needs your approval" in shown.replace("\N{NO-BREAK SPACE}", " ")


def texts(picture: str) -> list[str]:
    """What a picture says, without how long things took and how much came of them."""
    shown = [
        (element.text or "").replace("\N{NO-BREAK SPACE}", " ")
        for element in ElementTree.fromstring(picture).iter(TEXT)
    ]
    return [re.sub(r"\b[\d.]+ (s|B|ms)\b", r"N \1", text) for text in shown]


def test_the_picture_is_what_dsh_shows_now(writer: Any, tmp_path: Path) -> None:
    """The conversation is held anew; `python docs/write_picture.py` writes the picture where this fails."""
    for name in ("dsh_terminal", "dsh_shell", "dsh_files", "dsh_permissions"):
        pytest.importorskip(name)
    made = tmp_path / "made.svg"
    command = [sys.executable, writer.__file__, str(made)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if "FileExistsError" in ran.stderr:
        pytest.skip(f"{writer.FOLDER} is in use")
    assert ran.returncode == 0, ran.stderr
    assert texts((ROOT / "docs" / "dsh.svg").read_text(encoding="utf-8")) == texts(made.read_text(encoding="utf-8"))


def test_a_screen_becomes_a_picture(writer: Any) -> None:
    screen = pyte.Screen(writer.COLUMNS, writer.LINES)
    pyte.Stream(screen).feed("  a  <b> & c\r\n\x1b[1;31mred\x1b[0m plain\r\n\x1b[7mturned\x1b[0m")
    root = ElementTree.fromstring(writer.svg(screen))
    cells = [(element.text, element.get("fill"), element.get("font-weight")) for element in root.iter(TEXT)]
    assert cells == [
        ("a\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}<b>\N{NO-BREAK SPACE}&\N{NO-BREAK SPACE}c", None, None),
        ("red", writer.NAMED["red"], "bold"),
        ("plain", None, None),
        ("turned", writer.PAPER, None),
    ]
    places = [float(element.get("x", 0)) for element in root.iter(TEXT)]
    assert places[0] == pytest.approx(16 + 2 * writer.WIDTH)
    assert places[2] == pytest.approx(16 + 4 * writer.WIDTH)
