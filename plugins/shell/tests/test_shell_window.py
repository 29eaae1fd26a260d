"""The end of a stream in memory, and all of it in a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dsh_shell.spill import Spill, SpillFolder
from dsh_shell.window import Window, incomplete_suffix
from hypothesis import given
from hypothesis import strategies as st

chunked = st.lists(st.binary(max_size=40), max_size=12)


@pytest.fixture
def spills() -> Iterator[SpillFolder]:
    folder = SpillFolder()
    yield folder
    folder.remove()


def nowhere() -> Spill:
    return Spill(None, None)


@given(chunked, st.integers(1, 60))
def test_the_tail_is_the_last_bytes_in_whole_characters(chunks: list[bytes], limit: int) -> None:
    window = Window(limit, nowhere)
    for chunk in chunks:
        window.feed(chunk)
    everything = b"".join(chunks)

    assert window.total == len(everything)
    assert window.truncated == (len(everything) > limit)
    tail = everything[-limit:]
    assert any(
        window.text() == tail[cut:].decode("utf-8", "replace").replace("\0", "\ufffd")
        for cut in (range(4) if window.truncated else (0,))
    )


@given(st.text(max_size=60), st.data())
def test_deltas_of_valid_text_join_to_the_text(text: str, data: st.DataObject) -> None:
    rest = text.encode("utf-8", "replace")
    expected = rest.decode().replace("\0", "\ufffd")
    window = Window(10_000, nowhere)
    got = ""
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        window.feed(rest[:size])
        rest = rest[size:]
        got += window.read(final=not rest).text

    assert got == expected


@given(st.text(min_size=1, max_size=40), st.integers(1, 40))
def test_a_cut_never_shows_a_broken_character(text: str, limit: int) -> None:
    text = text.replace("\0", "").replace("\ufffd", "")
    data = text.encode("utf-8", "replace")
    window = Window(limit, nowhere)
    window.feed(data)

    assert "\ufffd" not in window.text()
    assert data.decode().endswith(window.text())


@pytest.mark.parametrize("character", ["é", "你", "🙂"])
def test_an_unfinished_character_is_held_back(character: str) -> None:
    encoded = character.encode()
    for size in range(1, len(encoded)):
        assert incomplete_suffix(b"a" + encoded[:size]) == size
    assert incomplete_suffix(b"a" + encoded) == 0


def test_what_no_byte_can_finish_is_not_held_back() -> None:
    assert incomplete_suffix(b"\xff") == 0
    assert incomplete_suffix(b"\xf0\x9f\x99\x82\x82") == 0
    assert incomplete_suffix(b"\x80\x80\x80") == 0


def test_an_end_in_the_middle_of_a_character_is_shown_at_last() -> None:
    window = Window(100, nowhere)
    window.feed(b"ab\xe4\xbd")

    assert window.read(final=False).text == "ab"
    assert window.read(final=True).text == "\ufffd"
    assert window.read(final=True).text == ""


def test_a_reader_that_comes_late_is_told_so() -> None:
    window = Window(4, nowhere)
    window.feed(b"abcd")
    assert not window.read(final=False).lossy
    window.feed(b"efgh")
    assert window.read(final=False).text == "efgh"
    window.feed(b"ijklmn")
    late = window.read(final=False)

    assert late.lossy
    assert late.text == "klmn"


def test_a_stream_of_exactly_the_limit_opens_no_file(spills: SpillFolder) -> None:
    window = Window(8, lambda: spills.open("stdout"))
    window.feed(b"12345678")

    assert not window.truncated
    assert window.spill_path is None


def test_the_file_holds_everything_and_is_private(spills: SpillFolder) -> None:
    window = Window(8, lambda: spills.open("stderr"))
    for number in range(100):
        window.feed(f"{number:03}".encode())
    window.close()
    path = window.spill_path

    assert path is not None
    assert window.spill_complete
    assert Path(path).read_text() == "".join(f"{number:03}" for number in range(100))
    assert path.endswith("-stderr.log")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    spills.remove()
    assert not os.path.exists(os.path.dirname(path))


def test_a_file_stops_growing_at_its_limit(spills: SpillFolder) -> None:
    spill = spills.open("stdout")
    spill.limit = 10
    window = Window(4, lambda: spill)
    window.feed(b"123456")
    window.feed(b"789abcdef")
    window.close()

    assert window.spill_path is not None
    assert Path(window.spill_path).read_bytes() == b"123456789a"
    assert not window.spill_complete


def test_a_file_that_cannot_be_written_is_not_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    window = Window(4, lambda: Spill(str(path), os.open(path, os.O_RDONLY)))
    window.feed(b"123456")

    assert window.truncated
    assert window.spill_path is None
    assert window.text() == "3456"
