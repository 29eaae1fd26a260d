"""``dsh init``: a file that sets nothing, in which everything is real."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path

import pytest

from dsh import open_harness
from dsh.cli import main
from dsh.cli.init import PROJECT, USER
from dsh.config import config_files, load_config
from dsh.trust import TrustStore, read_folder

TEXTS = pytest.mark.parametrize("text", [USER, PROJECT], ids=["user", "project"])


def uncommented(text: str) -> str:
    """All settings without the sign that keeps them from counting."""
    return re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)


@TEXTS
def test_nothing_is_set(text: str) -> None:
    data = tomllib.loads(text)
    assert all(table == {} for table in data.values())
    assert all(len(line) <= 115 for line in text.splitlines())


@TEXTS
def test_every_line_is_a_setting_or_says_something(text: str) -> None:
    for line in text.splitlines():
        assert re.match(r"$|#$|# \S|#\[?[a-z_.]+(\]$| = )|\[[a-z]+\]$", line), line
    assert len(re.findall(r"^#[a-z_.]+ = ", text, re.MULTILINE)) >= 8


@TEXTS
async def test_every_setting_in_it_is_real(text: str, home: Path) -> None:
    settings = uncommented(text)
    data = tomllib.loads(settings)
    assert len(data) >= 5
    price = '[models."deepseek/deepseek-v4-flash"]\nprice = { input = 1.0, output = 2.0 }\n'  # for the budget
    (home / "config.toml").write_text(f"{settings}\n{price}")
    config = load_config(cwd=Path.cwd(), home=home, environ={}, profile="careful" if text is USER else None)
    async with open_harness(config, home=home) as harness:
        assert harness.config.unclaimed() == []


def test_it_is_written_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.rmdir()
    assert main(["init"]) == 0
    assert capsys.readouterr().out == f"{home}/config.toml\n"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert (home / "config.toml").read_text() == USER
    (home / "config.toml").write_text("# mine\n")
    assert main(["init"]) == 2
    assert "exists already, and stays as it is" in capsys.readouterr().err
    assert (home / "config.toml").read_text() == "# mine\n"


def test_a_projects(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = Path.cwd()
    (work / ".git").mkdir()
    (work / "below").mkdir()
    assert main(["init", "--project", "-C", "below"]) == 0
    assert capsys.readouterr().out == f"{work}/.dsh/config.toml\n"
    assert main(["init", "--project"]) == 2
    files = config_files(cwd=work, home=home, environ={})
    assert files.project == work / ".dsh" / "config.toml"
    assert TrustStore(home).judged(read_folder(work, work)).wants == ()
    assert main(["config"]) == 0


def test_your_own_settings_are_no_projects(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSH_HOME", str(Path.cwd() / ".dsh"))
    assert main(["init", "--project"]) == 2
    assert "not a project's" in capsys.readouterr().err
    assert main(["init"]) == 0


# -- dsh plugin disable and enable


def test_a_plugin_is_switched_off_and_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert main(["plugin", "disable", "todo", "spill"]) == 0
    assert (home / "config.toml").read_text() == USER.replace("#disabled = []", 'disabled = ["todo", "spill"]')
    capsys.readouterr()
    assert main(["plugins"]) == 0
    assert re.search(r"^todo .*blocked", capsys.readouterr().out, re.MULTILINE)
    assert main(["plugin", "enable", "todo"]) == 0
    assert main(["plugin", "enable", "spill"]) == 0
    assert (home / "config.toml").read_text() == USER.replace("#disabled = []", "disabled = []")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["disable", "sandbox"], "sandbox is a required guard and cannot be disabled by a setting"),
        (["disable", "shell"], "shell is a required guard"),
        (["disable", "tood"], "there is no plugin tood, did you mean todo?"),
        (["enable", "tood"], "there is no plugin tood, did you mean todo?"),
        (["disable"], "name a plugin"),
    ],
)
def test_what_is_not_switched_off(
    home: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[plugins]\nrequired = ["shell"]\n'
    (home / "config.toml").write_text(text)
    assert main(["plugin", *argv]) == 2
    assert message in capsys.readouterr().err
    assert (home / "config.toml").read_text() == text


def test_settings_that_cannot_be_changed_without_loss_stay(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'plugins = { disabled = ["todo"] }\n'
    (home / "config.toml").write_text(text)
    assert main(["plugin", "disable", "spill"]) == 2
    assert "do it by hand" in capsys.readouterr().err
    assert (home / "config.toml").read_text() == text


def test_who_else_keeps_a_plugin_off_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugin", "disable", "todo"]) == 0
    assert main(["plugin", "enable", "todo", "--config", 'plugins.disabled=["todo"]']) == 1
    assert "todo: still disabled, by --config plugins.disabled" in capsys.readouterr().err


def test_settings_behind_a_link_stay_there(home: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text("# mine\n")
    (home / "config.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert main(["plugin", "disable", "todo"]) == 0
    assert (home / "config.toml").is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text() == '# mine\n\n[plugins]\ndisabled = ["todo"]\n'
