"""Lengths of time, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.durations import seconds_in, spoken


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), (" 90s ", 90), ("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("2D", 172800)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0m", "-1", "soon", "10 m", "1e9", "m", "nan", "inf", "٣", "9" * 400, "1h30"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time above 0"):
        seconds_in(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (59, "59 s"), (60, "1 min"), (90, "1 min 30 s"), (5400, "1 h 30 min"), (60.5, "60.5 s")],
)
def test_times_are_said(seconds: float, text: str) -> None:
    assert spoken(seconds) == text


@given(st.integers(1, 10**7))
def test_what_is_said_is_read_again(seconds: int) -> None:
    assert seconds_in(spoken(seconds).replace("min", "m").replace(" ", "")) == seconds
