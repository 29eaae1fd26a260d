"""What others wrote, shown so that it acts on nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.terminal import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls -l", "ls -l"),
        ("Grüße 你好 😀", "Grüße 你好 😀"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\rb\tc", "a\\rb\\tc"),
        ("a\nb", "a\nb"),
        ("\u202egnp", "\\u202egnp"),
        ("a\u200bb\ufeffc", "a\\u200bb\\ufeffc"),
        ("a\u2028b", "a\\u2028b"),
        ("a\u00a0b\u3000c", "a\\xa0b\\u3000c"),
        ("x\ufe0f\U000e0041", "x\\ufe0f\\U000e0041"),
        ("\x9b1A\x7f", "\\x9b1A\\x7f"),
        ("\ud800", "\\ud800"),
    ],
)
def test_signs_that_steer_or_hide_are_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = visible(text, keep="")
    assert all(unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") for sign in shown)
    assert "\n" not in shown
    shown.encode("utf-8")
