"""``dsh hooks``: which hooks there are, and who is called in which order."""

from __future__ import annotations

import argparse

import trio

from ..errors import ConfigError
from ..hooks import PluginManager
from ..hooks.step import wraps
from ..structure import did_you_mean
from .start import opened, settle
from .tables import print_table

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """List the hooks, or the implementations of one."""
    return trio.run(_main, args)


async def _main(args: argparse.Namespace) -> int:
    # a harness, since plugins may register more of themselves while it opens
    async with opened(settle(args)) as harness:
        return _show(args, harness.plugins)


def _show(args: argparse.Namespace, manager: PluginManager) -> int:
    if args.action == "list":
        if args.target:
            raise ConfigError("hooks list takes no name; hooks order NAME shows one hook", code="USAGE")
        rows = []
        for name, spec in sorted(manager.specs.items()):
            count = len(manager.implementations(name))
            rows.append([name, spec.kind, "awaited" if spec.awaited else "called", count, ", ".join(spec.arguments)])
        print_table(["hook", "kind", "colour", "plugins", "arguments"], rows)
        return 0
    if not args.target:
        raise ConfigError("hooks order needs the name of a hook (`dsh hooks list`)", code="USAGE")
    if args.target not in manager.specs:
        raise ConfigError(f"there is no hook {args.target}{did_you_mean(args.target, manager.specs)}", code="USAGE")
    rows = []
    for number, impl in enumerate(manager.implementations(args.target), 1):
        marks = ["wrapper"] if wraps(impl) else []
        marks += [mark for mark in ("tryfirst", "trylast") if getattr(impl, mark)]
        where = f"{impl.function.__module__}.{impl.function.__qualname__}"
        rows.append(
            [number, impl.plugin_name, manager.version_of(impl.plugin_name) or "-", ", ".join(marks) or "-", where]
        )
    if not rows:
        print(f"no plugin implements {args.target}")
    print_table(["", "plugin", "version", "marks", "function"], rows)
    return 0
