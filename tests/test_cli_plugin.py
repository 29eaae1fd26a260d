"""``dsh plugin``: a new plugin's project works as it is written; plugins are shown, installed and removed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from dsh.cli import main
from dsh.cli.plugin.new import LONGEST, TAKEN, check_name, write
from dsh.cli.plugin.template import files
from dsh.config import Config

ROOT = Path(__file__).parents[1]
Dsh = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Dsh:
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(argv)
        shown = capfd.readouterr()
        assert "Traceback" not in shown.err
        return code, shown.out, shown.err

    return run


def python(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["house", "two-words"])
def test_a_new_project_passes_its_own_tests_and_the_checks(dsh: Dsh, tmp_path: Path, name: str) -> None:
    code, out, _ = dsh("plugin", "new", name)
    project = tmp_path / f"dsh-{name}"
    assert code == 0
    assert f"next: cd dsh-{name} && pip install -e '.[test]' && pytest" in out
    assert sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()) == sorted(
        files(name)
    )

    tested = python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, PYTHONPATH=str(project))
    assert tested.returncode == 0, tested.stdout[-3000:]
    assert "4 passed" in tested.stdout

    if name != "house":
        return  # the checks take their time, and the texts are the same
    for tool, *arguments in (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("mypy", "--strict", f"dsh_{name.replace('-', '_')}"),
    ):
        if importlib.util.find_spec(tool) is not None:
            checked = python("-m", tool, *arguments, cwd=project)
            assert checked.returncode == 0, (tool, checked.stdout)


@pytest.mark.parametrize("name", ["a", "a" * LONGEST, "-".join(["a-b"] * LONGEST)[: LONGEST - 1] + "z"])
def test_a_new_project_is_well_formed_whatever_its_name(tmp_path: Path, name: str) -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is needed to check: pip install -e '.[dev]'")
    write(check_name(name), tmp_path / "project")
    for arguments in (("check", "."), ("format", "--check", "--diff", ".")):
        checked = python("-m", "ruff", *arguments, cwd=tmp_path / "project")
        assert checked.returncode == 0, checked.stdout


def test_a_new_project_installs_and_loads(dsh: Dsh, tmp_path: Path) -> None:
    if importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("pip and hatchling are needed to install a plugin: pip install -e '.[dev]'")
    assert dsh("plugin", "new", "house", "here")[0] == 0
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    installed = python("-m", "pip", "install", "-q", *offline, "--target", "site", "./here", cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    shown = python("-m", "dsh", "plugin", "info", "house", "--json", cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    record = json.loads(shown.stdout)
    assert (record["state"], record["version"], record["distribution"]) == ("loaded", "0.1.0", "dsh-house")
    assert record["description"] == "Keeps forbidden words out of commands, and tells the model the time."
    assert [hook["hook"] for hook in record["hooks"]] == [
        "dsh_configure",
        "prompt_sections",
        "tools_pre_execute",
        "tools_register",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is no name for a plugin"),
        ("Big", "is no name for a plugin"),
        ("../x", "is no name for a plugin"),
        ("a--b", "is no name for a plugin"),
        ("class", "is no name for a plugin"),
        ("x" * 41, "is no name for a plugin"),
        ("dsh-mine", "leave the dsh out"),
        ("shell", "there is a plugin shell already, of dsh-harness"),
    ],
)
def test_names_that_cannot_be_are_refused(dsh: Dsh, tmp_path: Path, name: str, words: str) -> None:
    code, out, err = dsh("plugin", "new", name)
    assert (code, out) == (2, "")
    assert words in err
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]


def test_nothing_is_written_over(dsh: Dsh, tmp_path: Path) -> None:
    (tmp_path / "dsh-house").mkdir()
    code, _, err = dsh("plugin", "new", "house")
    assert (code, "dsh-house exists already" in err) == (2, True)
    assert list((tmp_path / "dsh-house").iterdir()) == []
    (tmp_path / "file").write_text("")
    code, _, err = dsh("plugin", "new", "house", "file/inside")
    assert (code, "cannot be written" in err) == (2, True)


def test_info_of_bundled_and_missing_plugins(dsh: Dsh) -> None:
    pytest.importorskip("dsh_shell")
    code, out, _ = dsh("plugin", "info", "shell")
    assert code == 0
    assert out.startswith("shell ")
    assert "tools_register" in out
    assert "__init__.py:" in out
    code, _, err = dsh("plugin", "info", "shel")
    assert code == 2
    assert "there is no plugin shel, did you mean shell?" in err
    assert dsh("plugin", "info")[0] == 2


def test_what_is_part_of_dsh_is_not_removed(dsh: Dsh) -> None:
    pytest.importorskip("dsh_shell")
    code, _, err = dsh("plugin", "remove", "shell")
    assert code == 2
    assert "is part of dsh; `--no-plugin shell` runs without it" in err
    assert "there is no plugin nothing" in dsh("plugin", "remove", "nothing")[2]


def test_the_list_is_that_of_plugins(dsh: Dsh) -> None:
    assert dsh("plugin", "list")[1] == dsh("plugins")[1]


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling builds the plugin")
def test_installing_and_removing_in_an_environment_of_its_own(dsh: Dsh, tmp_path: Path) -> None:
    """A fresh environment that sees this one's packages: what is installed goes there, and comes away again."""
    made = python("-m", "venv", "--system-site-packages", "env", cwd=tmp_path)
    if made.returncode:
        pytest.skip(f"no virtual environment can be made: {made.stderr[-200:]}")
    assert dsh("plugin", "new", "house")[0] == 0
    inside = tmp_path / "env/bin/python"
    paths = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "PYTHONPATH": paths, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(inside), "-m", "dsh", "plugin", *arguments]
        return subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180)

    installed = run("install", "./dsh-house")
    assert installed.returncode == 0, installed.stderr
    assert installed.stdout == "house (dsh-house) is loaded from now on; `dsh plugin info house` shows what it does\n"
    assert run("info", "house").stdout.startswith("house 0.1.0: loaded\n")
    removed = run("remove", "house")
    assert removed.returncode == 0, removed.stderr
    assert run("info", "house").returncode == 2
    if importlib.util.find_spec("editables") is not None:  # which hatchling asks for
        editable = run("install", "-e", "./dsh-house")
        assert (editable.returncode, "house (dsh-house) is loaded" in editable.stdout) == (0, True), editable.stderr
        assert run("info", "house").stdout.startswith("house 0.1.0: loaded\n")
        assert run("remove", "house").returncode == 0
    package = tmp_path / "dsh-house/dsh_house/__init__.py"
    package.write_text(f"{package.read_text()}\nimport nothing_such\n")
    broken = run("install", "./dsh-house")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "house (dsh-house) is installed, and cannot be loaded: " in broken.stderr
    assert "No module named 'nothing_such'" in broken.stderr
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/pyproject.toml").write_text("x = [")
    wrong = run("install", "./odd")
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
    assert wrong.stderr.endswith("dsh: pip failed; -v shows all that it says\n")


def test_without_an_action_it_is_the_list(dsh: Dsh) -> None:
    assert dsh("plugin")[1] == dsh("plugins")[1]
    code, _, err = dsh("plugin", "list", "todo")
    assert (code, err) == (2, "dsh: dsh plugin list shows all of them; of one: dsh plugin info todo\n")


def test_what_is_lost_with_a_plugin_is_said(dsh: Dsh) -> None:
    pytest.importorskip("dsh_jsonl")
    assert "no session is stored" in dsh("plugin", "disable", "jsonl")[2]
    assert "without loop no model can be asked" in dsh("plugin", "disable", "loop")[2]
    assert dsh("plugin", "disable", "jsonl", "-q")[2] == ""


def test_no_plugin_is_called_as_settings_of_dsh_are() -> None:
    core = {field.name for field in attrs.fields(Config) if field.init and field.eq} - {"tables"}
    assert core <= TAKEN
