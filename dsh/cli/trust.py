"""``dsh trust``: which folders' plugins and settings count, and changing that."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from ..config import dsh_home
from ..errors import ConfigError
from ..jsonvalue import dumps
from ..terminal import visible
from ..trust import Folder, TrustStore
from . import EXIT_OK
from .start import directory
from .tables import print_table
from .trusting import find_folder

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Do one of show, list, add and remove."""
    home = dsh_home(os.environ)
    if args.action == "list":
        return _list(TrustStore(home), args.json)
    start = directory(args.cd)
    wanted = start if args.target is None else start / Path(args.target).expanduser()
    if args.action == "remove":
        return _remove(wanted, home)
    if not wanted.is_dir():
        raise ConfigError(f"{wanted}: there is no such directory", code="USAGE")
    folder = find_folder(wanted, home)
    if args.action == "add":
        return _add(folder, wanted, home)
    if args.json:
        print(dumps(_record(folder)).decode())
    else:
        _show(folder, wanted)
    return EXIT_OK


def _list(store: TrustStore, as_json: bool) -> int:
    entries = sorted(store.entries().items())
    if as_json:
        print(dumps([{"folder": root, **entry} for root, entry in entries]).decode())
    else:
        rows = [["trusted" if entry.get("trusted") is True else "declined", visible(root)] for root, entry in entries]
        print_table(["answer", "folder"], rows)
    return EXIT_OK


def _remove(wanted: Path, home: Path) -> int:
    found = find_folder(wanted, home) if wanted.is_dir() else None
    root = found.root if found is not None else wanted
    if not TrustStore(home).remove(root):
        raise ConfigError(f"{root}: nothing was said about it; `dsh trust list` lists the folders", code="USAGE")
    print(f"forgotten: {visible(str(root))}")
    return EXIT_OK


def _add(folder: Folder | None, wanted: Path, home: Path) -> int:
    if folder is None or not folder.wants:
        print(f"there is nothing to trust in {visible(str(wanted))}")
        return EXIT_OK
    TrustStore(home).keep(folder, True)
    print(f"trusted as it is now: {visible(str(folder.root))}")
    for line in folder.wants:
        print(f"  {visible(line)}")
    return EXIT_OK


def _record(folder: Folder | None) -> Mapping[str, object]:
    if folder is None:
        return {"folder": None, "trusted": False, "declined": False, "wants": []}
    return {
        "folder": str(folder.root),
        "trusted": folder.trusted,
        "declined": folder.declined,
        "wants": list(folder.wants),
        "broken": folder.broken,
    }


def _show(folder: Folder | None, wanted: Path) -> None:
    if folder is None or not folder.wants:
        print(f"there is nothing to trust in {visible(str(wanted))}")
        return
    state = "trusted" if folder.trusted else "not trusted; you said no" if folder.declined else "not trusted"
    print(f"{visible(str(folder.root))}: {state}")
    for line in folder.wants:
        print(f"  {visible(line)}")
    if folder.broken:
        print("it cannot be trusted before that is mended")
    elif not folder.trusted:
        print("look at these files; then `dsh trust add` lets them count, until one of them changes")
