"""``dsh config``: where settings come from, and what they come to."""

from __future__ import annotations

import argparse
import os

from ..config import config_files, dump
from .start import settle
from .tables import print_table

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the files that are read, or the settings as TOML without secrets."""
    start = settle(args)
    if args.action == "dump":
        print(dump(start.config), end="")
        return 0
    files = config_files(cwd=start.cwd, home=start.home, environ=os.environ)
    rows = [
        [layer, path, "read" if path.is_file() else "absent"]
        for layer, path in (("user", files.user), ("project", files.project), ("project-local", files.local))
        if path is not None
    ]
    if files.allowed is not None and files.allowed.is_file():
        rows.append(["project-allowed", files.allowed, "read"])
    print_table(["layer", "file", "state"], rows)
    return 0
