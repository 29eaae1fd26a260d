"""Writing a rule into a project's settings: nothing that stood there is lost, and the folder stays trusted."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from dsh_permissions.project import CannotWrite, add_rules, plan, write
from hypothesis import example, given
from hypothesis import strategies as st

from dsh.trust import TrustStore, read_folder


def added(text: str | None, *rules: str) -> str | None:
    found = add_rules(None if text is None else text.encode(), rules)
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, '[permissions]\nallow = [\n    "new",\n]\n'),
        ("", '\n[permissions]\nallow = ["new"]\n'),
        ('model = "x"', 'model = "x"\n\n[permissions]\nallow = ["new"]\n'),
        ("[permissions] # mine\n", '[permissions] # mine\nallow = ["new"]\n'),
        ("[permissions]", '[permissions]\nallow = ["new"]\n'),
        ('[permissions]\ndeny = ["x"]\n', '[permissions]\nallow = ["new"]\ndeny = ["x"]\n'),
        ("[permissions]\nallow = []\n", '[permissions]\nallow = ["new"]\n'),
        ('[permissions]\nallow = ["a"]\n', '[permissions]\nallow = ["a", "new"]\n'),
        ('[permissions]\nallow = ["a",]\n', '[permissions]\nallow = ["a", "new",]\n'),
        ('[permissions]\nallow = [\n  "a", # why\n]\n', '[permissions]\nallow = [\n  "a", # why\n    "new",\n]\n'),
        ('[permissions]\nallow = [\n  "a" # why\n]\n', '[permissions]\nallow = [\n  "a", # why\n    "new",\n]\n'),
        ("[permissions]\nallow = [\n  # none yet\n]\n", '[permissions]\nallow = [\n  # none yet\n    "new",\n]\n'),
        ('[permissions]\nallow = [\'a]\', """b]"""]\n', '[permissions]\nallow = [\'a]\', """b]""", "new"]\n'),
        ('[permissions]\nallow = ["new"]\n', '[permissions]\nallow = ["new"]\n'),
        (
            '[permissions]\nallow = ["a"]\n[shell]\nallow = []\n',
            '[permissions]\nallow = ["a", "new"]\n[shell]\nallow = []\n',
        ),
    ],
)
def test_a_rule_is_added_and_everything_else_stays(before: str | None, after: str) -> None:
    assert added(before, "new") == after


@pytest.mark.parametrize(
    "text",
    [
        'permissions.allow = ["a"]\n',
        'permissions = { allow = ["a"] }\n',
        "[permissions]\nallow = 3\n",
        "permissions = 3\n",
        "this is no toml",
        "\xff",
        '["permissions"]\nallow = ["a"]\n',
    ],
)
def test_what_cannot_be_changed_without_loss_is_not(text: str) -> None:
    assert added(text, "new") is None


RULES = st.text(min_size=1, max_size=12)
COMMENTS = st.sampled_from(["", " # ]", ' # "x", [permissions]', "\t# allow = ["])


@given(st.lists(RULES, max_size=3), st.lists(RULES, min_size=1, max_size=3), COMMENTS, st.booleans(), st.booleans())
@example(['a"]'], ["#"], " # ]", True, True)
def test_the_result_always_says_both(old: list[str], new: list[str], comment: str, lines: bool, comma: bool) -> None:
    import tomli_w

    items = [tomli_w.dumps({"x": item}).partition(" = ")[2].strip() for item in old]
    if lines:
        body = "".join(f"\n  {item}{',' if comma or item is not items[-1] else ''}{comment}" for item in items)
        text = f'a = 1{comment}\n[permissions]{comment}\nallow = [{body}\n]{comment}\n[z]\nb = "["\n'
    else:
        text = f'a = 1{comment}\n[permissions]{comment}\nallow = [{", ".join(items)}]{comment}\n[z]\nb = "["\n'
    result = added(text, *new)
    assert result is not None
    data = tomllib.loads(result)
    assert data["permissions"] == {"allow": [*old, *dict.fromkeys(rule for rule in new if rule not in old)]}
    assert (data["a"], data["z"]) == (1, {"b": "["})
    assert result.count(comment) >= text.count(comment)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work/.git").mkdir(parents=True)
    return tmp_path / "work"


def test_a_link_is_not_replaced_by_a_file(root: Path, tmp_path: Path) -> None:
    (root / ".dsh").mkdir()
    elsewhere = tmp_path / "dotfiles.toml"
    elsewhere.write_text("# mine\n")
    (root / ".dsh/config.local.toml").symlink_to(elsewhere)
    for rule in ("one", "two", "one"):
        planned = plan([rule], root, tmp_path / "home")
        assert "cannot be changed without losing some of it" in planned.note
        write(planned, tmp_path / "home")
    assert elsewhere.read_text() == "# mine\n"
    assert tomllib.loads((root / ".dsh/config.allowed.toml").read_text()) == {"permissions": {"allow": ["one", "two"]}}
    folder = TrustStore(tmp_path / "home").judged(read_folder(root, root))
    assert folder.trusted
    assert folder.wants == (".dsh/config.allowed.toml: permissions.allow",)


def test_a_folder_that_is_a_link_is_not_written_through(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / ".dsh").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotWrite, match="cannot be written"):
        write(plan(["one"], root, tmp_path / "home"), tmp_path / "home")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_users_own_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CannotWrite, match="your own settings"):
        plan(["one"], tmp_path, tmp_path / ".dsh")
    (tmp_path / ".git").mkdir()
    with pytest.raises(CannotWrite, match="your own settings"):
        plan(["one"], tmp_path, tmp_path / ".dsh")


def test_trust_is_for_what_was_looked_at_and_the_new_rule_alone(root: Path, tmp_path: Path) -> None:
    store = TrustStore(tmp_path / "home")
    (root / ".dsh/plugins").mkdir(parents=True)
    (root / ".dsh/plugins/x.py").write_text("X = 1\n")
    store.keep(read_folder(root, root), True)
    planned = plan(["one"], root, tmp_path / "home")
    (root / ".dsh/plugins/x.py").write_text("X = 'swapped meanwhile'\n")
    write(planned, tmp_path / "home")
    assert not store.judged(read_folder(root, root)).trusted
    (root / ".dsh/plugins/x.py").write_text("X = 1\n")
    assert store.judged(read_folder(root, root)).trusted


def test_the_mode_of_a_file_stays_and_nothing_is_left_beside_it(root: Path, tmp_path: Path) -> None:
    (root / ".dsh").mkdir()
    local = root / ".dsh/config.local.toml"
    local.write_text("")
    local.chmod(0o600)
    write(plan(["one"], root, tmp_path / "home"), tmp_path / "home")
    assert local.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in local.parent.iterdir()] == ["config.local.toml"]
