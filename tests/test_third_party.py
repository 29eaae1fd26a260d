"""Plugins of other people: installed as packages, found by their entry points."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OFFLINE = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(call("bash", {"command": "touch RAN"}), text("done")))
"""

GUARD = """\
from dsh import Deny, hookimpl

@hookimpl
def tools_pre_execute(call):
    if "touch" in str(call.arguments):
        return Deny("nothing is touched here")
"""

PYPROJECT = """\
[project]
name = "dsh-{name}"
version = "1.0"
dependencies = ["dsh-harness"]
[project.entry-points.dsh]
{name} = "dsh_{name}"
"""


def pip_install(source: Path, target: Path) -> None:
    """Install a project where `PYTHONPATH` finds it, as pip would into an environment."""
    if importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("pip and hatchling are needed to install a plugin: pip install -e '.[dev]'")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *OFFLINE, "--target", str(target), str(source)],
        check=True,
        capture_output=True,
    )


def six_lines(folder: Path, name: str, code: str) -> Path:
    """A plugin of one module and six lines of project file."""
    project = folder / f"project-{name}"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        PYPROJECT.format(name=name)
        + '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        + f'[tool.hatch.build.targets.wheel]\nonly-include = ["dsh_{name}.py"]\n'
    )
    (project / f"dsh_{name}.py").write_text(code)
    return project


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "scripted_model.py"
    path.write_text(MODEL)
    return path


def dsh(tmp_path: Path, site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    env = {**os.environ, "DSH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(site), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "dsh", *arguments], cwd=work, env=env, capture_output=True, text=True, timeout=120
    )


def states(tmp_path: Path, site: Path) -> dict[str, str]:
    listed = dsh(tmp_path, site, "plugins", "--json")
    return {entry["name"]: entry["state"] for entry in json.loads(listed.stdout)}


def test_a_copy_of_a_bundled_plugin_and_one_of_six_lines(tmp_path: Path, site: Path, model: Path) -> None:
    """Copied out and renamed, a bundled plugin works; a small one beside it denies a call."""
    copy = tmp_path / "myfiles"
    shutil.copytree(ROOT / "plugins/files", copy, ignore=shutil.ignore_patterns("__pycache__", "build", "dist"))
    (copy / "dsh_files").rename(copy / "dsh_myfiles")
    for path in (*copy.rglob("*.py"), *copy.rglob("*.toml")):
        renamed = path.read_text().replace("dsh_files", "dsh_myfiles").replace("dsh-files", "dsh-myfiles")
        path.write_text(renamed.replace('files = "dsh_myfiles"', 'myfiles = "dsh_myfiles"'))
    pip_install(copy, site)
    pip_install(six_lines(tmp_path, "nottouch", GUARD), site)

    listed = states(tmp_path, site)
    assert listed["myfiles"] == listed["nottouch"] == "loaded"

    flags = [
        "-p",
        "go",
        "-m",
        "scripted/model",
        "-e",
        str(model),
        "--no-plugin",
        "files",
        "--output-format",
        "stream-json",
        "--permission-mode",
        "bypass",
    ]
    ran = dsh(tmp_path, site, *flags)
    assert ran.returncode == 0, ran.stderr
    assert "nothing is touched here" in ran.stdout
    decisions = [json.loads(line) for line in ran.stdout.splitlines()]
    denied = [d["event"]["data"] for d in decisions if d.get("event", {}).get("type") == "hook/decision"]
    assert [(d["plugin"], d["version"], d["verdict"]) for d in denied] == [("nottouch", "1.0", "deny")]
    assert not (tmp_path / "work/RAN").exists()


def test_a_plugin_that_raises_on_import_is_reported_and_skipped(tmp_path: Path, site: Path, model: Path) -> None:
    pip_install(six_lines(tmp_path, "broken", "raise RuntimeError('out of order')\n"), site)

    assert states(tmp_path, site)["broken"] == "failed"
    ran = dsh(tmp_path, site, "-p", "go", "--permission-mode", "bypass", "-m", "scripted/model", "-e", str(model))
    assert ran.returncode == 0
    assert ran.stdout == "done\n"
    assert "broken" in ran.stderr
    assert "dsh-broken" in ran.stderr
    assert "out of order" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_required_plugin_that_raises_stops_the_program(tmp_path: Path, site: Path, model: Path) -> None:
    pip_install(six_lines(tmp_path, "broken", "raise RuntimeError('out of order')\n"), site)

    required = ["--config", 'plugins.required=["broken"]']
    ran = dsh(
        tmp_path, site, "-p", "go", "--permission-mode", "bypass", "-m", "scripted/model", "-e", str(model), *required
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "broken" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "work/RAN").exists()


def test_a_required_plugin_that_is_missing_stops_the_program(tmp_path: Path, site: Path, model: Path) -> None:
    required = ["--config", 'plugins.required=["guardian"]']
    ran = dsh(
        tmp_path, site, "-p", "go", "--permission-mode", "bypass", "-m", "scripted/model", "-e", str(model), *required
    )
    assert ran.returncode == 2
    assert "guardian" in ran.stderr


def test_two_distributions_with_one_plugin_name_are_an_error(tmp_path: Path, site: Path, model: Path) -> None:
    """Nobody replaces a guard by being installed."""
    pip_install(six_lines(tmp_path, "shell", GUARD), site)

    ran = dsh(tmp_path, site, "-p", "go", "--permission-mode", "bypass", "-m", "scripted/model", "-e", str(model))
    assert ran.returncode == 2
    assert "dsh-shell 1.0" in ran.stderr
    assert "dsh-harness" in ran.stderr
    assert "Traceback" not in ran.stderr
