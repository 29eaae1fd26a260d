"""Lines become rows, and rows lines."""

from __future__ import annotations

from typing import Any

import pytest
from dsh_sqlite.rows import compose, split
from hypothesis import given
from hypothesis import strategies as st

from dsh.jsonvalue import dumps

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
envelopes = st.fixed_dictionaries(
    {"type": st.text(), "seq": st.integers(0, 2**40), "time": st.integers(0, 2**50), "data": json_values},
    optional={"sourceEventSeqs": st.lists(st.integers(0, 99)), "surfaceOp": json_values, "later": json_values},
)


def again(line: bytes) -> bytes:
    row, plain = split(line)
    seq, kind, time, data, sources, operation = row
    stored = (seq, kind.encode(), time, data, sources, operation)
    [composed] = compose([stored], {} if plain else {seq: line})
    return composed


@given(envelopes, st.randoms(use_true_random=False))
def test_any_line_comes_back_to_the_letter(envelope: dict[str, Any], random: Any) -> None:
    line = dumps(envelope)
    assert again(line) == line

    keys = list(envelope)
    random.shuffle(keys)
    shuffled = dumps({key: envelope[key] for key in keys})
    assert again(shuffled) == shuffled


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        (b'{"type":"x","seq":0,"time":1,"data":{}}', True),
        (b'{"type":"x","seq":0,"time":1,"data":{"surfaceOp":"append"},"surfaceOp":"append"}', True),
        (b'{"type":"x","seq":0,"time":1,"data":12345678901234567890123}', True),
        (b'{"type":"x","seq":0,"time":1,"data":"\\ud83d"}', True),
        (b'{"type":"x","seq":0,"time":1,"data":1,"data":2}', False),
        (b'{"type":"x","seq":0,"time":1, "data":{}}', False),
        (b'{"type":"\\u0078","seq":0,"time":1,"data":{}}', False),
        (b'{"type":"x","seq":0,"time":1,"data":{},"surfaceOp":null}', True),
    ],
)
def test_only_odd_lines_are_kept(line: bytes, plain: bool) -> None:
    assert split(line)[1] is plain
    assert again(line) == line


def test_line_breaks_of_other_programs_do_not_end_the_line() -> None:
    assert compose([(0, b"x", 1, b'{\n "a": 1}', None, None)], {}) == [
        b'{"type":"x","seq":0,"time":1,"data":{  "a": 1}}'
    ]
