"""``dsh plugins``: what is loaded, what is not, and why."""

from __future__ import annotations

import argparse

import trio
from attrs import evolve

from ..errors import error_message
from ..hooks import PluginManager
from ..jsonvalue import dumps
from . import EXIT_OK, report
from .start import Start, entry_names, loaded, opened, settle
from .tables import print_table

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print a line a plugin; also when the harness would not open, which is when one wants to know."""
    start = settle(args)
    try:
        manager, code = trio.run(_opened, start), EXIT_OK
    except Exception as error:
        try:
            manager = loaded(start)
        except Exception:
            raise error from None  # the same again, most likely, which is told once
        code, _ = report(error, debug=args.debug)
    rows = [*_present(manager), *_absent(manager, start)]
    rows.sort(key=lambda row: str(row["name"]))
    if args.json:
        print(dumps(rows).decode())
        return code
    shown = []
    for row in rows:
        state = str(row["state"]) + (f": {row['reason']}" if row["reason"] else "")
        hooks = row["hooks"]
        assert isinstance(hooks, list)
        shown.append([row["name"], row["version"] or "-", row["distribution"] or "-", state, ", ".join(hooks)])
    print_table(["plugin", "version", "distribution", "state", "hooks"], shown)
    return code


async def _opened(start: Start) -> PluginManager:
    async with opened(evolve(start, warn=lambda message: None)) as harness:
        return harness.plugins


def _present(manager: PluginManager) -> list[dict[str, object]]:
    """The loaded plugins; what one registered under ``its-name.something`` counts as its own."""
    infos = {info.name: info for info in manager.loaded()}
    hooks: dict[str, set[str]] = {}
    for name, info in infos.items():
        owner = name.partition(".")[0]
        hooks.setdefault(owner if owner in infos else name, set()).update(info.hooks)
    return [
        {
            "name": name,
            "version": infos[name].version or None,
            "distribution": infos[name].distribution,
            "state": "loaded",
            "reason": None,
            "hooks": sorted(names),
        }
        for name, names in hooks.items()
    ]


def _absent(manager: PluginManager, start: Start) -> list[dict[str, object]]:
    installed = entry_names()
    rows = [
        (name, failure.distribution, "failed", error_message(failure.error)) for name, failure in manager.failed.items()
    ]
    off = "disabled by a setting or a flag"
    rows += [(name, installed[name], "blocked", off) for name in manager.blocked if name in installed]
    if start.safe_mode:
        seen = {info.name for info in manager.loaded()} | {name for name, *_ in rows}
        off = "left out by --safe-mode"
        rows += [(name, owner, "blocked", off) for name, owner in installed.items() if name not in seen]
    return [
        {"name": name, "version": None, "distribution": owner, "state": state, "reason": reason, "hooks": []}
        for name, owner, state, reason in rows
    ]
