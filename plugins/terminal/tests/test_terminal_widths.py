"""Widths: nothing that is drawn is wider than the terminal, whatever the text."""

from __future__ import annotations

import re

from dsh_terminal.blocks import Blocks
from dsh_terminal.cells import cells, fitted, shown, within, wrapped
from dsh_terminal.paint import Look, Painter
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wcwidth import wcwidth

from dsh.tools.views import Diff

ODD = [
    "你",
    "，",
    "⚠️",
    "🏳️‍🌈",
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "e\u0301",
    "नि",
    "می\u200cروم",
    "\u200d",
    "\ufe0f",
    "\t",
    "\x1b[31m",
    "\x1b",
    "\x07",
]
MARKS = [
    "# ",
    "- ",
    "1. ",
    "> ",
    "| a | ",
    "|---|",
    "```py\n",
    "```\n",
    "**",
    "`",
    "\n\n",
    "\n",
    "[a](b)",
    "    ",
    "  ",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from(ODD), st.sampled_from(MARKS), st.text(max_size=12), st.text("你好a ", max_size=60)),
    max_size=12,
).map("".join)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def widest(drawn: str) -> int:
    """The cells of the widest line, as a terminal counts that draws every character alone."""
    lines = ESCAPES.sub("", drawn).split("\n")
    return max(sum(max(0, wcwidth(sign)) for sign in line) for line in lines)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(20, 130))
@example("你" * 61, 120)
@example("| a | b |\n|---|---|\n| ⚠️ | 🏳️‍🌈 |", 40)
def test_nothing_drawn_is_wider_than_the_terminal(text: str, width: int) -> None:
    for colour in (True, False):
        painter = Painter(Look(colour=colour, width=width))
        drawn = [
            painter.markdown(text),
            painter.reasoning(text),
            painter.said(text),
            painter.notice(text),
            painter.output(text, 20),
            painter.patch(text),
            painter.call("bash", text, "1.0 s, 3 B"),
            painter.diff(Diff("a.txt", text, "x\n")),
        ]
        for one in drawn:
            assert widest(one) <= width
            assert "\x07" not in one
            assert "\x1b" not in ESCAPES.sub("", one)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(2, 60))
def test_cutting_keeps_every_character(text: str, width: int) -> None:
    clean = shown(text).replace("\t", " ")
    pieces = wrapped(clean, width)
    assert all(cells(piece) <= width for piece in pieces)
    assert "".join(pieces) == clean.replace("\n", "")
    assert within(clean, width).replace("\n", "") == clean.replace("\n", "")
    line = clean.replace("\n", " ")
    assert cells(fitted(line, width)) <= width


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_an_answer_in_pieces_is_the_same_answer(text: str, sizes: list[int]) -> None:
    """No sign of a text is lost or doubled in the blocks, however it is cut into pieces."""
    whole = Blocks()
    expected = [*whole.feed(text), *whole.close()]
    blocks = Blocks()
    found: list[str] = []
    at, turn = 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        found += blocks.feed(text[at : at + size])
        at, turn = at + size, turn + 1
        assert len(blocks.open) < 10_000
    found += blocks.close()
    assert found == expected


def test_a_paragraph_that_does_not_end_is_drawn_in_parts() -> None:
    blocks = Blocks()
    found: list[str] = []
    for number in range(5000):
        found += blocks.feed(f"word{number} ")
        assert len(blocks.open) <= 2000
    assert len(found) > 3
    assert " ".join([*found, *blocks.close()]).split() == [f"word{number}" for number in range(5000)]


def test_code_in_a_list_and_long_code() -> None:
    blocks = Blocks()
    text = "1. item\n\n    ```sh\n    ls\n    ```\n\n    more of it\n\n```py\n" + "x = 1\n" * 60 + "```\n"
    found = [*blocks.feed(text), *blocks.close()]
    assert found[1] == "```sh\nls\n```"
    assert found[2] == "more of it"
    code = found[3:]
    assert len(code) > 1
    assert all(block.startswith("```py\n") and block.endswith("```") for block in code)
    assert sum(block.count("x = 1") for block in code) == 60
