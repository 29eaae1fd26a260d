"""Markdown: nothing that was written gets lost, whatever it is, and what is not finished looks as it will."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dsh_terminal.above import Above
from dsh_terminal.blocks import Blocks
from dsh_terminal.paint import Look, Painter
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyte")

WIDE = "|".join(f"column{n}" for n in range(30))


def drawn(text: str, width: int = 60) -> str:
    return Painter(Look(colour=False, width=width)).markdown(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<details><summary>Sum</summary>\n\nhidden\n", ["Sum", "hidden"]),
        ("<div>\nin a block\n</div>", ["in a block"]),
        ("a List<String> and <br/>", ["List<String>", "<br/>"]),
        ("<!-- a note -->", ["a note"]),
        ("see ![a cat](cat.png) there", ["see a cat (cat.png) there"]),
        ("[label](https://a.example/b_c)", ["label (https://a.example/b_c)"]),
        ("[ref]: https://a.example", ["[ref]: https://a.example"]),
        ("[^1]: a foot", ["a foot"]),
        (f"| a | b |\n|---|---|\n| {'x' * 90}END | y |", ["END", "y"]),
        (f"{WIDE}\n{'|'.join(['-'] * 30)}\n{WIDE.replace('column', 'cell')}", ["column0", "column29: cell29"]),
        ("- item\n  ```py\n  x = 1\n  ```", ["item", "x = 1"]),
        ("```\nnever closed\n\nstill code", ["never closed", "still code"]),
        ("```py\n" + "y" * 300 + "\n```", ["y" * 50]),
        ("1. one\n   - deep\n     1. deeper", ["one", "deep", "deeper"]),
    ],
)
def test_nothing_is_lost(text: str, words: list[str]) -> None:
    blocks = Blocks()
    parts = [*blocks.feed(text), *blocks.close()]
    shown = " ".join("".join(drawn(part) for part in parts).split())
    for word in words:
        assert word in shown


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["<b>", "</div>", "<x y='z'>", "[a]: b", "![c](d)", "word", "<!--", "\n", " "])))
def test_every_word_of_odd_text_is_drawn(parts: list[str]) -> None:
    text = "".join(parts)
    shown = re.sub(r"\W", "", drawn(text))
    assert shown == re.sub(r"\W", "", text)


def test_an_address_stands_once() -> None:
    assert drawn("<https://a.example> and [https://b.example](https://b.example)").split() == [
        "https://a.example",
        "and",
        "https://b.example",
    ]


def test_no_blanks_at_the_ends_of_lines() -> None:
    """They would wrap when the terminal gets narrower, and be copied."""
    lines = Painter(Look(width=60)).markdown("# A\n\nsome **words** here").split("\n")
    assert not [line for line in lines if line.endswith(" ")]


def test_what_is_not_finished_is_drawn(desk: Any) -> None:
    terminal = desk.open('hang("# Title\\n\\nsome **bold** and `code`\\n- one\\n- two")')
    terminal.type("go\r")
    terminal.wait_for("• two")
    shown = terminal.shown()
    assert "some bold and code" in shown
    assert "**" not in shown
    terminal.type("\x1b")
    terminal.wait_for("(aborted")
    assert terminal.shown().count("some bold and code") == 1


def test_lines_above_are_made_once_and_are_few() -> None:
    above = Above()
    live = [("drawn", "\n".join(f"\x1b[1mline {n}\x1b[0m" for n in range(100)) + "\n"), ("call", "⠋ bash x")]
    found = above.lines(live, 80, 40)
    text = "".join(fragment[1] for fragment in found)
    assert text.count("\n") == 12
    assert text.endswith("line 99\n⠋ bash x\n")
    assert "\x1b" not in text
    assert above.lines(live, 80, 40) is found
    assert "".join(fragment[1] for fragment in above.lines(live, 80, 8)).count("\n") == 4


def test_a_paragraph_of_a_list_looks_alike_open_and_finished() -> None:
    blocks = Blocks()
    blocks.feed("- item\n\n")
    blocks.feed("    more of it")
    assert blocks.open == "more of it"
    assert blocks.close() == ["more of it"]
