"""Windows paths, wherever this runs."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest
from dsh_permissions.globs import path_pattern
from dsh_permissions.windows import comparable, from_msys, is_path_like


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("docs/*", "docs\\a.md", True),
        ("docs\\*", "docs/a.md", True),
        ("docs\\*", "DOCS\\A.md", True),
        ("docs/*", "docs\\sub\\a.md", False),
        ("docs/**", "docs\\sub\\a.md", True),
    ],
)
def test_w01_rules_and_paths_meet_whatever_slash_they_have(pattern: str, path: str, matches: bool) -> None:
    root = comparable("C:\\Work", PureWindowsPath)
    wanted = path_pattern(comparable(pattern, PureWindowsPath), root, "c:/users/x", False, False)
    whole = comparable(str(PureWindowsPath("C:\\Work") / path), PureWindowsPath)
    assert (wanted.fullmatch(whole) is not None) == matches


def test_w01_on_posix_a_backslash_is_a_sign_of_a_name() -> None:
    assert comparable("docs\\a.md", PurePosixPath) == "docs\\a.md"
    assert path_pattern("docs/*", "/work", "/home", False, False).fullmatch("/work/docs\\a.md") is None


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/c/Users/x/a", "C:/Users/x/a"),
        ("/c", "C:/"),
        ("/tmp/x", "C:/Temp/x"),
        ("/dev/null", "/dev/null"),
        ("C:/Program Files/x", "C:/Program Files/x"),
        ("C:\\Program Files\\x", "C:/Program Files/x"),
        ("/usr/bin/env", "C:/msys64/usr/bin/env"),
        ("/cc/x", "C:/msys64/cc/x"),
        ("//server/share", "//server/share"),
        ("src/a", "src/a"),
    ],
)
def test_w02_paths_of_git_bash(path: str, meant: str) -> None:
    assert from_msys(path) == meant


@pytest.mark.parametrize(
    ("word", "kind", "is_path"),
    [
        ("secrets\\key.pem", PureWindowsPath, True),
        ("secrets\\key.pem", PurePosixPath, False),
        ("secrets/key.pem", PurePosixPath, True),
        ("C:key.pem", PureWindowsPath, True),
        ("..", PureWindowsPath, True),
        ("-x\\y", PureWindowsPath, False),
        ("https://a/b", PureWindowsPath, False),
        ("word", PureWindowsPath, False),
    ],
)
def test_w03_words_that_are_paths(word: str, kind: type[PurePath], is_path: bool) -> None:
    assert is_path_like(word, kind) == is_path
