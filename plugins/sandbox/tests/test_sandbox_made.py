"""What a command makes so that others run it later, and what it reaches of the machine through files."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dsh_sandbox import _sandboxes
from dsh_sandbox.bubblewrap import arguments
from dsh_sandbox.commands import describe
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


async def test_a_repository_in_the_workspace_is_not_led_to_them_either(box: Any) -> None:
    inner = box.work / "vendor/inner"
    inner.mkdir(parents=True)
    git("init", "-q", cwd=inner)
    ran = await box.run(
        "cd vendor/inner && mkdir evil && cp -r .git/objects .git/refs .git/HEAD evil/ && cp .git/config evil/config"
        f" && printf '{RISKY}' >> evil/config && echo ../evil > .git/commondir"
    )
    assert ran.code == 0, ran
    git("status", cwd=inner)
    assert not (inner / "escaped").exists()
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


CALLED = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); "
KEYCTL = {"x86_64": 250}.get(os.uname().machine, 219)


@pytest.mark.parametrize("managed", [True, False])
async def test_sockets_that_are_of_no_network_are_not_made(box: Any, managed: bool) -> None:
    """Those of a virtual machine to its host are in no network that could be taken away."""
    program = (
        "import socket\nfor family in (40, 38, 31):\n  try:\n    socket.socket(family, socket.SOCK_STREAM)\n"
        "  except OSError:\n    print('refused')\n  else:\n    print('made', family)\n"
        "socket.socketpair(); print('local')"
    )
    ran = await box.run(f'python3 -c "{program}"', managed=managed)
    assert ran.out.split() == ["refused", "refused", "refused", "local"], ran


@pytest.mark.parametrize("network", ["off", "on"])
async def test_keyrings_are_not_reached(open_box: Any, network: str) -> None:
    async with open_box(network=network) as box:
        ran = await box.run(f'python3 -c "{CALLED}print(c.syscall({KEYCTL}, 0, -3, 0), ctypes.get_errno())"')
    assert ran.out == f"-1 {errno.ENOSYS}\n", ran


async def test_with_network_on_all_kinds_of_sockets_are_made(open_box: Any) -> None:
    async with open_box(network="on") as box:
        ran = await box.run("python3 -c 'import socket; socket.socket(); socket.socket(socket.AF_UNIX); print(1)'")
    assert ran.out == "1\n", ran


async def test_no_ring_makes_sockets_unseen(box: Any) -> None:
    ran = await box.run(f'python3 -c "{CALLED}print(c.syscall(425, 8, ctypes.create_string_buffer(200)))"')
    assert ran.out == "-1\n", ran


async def test_where_no_filter_can_be_had_that_is_told(open_box: Any, covered: Any, monkeypatch: Any) -> None:
    covered("it needs the filter")
    monkeypatch.setattr("dsh_sandbox.bubblewrap.filters", lambda *_: False)
    async with open_box() as box:
        assert (await box.run("echo fine")).out == "fine\n"
        assert (await box.run("echo fine", managed=False)).out == "fine\n"
        assert "keyrings are reached" in (await describe(_sandboxes[box.harness]))["backends"]["bubblewrap"]["lacks"][0]
