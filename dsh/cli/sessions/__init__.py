"""``dsh sessions``: what to do with stored sessions.  Each action is a module of its name here, with ``run``."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from ...errors import ConfigError

__all__ = ["run"]

TAKES: dict[str, tuple[str, ...]] = {
    "--all": ("list", "check", "search"),
    "--at": ("fork", "show"),
    "--format": ("export",),
    "--json": ("list", "show", "fork", "check", "search"),
    "--limit": ("list", "search"),
    "--output": ("export",),
    "--regex": ("search",),
    "--yes": ("delete",),
}
"""The flags that not every action takes, with those that do."""
NEEDS = {"list": None, "search": "a TEXT to look for"}
"""What an action needs, where that is not the ID of a session."""


def run(args: argparse.Namespace) -> int:
    """Do what `args` names, in a harness of its own."""
    import trio

    from ..start import settle

    _check(args)
    start = settle(args)
    action: Any = import_module(f".{args.action}", __name__)
    code: int = trio.run(action.run, args, start)
    return code


def _check(args: argparse.Namespace) -> None:
    """Refuse flags and words that the action does not take."""
    action = args.action
    for flag, actions in TAKES.items():
        if getattr(args, flag.removeprefix("--")) not in (None, False) and action not in actions:
            others = " and ".join(actions)
            raise ConfigError(f"sessions {action} takes no {flag}; it belongs to {others}", code="USAGE")
    needed = NEEDS.get(action, "the ID of a session (`dsh sessions list`)")
    if needed is None and args.target:
        raise ConfigError(f"sessions {action} takes no ID; sessions show ID shows one", code="USAGE")
    if action == "check" and args.all:
        if args.target:
            raise ConfigError("sessions check takes an ID or --all, not both", code="USAGE")
    elif needed is not None and not args.target:
        raise ConfigError(f"sessions {action} needs {needed}", code="USAGE")
