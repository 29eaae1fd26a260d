"""The sandbox through the whole command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from dsh_sandbox.box import find_backend

KEY = "sk-test-0123456789"
"""What the runs of these tests have as their provider's key."""


def missing() -> str:
    with tempfile.TemporaryDirectory() as temp:
        return find_backend("auto", temp)[1]


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def bash(command: str, **more: str) -> dict[str, Any]:
    return {"calls": [["bash", {"command": command, **more}]]}


@pytest.fixture
def run(stage: Any) -> Callable[..., Any]:
    """Have a model run a command, and say that it is done."""

    def run(*calls: dict[str, Any], flags: Sequence[str] = (), freely: bool = True) -> Any:
        stage.freely = freely
        with stage.serving(stage.script(*calls, {"text": "done"})):
            return stage.run("go", *flags)

    return run


def test_a_run_is_confined_unless_it_is_told_not_to_be(stage: Any, run: Any) -> None:
    folder = stage.tmp / "other"
    folder.mkdir()
    # in a directory of the machine's that is no temporary one
    target = "/usr/dsh-made-by-a-test"
    ran = run(bash(f"echo x > {target}; touch here"), flags=["-v"])

    assert (ran.code, ran.out) == (0, "done\n")
    assert not os.path.exists(target)
    assert (stage.work / "here").exists()
    assert "commands run in a sandbox of " in ran.err
    assert "this may be the sandbox's doing" not in ran.results[0], "the last command went well"


def test_without_verbose_nothing_is_said_of_the_sandbox(run: Any) -> None:
    assert "sandbox" not in run(bash("true")).err


def test_danger_full_access_is_no_sandbox(stage: Any, run: Any) -> None:
    ran = run(bash(f"echo x > {stage.tmp}/made"), flags=["-s", "danger-full-access"])

    assert (ran.code, (stage.tmp / "made").read_text()) == (0, "x\n")


def test_read_only_keeps_the_workspace_as_it_is(stage: Any, run: Any) -> None:
    ran = run(bash("touch here"), flags=["--sandbox", "read-only"])

    assert ran.results[0].splitlines()[-1] == "[exit code: 1]"
    assert not (stage.work / "here").exists()


def test_a_folder_of_add_dir_can_be_written(stage: Any, run: Any) -> None:
    other = stage.tmp / "other"
    other.mkdir()
    run(bash(f"touch {other}/made"), flags=["--add-dir", str(other)])

    assert (other / "made").exists()


@pytest.mark.parametrize("flags", [("-s", "workspace-write"), ("--config", "sandbox.mode=read-only")])
def test_a_sandbox_that_was_asked_for_and_cannot_be_had_is_exit_2(stage: Any, run: Any, flags: tuple[str, ...]) -> None:
    stage.env["PATH"] = str(Path(sys.executable).parent)  # without bubblewrap
    ran = run(bash("touch here"), flags=[*flags, "--config", "sandbox.backend=bubblewrap"])

    assert ran.code == 2
    assert ran.codes == ["SANDBOX_UNAVAILABLE"]
    assert "bubblewrap (bwrap) is not installed" in ran.results[0]
    assert "the sandbox they need cannot be had" in ran.err
    assert not (stage.work / "here").exists()


def test_one_that_was_not_asked_for_is_a_warning(stage: Any, run: Any) -> None:
    stage.env["PATH"] = str(Path(sys.executable).parent)
    ran = run(
        bash("echo x > here"), flags=["--config", "sandbox.backend=bubblewrap", "--config", "shell.shell=/bin/bash"]
    )

    assert ran.code == 0
    assert ran.err.count("commands run WITHOUT a sandbox") == 1
    assert (stage.work / "here").exists()


def test_outside_needs_a_person(stage: Any, run: Any) -> None:
    asked = bash(f"touch {stage.tmp}/made", sandbox="outside", justification="it is needed")
    ran = run(asked, flags=["--allowed-tools", "bash(*)"], freely=False)

    assert ran.code == 3
    assert not (stage.tmp / "made").exists()


def test_where_nobody_would_be_asked_nothing_runs_outside(stage: Any, run: Any) -> None:
    ran = run(bash(f"touch {stage.tmp}/made", sandbox="outside", justification="it is needed"))

    assert "no command may run outside of the sandbox here" in ran.results[0]
    assert not (stage.tmp / "made").exists()


def test_a_project_cannot_loosen_the_sandbox(stage: Any, run: Any) -> None:
    (stage.work / ".dsh").mkdir(parents=True)
    (stage.work / ".dsh/config.toml").write_text('[sandbox]\nmode = "danger-full-access"\nwritable = ["/usr"]\n')
    run(bash("touch /usr/dsh-made-by-a-test"))

    assert not os.path.exists("/usr/dsh-made-by-a-test")


def test_keys_stay_out_of_commands_and_of_the_log(stage: Any, run: Any) -> None:
    stage.env |= {"DB_PASSWORD": "correct-horse", "MY_URL": f"https://user:{KEY}@example.org/", "PLAIN": "plain-value"}
    ran = run(
        bash("env; true"),
        bash(
            "a=sk-test-01; echo ${a}23456789; printf user:${a}23456789 | base64; "
            "printf ${a}23456789 | od -An -tx1 | tr -d ' \\n'"
        ),
        bash("printf ' ghp_%s\\n' 0123456789abcdefghijABCDEFGHIJ012345"),
    )

    assert KEY not in stage.log.read_text()
    assert "plain-value" in ran.results[0]
    assert "correct-horse" not in ran.results[0]
    assert "MY_URL" not in ran.results[0]
    assert ran.results[1].count("[secret OPENAI_API_KEY]") == 3, ran.results[1]
    assert ran.results[2] == " [secret: GitHub token]\n"


def test_keep_env_lets_a_variable_through(stage: Any, run: Any) -> None:
    stage.env |= {"CI_TOKEN": "wanted-value", "OTHER_TOKEN": "unwanted-value"}
    ran = run(bash("env"), flags=["--config", 'secrets.keep_env=["CI_*"]'])

    assert "CI_TOKEN=wanted-value" in ran.results[0]
    assert "unwanted-value" not in ran.results[0]


def command(stage: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    stage.work.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "dsh", "sandbox", *arguments],
        cwd=stage.work,
        env={**os.environ, "DSH_HOME": str(stage.home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_says_what_can_be_done_here(stage: Any) -> None:
    told = command(stage, "check")
    facts = json.loads(command(stage, "check", "--json").stdout)

    assert (told.returncode, facts["backend"] in ("bubblewrap", "landlock")) == (0, True)
    assert facts["backends"][facts["backend"]]["works"]
    assert facts["backend"] in told.stdout


def test_the_command_runs_a_command(stage: Any) -> None:
    ran = command(stage, "run", "--", "bash", "-c", "touch here; touch /usr/dsh-made-by-a-test; echo said; exit 7")
    assert (ran.returncode, ran.stdout) == (7, "said\n")
    assert (stage.work / "here").exists()

    assert command(stage, "run", "-s", "read-only", "--", "touch", "there").returncode == 1
    absent = command(stage, "run", "--", "no-such-program")
    assert absent.returncode == 127
    assert "no-such-program: there is no such command" in absent.stderr
    assert command(stage, "run").returncode == 2
    assert not os.path.exists("/usr/dsh-made-by-a-test")
