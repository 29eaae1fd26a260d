"""``dsh plugin install`` and ``remove``: pip, in the environment that dsh runs in, and what came of it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from ...errors import ConfigError
from ...structure import did_you_mean
from ..start import entry_names

__all__ = ["install", "remove"]

OWN = "dsh-harness"


def install(specs: Sequence[str], *, upgrade: bool, quiet: bool) -> int:
    """Install distributions as pip does, and say which plugins that brought; pip's exit code.

    Raises:
        ConfigError: pip is not there.
    """
    before = entry_names()
    code = _pip("install", *(["--upgrade"] if upgrade else []), *specs, quiet=quiet)
    if code:
        return 1
    after = _fresh()
    new = sorted(name for name in after if name not in before)
    for name in new:
        print(f"{name} ({after[name]}) is loaded from now on; `dsh plugin info {name}` shows what it does")
    if not new:
        print("no new plugin came with that" + (", it was upgraded at most" if upgrade else ""))
    return 0


def remove(names: Sequence[str], *, quiet: bool) -> int:
    """Uninstall the distributions of plugins; pip's exit code.

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
    return 1 if _pip("uninstall", "--yes", *dict.fromkeys(wanted), quiet=quiet) else 0


def _pip(*arguments: str, quiet: bool) -> int:
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"there is no pip beside {sys.executable}; use the tool that installed dsh, as in "
            f"`uv pip install --python {sys.executable} NAME` or `pipx inject {OWN} NAME`"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *(["--quiet"] if quiet else []), *arguments]
    # what pip says is for a person; stdout is for what came of it
    return subprocess.run(command, stdout=sys.stderr, check=False).returncode


def _fresh() -> dict[str, str | None]:
    importlib.invalidate_caches()
    return dict(entry_names())
