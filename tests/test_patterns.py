"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from dsh.patterns import late


def test_a_late_pattern_does_what_a_compiled_one_does() -> None:
    pattern = late(r"(\w)\d", re.IGNORECASE)
    compiled = re.compile(r"(\w)\d", re.IGNORECASE)
    for text in ("a1 b2", "none", ""):
        assert pattern.findall(text) == compiled.findall(text)
        assert (pattern.search(text) is None) == (compiled.search(text) is None)
        assert pattern.sub("x", text) == compiled.sub("x", text)
    assert pattern.fullmatch("A7") is not None
    assert pattern.pattern == compiled.pattern


def test_a_mistake_shows_when_it_is_used() -> None:
    pattern = late("(")
    with pytest.raises(re.error):
        pattern.search("a")
