"""Changing settings that a person wrote: what is wanted comes about, and nothing else is touched."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.tomledit import extended, shrunk, with_top

COMMENTED = """\
# mine
model = "a/b"

[plugins] # which
# Not loaded.
#disabled = []
required = ["x"]

[other]
disabled = ["not this"]
"""


def test_the_example_gives_way_to_the_list() -> None:
    added = extended(COMMENTED, "plugins", "disabled", ["todo", "spill"])
    assert added == COMMENTED.replace("#disabled = []", 'disabled = ["todo", "spill"]')
    assert shrunk(added, "plugins", "disabled", ["todo"]) == COMMENTED.replace("#disabled = []", 'disabled = ["spill"]')


LISTS = [
    ('[plugins]\ndisabled = ["a", "b"]  # why\n', '[plugins]\ndisabled = ["b"]  # why\n'),
    ('[plugins]\ndisabled = ["b", "a"]\n', '[plugins]\ndisabled = ["b"]\n'),
    ('[plugins]\ndisabled = ["a"]\n', "[plugins]\ndisabled = []\n"),
    (
        '[plugins]\ndisabled = [\n    "a", # noisy\n    "b", # slow\n]\n',
        '[plugins]\ndisabled = [\n    "b", # slow\n]\n',
    ),
    ("[plugins]\ndisabled = [\n  'b',\n  'a'\n]\n", "[plugins]\ndisabled = [\n  'b',\n]\n"),
    ("[plugins]\ndisabled = ['b' , 'a' ]\n", "[plugins]\ndisabled = ['b'  ]\n"),
    ('[plugins]\ndisabled = ["a", "a", "b"]\n', '[plugins]\ndisabled = ["b"]\n'),
]


@pytest.mark.parametrize(("before", "after"), LISTS)
def test_an_item_goes_with_its_line(before: str, after: str) -> None:
    assert shrunk(before, "plugins", "disabled", ["a"]) == after


@pytest.mark.parametrize("text", ["", "# nothing\n", '[plugins]\nrequired = ["a"]\n', 'plugins.disabled = ["b"]\n'])
def test_what_is_not_there_need_not_go(text: str) -> None:
    assert shrunk(text, "plugins", "disabled", ["a"]) == text


@pytest.mark.parametrize("text", ["[plugins", 'plugins = "x"\n', '[plugins]\ndisabled = "todo"\n'])
def test_what_is_something_else_is_left_alone(text: str) -> None:
    assert extended(text, "plugins", "disabled", ["a"]) is None
    assert shrunk(text, "plugins", "disabled", ["a"]) is None


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", 'model = "x/y"\n'),
        ("# mine", '# mine\nmodel = "x/y"\n'),
        ('effort = "low"\n\n[hooks]\ntrace = true\n', 'effort = "low"\n\nmodel = "x/y"\n\n[hooks]\ntrace = true\n'),
        ('# Which.\n#model = "a/b"\n\n[hooks]\n', '# Which.\nmodel = "x/y"\n\n[hooks]\n'),
        ('a = """\n#model = "t"\n"""\n', 'a = """\n#model = "t"\n"""\nmodel = "x/y"\n'),
    ],
)
def test_a_setting_above_all_tables(text: str, after: str) -> None:
    assert with_top(text, "model", "x/y") == after


def test_a_setting_that_is_there_stays() -> None:
    assert with_top('model = "a/b"\n', "model", "x/y") is None
    assert with_top("model = [", "model", "x/y") is None


NAMES = st.lists(st.sampled_from(["a", "b", "c", 'q"uote', "ü", "#"]), max_size=4, unique=True)
SHAPES = st.sampled_from(["one", "lines", "bare", "dotted", "absent"])


def written(names: list[str], shape: str) -> str:
    quoted = ["'" + name + "'" for name in names]
    body = {
        "one": f"[t]\nbefore = 1\nl = [{', '.join(quoted)}] # behind\nafter = 2\n",
        "lines": "[t]\nl = [\n" + "".join(f"    {item}, # {item}\n" for item in quoted) + "]\n[u]\nl = ['a']\n",
        "bare": "[t]\nl = [ " + " , ".join(quoted) + (" , ]" if quoted else " ]") + "\n",
        "dotted": f"t.l = [{', '.join(quoted)}]\n",
        "absent": "[u]\nl = ['a']",
    }
    return body[shape]


@given(NAMES, NAMES, SHAPES)
def test_whatever_comes_back_reads_as_it_should(present: list[str], items: list[str], shape: str) -> None:
    text = written(present, shape)
    held = [] if shape == "absent" else present
    for edit, left in (
        (extended, [*held, *(item for item in items if item not in held)]),
        (shrunk, [name for name in held if name not in items]),
    ):
        changed = edit(text, "t", "l", items)
        if changed is None:
            assert shape == "dotted"  # which other edits could do, and these do not
            continue
        before, after = tomllib.loads(text), tomllib.loads(changed)
        assert after.get("t", {}).get("l", []) == left
        for data in (before, after):
            data.get("t", {}).pop("l", None)
        assert {k: v for k, v in after.items() if v} == {k: v for k, v in before.items() if v}
        assert all(line in changed for line in text.splitlines() if line.startswith(("before", "after", "[u]")))
