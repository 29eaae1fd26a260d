"""Markdown with settings in front: what is read, what is forgiven, what is refused and how that is said."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.frontmatter import FrontMatterError, front_matter

SKILLS = Path(__file__).parents[1] / "../shared/configs/skills"


def test_settings_and_body() -> None:
    found = front_matter("---\nname: a-b\ndescription: does it\ntools: [x, y]\n---\n\n# Title\n\nText.\n")
    assert found.settings == {"name": "a-b", "description": "does it", "tools": ["x", "y"]}
    assert found.body == "# Title\n\nText."
    assert found.note == ""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark(newline: str, mark: str) -> None:
    text = mark + newline.join(["---", "name: a", "---", "one", "two", ""])
    found = front_matter(text)
    assert (found.settings, found.body) == ({"name": "a"}, "one\ntwo")


def test_a_line_of_dashes_in_the_body_stays() -> None:
    assert front_matter("---\na: 1\n---\none\n---\ntwo").body == "one\n---\ntwo"


def test_an_unquoted_colon_is_taken_as_text_and_noted() -> None:
    found = front_matter("---\nname: a\ndescription: Checks: build, it's tested, more: yes\n---\nbody")
    assert found.settings["description"] == "Checks: build, it's tested, more: yes"
    assert found.note == "line 3: a value with a colon belongs in quotes; it is taken as text"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: expected ---"),
        ("# Title\n---\nname: a\n---\n", "line 1: expected ---"),
        (" ---\nname: a\n---\n", "line 1: expected ---"),
        ("---\nname: a\nno end", "have no end"),
        ("---\n- a\n- b\n---\n", "no mapping"),
        ("---\njust words\n---\n", "no mapping"),
        ("---\nname: [a\n---\n", "line "),
        ("---\nname: a\n\tb: c\n---\n", "line 3"),
        ("---\na: &x [1]\nb: *x\n---\n", "line 3, column 4: aliases"),
        ("---\na: !!python/object/apply:os.system [id]\n---\n", "line 2"),
        ("---\na: !!binary aGk=\n---\n", "no plain value"),
        ("---\na: " + "[" * 30000 + "\n---\n", "line 2, column"),
        ("---\na: " + "[" * 30000 + "]" * 30000 + "\n---\n", "line 2, column"),
        ("---\n" + "a: 1\n" * 20000 + "---\n", "characters long"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(text: str, words: str) -> None:
    with pytest.raises(FrontMatterError, match=words.replace("(", r"\(")) as caught:
        front_matter(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "2024-02-30",
        "2001-12-14t21:59:43.10-99:00",
        "9" * 5000,
        "!!int x",
        "!!float x",
        "!!bool x",
        "!!timestamp x",
        "!!binary a%",
        "!!python/object:os.system x",
    ],
)
def test_values_that_yaml_s_reader_falls_over_are_refused(value: str) -> None:
    with pytest.raises(FrontMatterError):
        front_matter(f"---\nname: a\nvalue: {value}\n---\nbody")


@pytest.mark.parametrize("value", [".inf", "-.inf", ".nan"])
def test_numbers_that_json_does_not_know_are_text(value: str) -> None:
    assert isinstance(front_matter(f"---\nvalue: {value}\n---\n").settings["value"], str)


def test_no_settings_are_fine_where_none_are_needed() -> None:
    found = front_matter("\nJust text.\n", needed=False)
    assert (found.settings, found.body) == ({}, "Just text.")
    assert front_matter("---\n---\nbody").settings == {}


def test_values_are_json() -> None:
    found = front_matter("---\nwhen: 2026-01-02\n3: x\ntrue: y\nset: !!set {b, a}\n---\n")
    assert found.settings == {"when": "2026-01-02", "3": "x", "true": "y", "set": ["a", "b"]}


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nbody", f"---\nname: {text}\n---\n"):
        with suppress(FrontMatterError):
            assert isinstance(front_matter(whole).body, str)


@pytest.mark.skipif(not SKILLS.exists(), reason="the recorded skills are not here")
def test_files_that_people_wrote() -> None:
    """All of them load; the one whose YAML is broken has a note."""
    notes = {}
    for path in sorted(SKILLS.glob("*.md")):
        found = front_matter(path.read_text(encoding="utf-8"))
        assert found.settings["name"], path
        assert found.settings["description"], path
        assert found.body, path
        if found.note:
            notes[path.name] = found.note
    assert list(notes) == ["30-odd-springboot-verification.SKILL.md"]
