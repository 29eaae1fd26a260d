"""``dsh plugin install`` and ``remove``: pip, in the environment that dsh runs in, and what came of it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from ...errors import ConfigError
from ...jsonvalue import loads
from ...structure import did_you_mean
from .. import complain
from ..start import entry_names

__all__ = ["install", "remove"]

OWN = "dsh-harness"


def install(specs: Sequence[str], *, upgrade: bool, verbose: bool) -> int:
    """Install distributions as pip does, and say which plugins that brought; 1 if pip fails, or one cannot be loaded.

    Args:
        verbose: show all that pip says.

    Raises:
        ConfigError: pip is not there.
    """
    before = entry_names()
    code = _pip("install", *(["--upgrade"] if upgrade else []), *specs, verbose=verbose)
    if code:
        return 1
    after = _fresh()
    new = sorted(name for name in after if name not in before)
    failed = _failed(new)
    for name in new:
        if name in failed:
            complain(f"{name} ({after[name]}) is installed, and cannot be loaded: {failed[name]}")
        else:
            print(f"{name} ({after[name]}) is loaded from now on; `dsh plugin info {name}` shows what it does")
    if not new:
        print("no new plugin came with that" + (", it was upgraded at most" if upgrade else ""))
    return 1 if failed else 0


def remove(names: Sequence[str], *, verbose: bool) -> int:
    """Uninstall the distributions of plugins; 1 if pip fails.

    Args:
        verbose: show all that pip says.

    Raises:
        ConfigError: there is no such plugin, it is part of dsh, or pip is not there.
    """
    installed = entry_names()
    wanted: list[str] = []
    for name in names:
        if name not in installed:
            raise ConfigError(f"there is no plugin {name}{did_you_mean(name, installed)}", code="USAGE")
        distribution = installed[name]
        if distribution in (None, OWN):
            raise ConfigError(
                f"the plugin {name} is part of dsh; `--no-plugin {name}` runs without it, and "
                f"`dsh plugin disable {name}` does so always",
                code="USAGE",
            )
        wanted.append(distribution)
    others = sorted(name for name, owner in installed.items() if owner in wanted and name not in names)
    if others:
        print(f"{', '.join(others)} of the same distribution go, too", file=sys.stderr)
    if _pip("uninstall", "--yes", *dict.fromkeys(wanted), verbose=verbose):
        return 1
    print(f"removed: {', '.join(dict.fromkeys(wanted))}")
    return 0


def _pip(*arguments: str, verbose: bool) -> int:
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"there is no pip beside {sys.executable}; use the tool that installed dsh, as in "
            f"`uv pip install --python {sys.executable} NAME` or `pipx inject {OWN} NAME`"
        )
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        *([] if verbose else ["--quiet"]),
        *arguments,
    ]
    # what pip says is for a person; stdout is for what came of it
    if verbose:
        return subprocess.run(command, stdout=sys.stderr, check=False).returncode
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False
    )
    if ran.returncode:
        lines = [line for line in ran.stdout.splitlines() if line.strip() and not line.startswith("WARNING:")]
        broken = any(line.startswith("Traceback") for line in lines)
        for line in lines[-1:] if broken else lines:
            complain(line)
        complain("pip failed; -v shows all that it says")
    return ran.returncode


def _failed(names: Sequence[str]) -> dict[str, str]:
    """Why plugins that were installed a moment ago cannot be loaded, found out by a program of its own."""
    command = [sys.executable, "-m", "dsh", "plugins", "--json", "--quiet"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False) if names else None
    try:
        found = loads(ran.stdout) if ran is not None else []
    except ValueError:  # its settings are wrong, most likely, and it says so when it is next started
        return {}
    return {
        str(each["name"]): str(each.get("reason") or "failed")
        for each in found
        if each.get("name") in names and each.get("state") == "failed"
    }


def _fresh() -> dict[str, str | None]:
    importlib.invalidate_caches()
    return dict(entry_names())
