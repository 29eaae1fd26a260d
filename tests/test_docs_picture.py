"""The README's picture: there, small, and what the script makes of a screen."""

from __future__ import annotations

import importlib.util
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
