"""What a command makes so that others run it later, and what it reaches of the machine through files."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_sandbox.bubblewrap import arguments
from dsh_sandbox.config import SandboxConfig
from dsh_sandbox.policy import policy_for

RISKY = "[core]\n\tfsmonitor = touch escaped; false\n"


def git(*words: str, cwd: Path) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=False)
    return done.stdout


async def test_sockets_of_services_are_not_reached_wherever_they_lie(box: Any) -> None:
    place = box.outside / "service.sock"
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(place))
        service.listen()
        program = (
            f"import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect({str(place)!r}); print('in')"
        )
        ran = await box.run(f'python3 -c "{program}"')
    assert ran.code != 0
    assert "in\n" not in ran.out
    assert ran.refused is None


async def test_git_is_not_led_to_settings_of_a_command(box: Any) -> None:
    git("init", "-q", cwd=box.work)
    ran = await box.run(
        "mkdir evil && cp -r .git/objects .git/refs .git/HEAD evil/ && cp .git/config evil/config"
        f" && printf '{RISKY}' >> evil/config && echo ../evil > .git/commondir"
    )
    assert ran.code == 0, ran
    git("status", cwd=box.work)
    assert not (box.work / "escaped").exists()
    assert not (box.work / ".git/commondir").exists()
    assert any("commondir" in warning for warning in box.warnings)


async def test_what_git_and_dsh_would_run_is_told_of_when_it_is_made(box: Any) -> None:
    await box.run("mkdir -p .git/hooks .dsh; touch .git/hooks/pre-commit .dsh/config.toml")
    for name in (".git", ".dsh"):
        assert any(f"a command made {box.work / name}" in warning for warning in box.warnings), box.warnings


@pytest.mark.parametrize("setting", ["[alias]\\n x = !ls", "[core]\\n hooksPath = x", "[include]\\n path = /x"])
async def test_settings_that_run_programs_are_told_of(box: Any, setting: str) -> None:
    await box.run(f"git init -q; printf '{setting}\\n' >> .git/config")
    assert any(f"a command made {box.work / '.git'}" in warning for warning in box.warnings)


async def test_a_plain_new_repository_is_nothing_to_tell_of(box: Any) -> None:
    ran = await box.run("git init -q && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x")
    assert ran.code == 0
    assert not any("a command made" in warning for warning in box.warnings)


async def test_repositories_in_the_workspace_are_protected_too(box: Any, covered: Callable[[str], None]) -> None:
    covered("git's hooks and settings")
    for name in ("inner", "vendor/lib"):
        (box.work / name).mkdir(parents=True)
        git("init", "-q", cwd=box.work / name)
        ran = await box.run(f"cd {name} && echo x > .git/hooks/pre-commit; cd {name}; git config core.fsmonitor x")
        assert "Read-only" in ran.text
        assert not (box.work / name / ".git/hooks/pre-commit").exists()
        assert "fsmonitor" not in (box.work / name / ".git/config").read_text()


def test_links_in_the_temporary_directory_lead_nobody_out(tmp_path: Path) -> None:
    """The name that the working directory was given by is made anew there, and not where a command wants it."""
    work, room, target = (tmp_path / name for name in ("work", "room", "target"))
    for folder in (work, room, target):
        folder.mkdir()
    (room / "elsewhere").symlink_to(target)
    policy = policy_for(
        SandboxConfig(), "workspace-write", cwd=str(work), workspace=str(work), home=str(tmp_path), temp=str(room)
    )
    for named in ("/tmp/elsewhere/deep/work", "/tmp/other/deep/work"):
        arguments("bwrap", (), policy, ("true",), nothing="/dev/null", named=named)
    assert list(target.iterdir()) == []
    assert (room / "other/deep/work").resolve() == work.resolve()
