"""Where files are."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsh_jsonl.paths import bucket, encode_id, find
from hypothesis import given
from hypothesis import strategies as st

from dsh import SessionError


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("abc-1.2_Z", "abc-1.2_Z"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("a/b", "a~002Fb"),
        ("~", "~007E"),
        ("é", "~00E9"),
        ("🙂", "~D83D~DE42"),
        ("\ud83d", "~D83D"),
        ("a b\n", "a~0020b~000A"),
    ],
)
def test_ids_become_names(session_id: str, name: str) -> None:
    assert encode_id(session_id) == name


def test_an_empty_id_has_no_name() -> None:
    with pytest.raises(SessionError, match="empty"):
        encode_id("")


any_text = st.text(st.characters(exclude_categories=()), min_size=1, max_size=6)


@given(any_text, any_text)
def test_different_ids_have_different_harmless_names(one: str, other: str) -> None:
    name = encode_id(one)

    assert name.isascii()
    assert "/" not in name
    assert name not in (".", "..")
    # Two halves that follow one another are one character to UTF-16.
    joined = [text.encode("utf-16-le", "surrogatepass") for text in (one, other)]
    assert (name == encode_id(other)) == (joined[0] == joined[1])


def test_folders_stand_for_directories() -> None:
    assert bucket(None) == "_no-cwd"
    assert bucket("/workspace") == "cwd-c52ddf65534b"
    assert bucket("/a") != bucket("/b")


def test_a_file_is_found_in_any_folder(tmp_path: Path) -> None:
    assert find(tmp_path / "absent", "a") is None
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "two" / "a.jsonl").touch()

    assert find(tmp_path, "a") == tmp_path / "two" / "a.jsonl"
    assert find(tmp_path, "b") is None
    (tmp_path / "one" / "a.jsonl").touch()
    with pytest.raises(SessionError, match="stored twice"):
        find(tmp_path, "a")


def test_a_root_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SessionError, match="cannot read"):
        find(tmp_path / "file", "a")
