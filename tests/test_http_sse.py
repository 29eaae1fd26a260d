"""The event stream: every legal spelling, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.llm.http import sse
from dsh.llm.http.sse import ErrorData, EventTooLong, SseParser

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)
PAYLOADS = st.lists(LINES, min_size=1, max_size=3).filter(any)
NOISE = st.sampled_from([": comment", ":", "id: 7", "retry: 10", "event: message", "odd", "dataset: x"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A body, and the data of its events."""
    text = draw(st.sampled_from(["", "\ufeff"]))
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    wanted = []
    for lines in draw(st.lists(PAYLOADS, max_size=5)):
        wanted.append("\n".join(lines).encode())
        for line in lines:
            if draw(st.booleans()):
                text += draw(NOISE) + newline
            # Without the space, a leading space of the data itself would be taken for it.
            space = " " if line.startswith(" ") or draw(st.booleans()) else ""
            text += f"data:{space}{line}{newline}"
        text += newline * draw(st.integers(1, 2))
    return text.encode(), wanted


def parse(pieces: list[bytes]) -> list[bytes]:
    parser = SseParser()
    found = [payload for piece in pieces for payload in parser.feed(piece)]
    rest = parser.flush()
    return found if rest is None else [*found, rest]


@given(streams(), st.data())
def test_events_are_the_same_however_the_body_is_cut(stream: tuple[bytes, list[bytes]], data: st.DataObject) -> None:
    """K04."""
    body, wanted = stream
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))

    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]

    assert parse(pieces) == wanted
    assert parse([body[n : n + 1] for n in range(len(body))]) == wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:  two\n\n", [b" two"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
        (b"data: [DONE]", [b"[DONE]"]),
        (b"data\n\n: only a comment\n\nid: 3\n\n", []),
        (b"data: \n\n", []),
        (b"", []),
        (b"\n\n\n\n", []),
    ],
)
def test_spellings(body: bytes, wanted: list[bytes]) -> None:
    """K04."""
    assert parse([body]) == wanted


def test_error_events_are_told_apart() -> None:
    parser = SseParser()
    found = parser.feed(b'event: error\ndata: {"x":1}\n\nerror: {"y":2}\n\nevent: message\ndata: {}\n\n')
    assert found == [b'{"x":1}', b'{"y":2}', b"{}"]
    assert [isinstance(payload, ErrorData) for payload in found] == [True, True, False]


def test_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT", 1000)
    parser = SseParser()

    def feed() -> None:
        for _ in range(20):
            parser.feed(b"data: " + b"x" * 100)

    with pytest.raises(EventTooLong):
        feed()
