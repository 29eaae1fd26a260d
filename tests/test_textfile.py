"""Reading texts that are found in folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh.textfile import read_text


def test_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeffone\r\ntwo\rthree\n".encode())
    found = read_text(path, 100)
    assert (found.text, found.cut, found.invalid, found.binary) == ("one\ntwo\nthree\n", False, False, False)
    assert found.size == path.stat().st_size


def test_a_long_one_is_cut_between_characters(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("äöü" * 10)
    found = read_text(path, 5)
    assert (found.text, found.cut, found.invalid, found.size) == ("äö", True, False, 60)
    assert not read_text(path, 60).cut


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"caf\xe9")
    assert read_text(path, 100).invalid
    path.write_bytes(b"a\0b")
    assert read_text(path, 100).binary
    path.write_text("a \ufffd that is meant")
    assert not read_text(path, 100).invalid


def test_what_is_no_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        read_text(tmp_path / "pipe", 100)
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path, 100)
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "missing", 100)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.binary(max_size=200), st.integers(0, 220))
def test_any_bytes_are_read(tmp_path: Path, data: bytes, limit: int) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    found = read_text(path, limit)
    assert found.cut == (len(data) > limit)
    assert found.size == len(data)
    found.text.encode()
