"""``dsh sandbox``: what it can do here, and a command in it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from dsh import Config, ConfigError, open_harness
from dsh.errors import DshError
from dsh.jsonvalue import dumps
from dsh.process import Process, scrubbed_environment

if TYPE_CHECKING:
    from dsh.checks import Checks

    from .box import Sandbox

__all__ = ["check", "configure", "describe", "run"]

FAILED = 125
"""The status where the command did not run."""
NOT_FOUND = 127
"""The status where there is no such command, as in a shell."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh sandbox``."""
    parser.add_argument("action", nargs="?", choices=("check", "run"), default="check", metavar="check|run")
    parser.add_argument("prompt", nargs="*", metavar="COMMAND", help="run: behind --, the program and its arguments")
    parser.add_argument("-s", "--sandbox", choices=("read-only", "workspace-write"), help="run: the mode")
    parser.add_argument("--json", action="store_true", help="check: print JSON")


def run(args: argparse.Namespace, config: Config) -> int:
    """Do what `args` say.

    Raises:
        ConfigError: a flag is wrong.
    """
    if args.action == "run" and not args.prompt:
        raise ConfigError("dsh sandbox run needs a command: dsh sandbox run -- ls /", code="USAGE")
    if args.action == "check" and args.prompt:
        raise ConfigError("dsh sandbox check takes no command; to run one: dsh sandbox run -- COMMAND", code="USAGE")
    return trio.run(_run, args, config, Path(args.cd or ".").resolve())


async def _run(args: argparse.Namespace, config: Config, cwd: Path) -> int:
    from attrs import evolve

    from dsh_sandbox import _sandboxes

    tables = dict(config.tables)
    table = dict(tables.get("sandbox", {}))
    if args.sandbox or table.get("mode") in (None, "danger-full-access"):
        table["mode"] = args.sandbox or "workspace-write"
    tables["sandbox"] = table
    async with open_harness(evolve(config, agents=(), tables=tables), safe_mode=args.safe_mode) as harness:
        box = _sandboxes[harness]
        if args.action == "run":
            return await _command(box, args.prompt, cwd)
        facts = await describe(box)
        if args.json:
            print(dumps(facts).decode())
        else:
            _print(facts)
        return 0 if facts["backend"] is not None else 1


async def describe(box: Sandbox) -> dict[str, Any]:
    """What the sandbox can do here, for people and for programs; tries the backends."""
    from dsh_sandbox import bubblewrap, landlock
    from dsh_sandbox.box import find_backend
    from dsh_sandbox.config import BACKENDS

    backend, why = await box.backend()
    temp = box.probe_folder()
    others: dict[str, dict[str, Any]] = {}
    for name in BACKENDS:
        found, reason = await trio.to_thread.run_sync(find_backend, name, temp)
        others[name] = {
            "works": found is not None,
            "reason": reason or None,
            "lacks": list(found.lacks) if found else [],
        }
    others["bubblewrap"]["program"] = bubblewrap.find()
    others["landlock"]["version"] = landlock.version()
    return {
        "backend": None if backend is None else backend.name,
        "reason": why or None,
        "mode": box.base,
        "network": box.config.network,
        "writable": list(box.config.writable),
        "backends": others,
        "exempt": [list(entry) for entry in box.exempt],
    }


async def check(box: Sandbox, checks: Checks) -> None:
    """What ``dsh doctor`` says of the sandbox."""
    facts = await describe(box)
    name = facts["backend"]
    if name is None:
        advice = "install bubblewrap (Debian: apt install bubblewrap), or use a kernel with Landlock"
        checks.warning("sandbox", f"no sandbox can be had here: {facts['reason']}", advice, order=65)
        return
    checks.ok("sandbox", f"{name} works; network {facts['network']}", order=65)
    lacks = facts["backends"][name]["lacks"]
    if lacks:
        why = facts["backends"]["bubblewrap"]["reason"]
        advice = f"bubblewrap covers more: {why}" if why else "bubblewrap covers more"
        checks.note("sandbox", f"not covered: {'; '.join(lacks)}", advice, order=65)


def _print(facts: dict[str, Any]) -> None:
    if facts["backend"] is None:
        print(f"no sandbox can be had here: {facts['reason']}")
    else:
        print(f"sandbox: {facts['backend']}, {facts['mode']}, network {facts['network']}")
    for name, found in facts["backends"].items():
        version = f" version {found['version']}" if found.get("version") else ""
        print(f"{name}{version}: {'works' if found['works'] else found['reason']}")
        for lack in found["lacks"]:
            print(f"  does not cover: {lack}")


async def _command(box: Sandbox, argv: list[str], cwd: Path) -> int:
    """Run a command in the sandbox, with this program's input and output; its exit status."""
    environment = scrubbed_environment()
    if not _is_there(argv[0], cwd, environment.get("PATH")):
        print(f"dsh: {argv[0]}: there is no such command", file=sys.stderr)
        return NOT_FOUND
    process = Process(tuple(argv), environment, str(cwd), purpose="dsh sandbox run", managed=True)
    try:
        prepared = await box.harness.hook.process_prepare(agent=None, process=process, default=lambda: process)
    except DshError as error:
        print(f"dsh: {error}", file=sys.stderr)
        return FAILED
    try:
        child = _start(prepared)
    except OSError as error:
        print(f"dsh: {argv[0]}: {error.strerror}", file=sys.stderr)
        return FAILED
    try:
        await trio.to_thread.run_sync(child.wait, abandon_on_cancel=True)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        else:
            _end_rest(child.pid)
    assert prepared.confinement is not None
    why = prepared.confinement.ended(child.returncode if child.returncode >= 0 else None)
    if why is not None:
        print(f"dsh: the command did not run: {why}", file=sys.stderr)
        return FAILED
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _is_there(name: str, cwd: Path, path: str | None) -> bool:
    """Whether there is anything that a command may be meant by."""
    if "/" in name:
        return os.path.lexists(cwd / name)
    return any(os.path.lexists(cwd / folder / name) for folder in (path or os.defpath).split(os.pathsep))


def _start(process: Process) -> subprocess.Popen[bytes]:
    around = process.confinement
    assert around is not None
    try:
        child = subprocess.Popen(
            process.argv, env=process.env, cwd=process.cwd, pass_fds=around.fds, start_new_session=True
        )
    except OSError:
        around.close()
        raise
    around.started()
    return child


def _end_rest(group: int) -> None:
    """Nothing outlives the command."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
