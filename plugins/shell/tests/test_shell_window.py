"""The beginning and the end of a stream in memory, and all of it in a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dsh_shell.spill import Outputs, Spill
from dsh_shell.window import Limits, Window, incomplete_suffix, is_binary
from hypothesis import given
from hypothesis import strategies as st

from dsh.secrets import Secrets

chunked = st.lists(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode()), max_size=12)
small = st.builds(Limits, st.integers(8, 200), st.integers(1, 20), st.integers(1, 60), st.integers(1, 60))


class Nowhere(Outputs):
    def open(self, stream: str, owner: str | None = None) -> Spill:
        return Spill(None, None)


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    found = Outputs()
    yield found
    found.temp.remove()


def filled(chunks: list[bytes], limits: Limits, outputs: Outputs | None = None) -> Window:
    window = Window(limits, outputs or Nowhere())
    for chunk in chunks:
        window.feed(chunk)
    window.close()
    return window


@given(chunked, small)
def test_the_parts_and_what_is_left_out_add_up(chunks: list[bytes], limits: Limits) -> None:
    whole = b"".join(chunks)
    piece = filled(chunks, limits).read()

    assert piece.total == len(whole)
    assert piece.lines == whole.count(b"\n") + (whole[-1:] not in (b"", b"\n"))
    cut = piece.cut()
    if cut is None:
        assert piece.in_memory
        assert piece.text == whole.decode("utf-8", "replace").replace("\0", "\ufffd")
        return
    heads = [whole[:size].decode("utf-8", "replace").replace("\0", "\ufffd") for size in range(len(whole) + 1)]
    tails = [whole[size:].decode("utf-8", "replace").replace("\0", "\ufffd") for size in range(len(whole) + 1)]
    assert any(
        head == cut.head and tail == cut.tail
        for size, head in enumerate(heads)
        for tail in [tails[min(size + cut.left_bytes, len(whole))]]
    )
    for size, head in enumerate(heads):
        if head == cut.head and tails[min(size + cut.left_bytes, len(whole))] == cut.tail:
            left = whole[size : size + cut.left_bytes]
            assert cut.left_lines == left.count(b"\n") + (left[-1:] != b"\n")
            break
    assert cut.head.count("\n") <= limits.parts[1]
    assert cut.tail.count("\n") <= limits.parts[3]


@given(st.text(min_size=1, max_size=80), small, st.data())
def test_a_cut_never_shows_a_broken_character(text: str, limits: Limits, data: st.DataObject) -> None:
    text = text.replace("\0", "").replace("\ufffd", "")
    rest, chunks = text.encode("utf-8", "replace"), []
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        chunks.append(rest[:size])
        rest = rest[size:]
    cut = filled(chunks, limits).read().cut()

    if cut is not None:
        assert "\ufffd" not in cut.head + cut.tail
        assert text.encode("utf-8", "replace").decode().startswith(cut.head)
        assert text.encode("utf-8", "replace").decode().endswith(cut.tail)


@given(st.text(max_size=60), st.data())
def test_pieces_of_valid_text_join_to_the_text(text: str, data: st.DataObject) -> None:
    rest = text.encode("utf-8", "replace")
    expected = rest.decode().replace("\0", "\ufffd")
    window = Window(Limits(), Nowhere())
    got = ""
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        window.feed(rest[:size])
        rest = rest[size:]
        got += window.read().text
    window.close()

    assert got + window.read().text == expected


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
    window = Window(Limits(), Nowhere())
    window.feed(b"ab\xe4\xbd")

    assert window.read().text == "ab"
    window.close()
    assert window.read().text == "\ufffd"
    assert window.read().text == ""


def test_a_piece_says_whether_it_begins_with_the_stream() -> None:
    window = Window(Limits(8, 100, 2, 2), Nowhere())
    window.feed(b"abcd")
    assert window.read().fresh
    window.feed(b"efgh")
    assert window.read().text == "efgh"
    window.feed(b"ijklmnopqrst")
    late = window.read()

    assert not late.fresh
    assert not late.in_memory
    cut = late.cut()
    assert cut is not None
    assert (cut.head, cut.tail, cut.left_bytes, cut.left_lines) == ("ij", "st", 8, 1)
    assert window.text() == "mnopqrst"


def test_a_stream_of_exactly_the_limit_opens_no_file(outputs: Outputs) -> None:
    window = filled([b"12345678"], Limits(8), outputs)

    assert window.spill is None
    assert outputs.temp.folders == ()


def test_the_file_holds_everything_and_is_private(outputs: Outputs) -> None:
    window = Window(Limits(8), outputs, "stderr")
    for number in range(100):
        window.feed(f"{number:03}".encode())
    window.close()

    spill = window.spill
    assert spill is not None
    assert spill.path is not None
    assert spill.written == window.total
    assert Path(spill.path).read_text() == "".join(f"{number:03}" for number in range(100))
    assert spill.path.endswith("-stderr.log")
    assert stat.S_IMODE(os.stat(spill.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(spill.path)).st_mode) == 0o700
    outputs.temp.remove()
    assert not os.path.exists(os.path.dirname(spill.path))


def test_what_was_in_memory_can_be_kept_after_the_end(outputs: Outputs) -> None:
    window = filled([b"a\xff", b"b"], Limits(), outputs)

    path = window.keep().path
    assert path is not None
    assert Path(path).read_bytes() == b"a\xffb"


def test_a_file_stops_growing_at_its_limit(outputs: Outputs) -> None:
    window = filled([b"123456", b"789abcdef"], Limits(4), Outputs(limit=10, temp=outputs.temp))

    assert window.spill is not None
    assert window.spill.path is not None
    assert Path(window.spill.path).read_bytes() == b"123456789a"
    assert (window.spill.written, window.total) == (10, 15)


def test_a_file_that_cannot_be_written_is_not_named_and_not_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    spill = Spill(str(path), os.open(path, os.O_RDONLY))
    spill.write(b"123456")

    assert (spill.path, spill.failure) == (None, "Bad file descriptor")
    assert not path.exists()


def test_files_go_to_the_session_s_folder_and_leave_with_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    mine, other = (outputs.open("stdout", owner) for owner in ("one", "two"))
    for spill in (mine, other):
        spill.write(b"x")
        spill.close()

    folder = tmp_path / "session-data/one/outputs"
    assert [str(path) for path in folder.iterdir()] == [mine.path]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    outputs.forget("one")
    assert not folder.parent.exists()
    assert other.path is not None
    assert os.path.exists(other.path)
    assert outputs.temp.folders == ()


def test_all_files_of_a_session_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dsh_shell.spill.MAX_FOLDER_BYTES", 10)
    outputs = Outputs(tmp_path)
    first, second = outputs.open("stdout", "one"), outputs.open("stdout", "one")
    first.write(b"12345678")
    third = outputs.open("stderr", "one")
    assert (first.limit, second.limit, third.limit) == (10, 10, 2)
    second.write(b"90")

    full = outputs.open("stdout", "one")
    assert (full.path, full.failure) == (None, "the session's folder holds 10 bytes of output already")
    for spill in (first, second, third):
        spill.close()


# -- secrets


def masking(*values: str) -> tuple[Secrets, Outputs]:
    secrets = Secrets()
    for value in values:
        secrets.add(value, "KEY")
    return secrets, Nowhere(None, secrets.mask_output, secrets.pending)


def test_what_may_be_the_beginning_of_a_secret_waits() -> None:
    window = Window(Limits(), masking("hunter2")[1])
    window.feed(b"the h\xc3\xa4 hunt")
    assert window.read().text == "the hä "
    assert window.read().text == ""
    window.feed(b"er2 hun")
    assert window.read().text == "[secret KEY] "
    window.close()
    assert window.read().text == "hun"


@given(
    st.lists(st.sampled_from(["s3cr3t-value", "3cr3t-value-long", "s3c", "r3t-v", "alue", "-long", "\n", "ä", "s"])),
    st.data(),
    st.integers(20, 60),
)
def test_no_secret_is_shown_or_kept_however_it_comes_and_is_cut(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], data: st.DataObject, size: int
) -> None:
    secrets = Secrets()
    for value in ("s3cr3t-value", "3cr3t-value-long"):
        secrets.add(value, "KEY")
    text = "".join(words)
    home = tmp_path_factory.mktemp("home")
    window = Window(Limits(size, 100, size, size), Outputs(home, secrets.mask_output, secrets.pending), "stdout", "one")
    rest = text.encode()
    while rest:
        length = data.draw(st.integers(1, len(rest)))
        window.feed(rest[:length])
        rest = rest[length:]
    window.close()

    path = window.keep().path
    assert path is not None
    kept = Path(path).read_text()
    assert kept == secrets.mask(text)
    cut = window.read().cut()
    if cut is not None:
        assert kept.startswith(cut.head)
        assert kept.endswith(cut.tail)


@pytest.mark.parametrize(
    ("secret", "name"), [("s3cr3t-value", "KEY"), ("s3cr3t-wört", "KEY"), ("s3cr3t-value", "SCHLÜSSEL→")]
)
@given(st.lists(st.binary(max_size=12) | st.just(b"SECRET"), max_size=8), st.integers(1, 9))
def test_secrets_in_what_is_no_text_are_masked_and_the_rest_stays(
    secret: str, name: str, parts: list[bytes], size: int
) -> None:
    secrets = Secrets()
    secrets.add(secret, name)
    outputs = Nowhere(None, secrets.mask_output, secrets.pending)
    window = Window(Limits(), outputs)
    data = b"\xff" + b"|".join(secret.encode() if part == b"SECRET" else part for part in parts)
    for start in range(0, len(data), size):
        window.feed(data[start : start + size])
    window.close()
    expected = data.replace(secret.encode(), f"[secret {name}]".encode())
    assert window.read().text == expected.decode("utf-8", "replace").replace("\0", "\ufffd")


def test_a_secret_that_reaches_into_what_waits_is_whole() -> None:
    """The end of one secret is the beginning of another: what waits must not tear the first apart."""
    window = Window(Limits(), masking("abcdef-1", "1-ghijkl")[1])
    window.feed(b"abcdef-1")
    window.close()
    assert window.read().text == "[secret KEY]"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x7fELF\0\0\0\1" * 9, True),
        (b"text\n" * 9, False),
        ("ä日🙂".encode() * 9, False),
        (b"\x1b[31mred\r\n", False),
        (b"", False),
    ],
)
def test_what_is_no_text(data: bytes, expected: bool) -> None:
    assert is_binary(data) is expected


def test_a_head_that_ends_within_a_character_is_no_binary() -> None:
    assert not is_binary("ä".encode() * 100 + b"\xc3")
