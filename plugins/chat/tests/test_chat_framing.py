"""Where bodies end, however they are cut."""

from __future__ import annotations

import pytest
from dsh_chat.framing import Body, Chunked, Counted, FramingError, UntilClosed, body_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_chunked_body_is_the_same_however_it_is_cut(parts: list[bytes], data: st.DataObject) -> None:
    wire = b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nfield: 1\r\n\r\n"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(wire)), max_size=10)))
    body: Body = Chunked()

    got = b"".join(body.feed(wire[a:b]) for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True))

    assert got == b"".join(parts)
    assert body.done
    assert body.reusable


@pytest.mark.parametrize("wire", [b"zz\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"\r\n\r\n", b"1" * 20000])
def test_broken_chunks_are_refused(wire: bytes) -> None:
    with pytest.raises(FramingError):
        Chunked().feed(wire)


@pytest.mark.parametrize(
    "headers", [{"content-encoding": "gzip"}, {"transfer-encoding": "gzip, chunked"}, {"content-length": "-1"}]
)
def test_bodies_that_were_not_asked_for_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(FramingError):
        body_of(200, headers)


def test_framing_follows_from_the_headers() -> None:
    assert isinstance(body_of(200, {"transfer-encoding": "Chunked"}), Chunked)
    assert isinstance(body_of(200, {"content-length": "0"}), Counted)
    assert isinstance(body_of(200, {}), UntilClosed)
    assert body_of(200, {"content-length": "0"}).done
    assert body_of(204, {}).done


def test_counted_body_that_is_too_long_spoils_the_connection() -> None:
    body = Counted(3)
    assert body.feed(b"ab") == b"ab"
    assert body.feed(b"cd") == b"c"
    assert body.done
    assert not body.reusable
