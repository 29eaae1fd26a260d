"""``dsh plugin disable`` and ``enable``: the list ``[plugins] disabled`` in the person's own settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ...config import GUARDS, dsh_home
from ...errors import ConfigError
from ...layers import read_bytes
from ...structure import did_you_mean
from ...textfile import replace_file
from ...tomledit import extended, shrunk
from .. import complain
from ..start import entry_names, settle

__all__ = ["disable", "enable"]

NEEDED = {"loop": "no model can be asked", "terminal": "there are no conversations, but dsh -p works"}
"""What is lost without a plugin that nothing else stands in for."""
Edit = Callable[[str, str, str, Sequence[str]], "str | None"]


def disable(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Load these plugins no more.

    Raises:
        ConfigError: there is no such plugin, it is a guard, or the settings cannot be changed.
    """
    config, known = settle(args).config, entry_names()
    project = {plugin.name for plugin in config.folder.plugins} if config.folder is not None else set()
    for name in names:
        if name not in known and name not in project:
            raise ConfigError(f"there is no plugin {name}{did_you_mean(name, {*known, *project})}", code="USAGE")
        if name in (*GUARDS, *config.plugins.required):
            raise ConfigError(
                f"{name} is a required guard and cannot be disabled by a setting; --no-plugin drops it for a run",
                code="USAGE",
            )
    path = _change(extended, names)
    if not args.quiet:
        complain(f"not loaded from now on: {', '.join(names)} ({path}); `dsh plugin enable` undoes it")
        for name, loss in NEEDED.items():
            if name in names:
                complain(f"without {name} {loss}")
        if config.sessions.store in names:
            complain("without it no session is stored; `[sessions] store` can name another store")
    return 0


def enable(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Load these plugins again; 1 if something else keeps one from being loaded.

    Raises:
        ConfigError: there is no such plugin, or the settings cannot be changed.
    """
    config, known = settle(args).config, entry_names()
    for name in names:
        if name not in known and name not in config.plugins.disabled:
            raise ConfigError(f"there is no plugin {name}{did_you_mean(name, known)}", code="USAGE")
    _change(shrunk, names)
    config = settle(args).config
    left = [name for name in names if name in config.plugins.disabled]
    if left:
        source = config.origins.get(("plugins", "disabled"), "a flag")
        complain(f"{', '.join(left)}: still disabled, by {source}")
        return 1
    if not args.quiet:
        complain(f"loaded from now on: {', '.join(names)}")
    return 0


def _change(edit: Edit, names: Sequence[str]) -> Path:
    path = dsh_home(os.environ) / "config.toml"
    present = read_bytes(path, str(path)) or b""
    text = present.decode("utf-8-sig")
    changed = edit(text, "plugins", "disabled", names)
    if changed is None:
        raise ConfigError(
            f"{path}: `[plugins] disabled` cannot be changed without losing something else; do it by hand"
        )
    if changed != text:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, changed.encode())
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path
