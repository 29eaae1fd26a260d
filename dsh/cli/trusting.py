"""Trust at the start of a command: the flag, the question, and the line that says what was left out."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from ..config import config_files
from ..terminal import TTY, person_present, visible
from ..trust import Folder, TrustStore, read_folder

__all__ = ["ask", "find_folder", "settled"]


def find_folder(cwd: Path, home: Path) -> Folder | None:
    """The project around `cwd`, with what was said about it; None where there is none.

    Raises:
        ConfigError: its settings, or those about trust, cannot be read.
    """
    files = config_files(cwd=cwd, home=home, environ=os.environ)
    if files.root is None or files.project is None:
        return None
    return TrustStore(home).judged(read_folder(files.root, cwd))


def settled(
    args: argparse.Namespace, cwd: Path, home: Path, warn: Callable[[str], None], *, may_ask: bool
) -> Folder | None:
    """The project around `cwd`, after the flag ``--trust``, or the question, has had its say.

    Args:
        may_ask: ask once, if somebody is there.

    Raises:
        ConfigError: as `find_folder`; or the folder cannot be trusted, or that cannot be noted.
        KeyboardInterrupt: instead of an answer.
    """
    folder = find_folder(cwd, home)
    if folder is None or not folder.wants or folder.trusted:
        return folder
    if args.trust:
        return TrustStore(home).keep(folder, True)
    if may_ask and not folder.declined and not folder.broken and person_present():
        folder = TrustStore(home).keep(folder, ask(folder))
    if not folder.trusted:
        warn(
            f"{folder.root} is not trusted, so this was left out: {'; '.join(folder.wants)}"
            " (`dsh trust show` shows it, `dsh trust add` or --trust lets it count)"
        )
    return folder


def ask(folder: Folder) -> bool:
    """Ask at the terminal whether `folder` may have what it wants; everything but yes is no.

    Raises:
        OSError: there is no terminal.
    """
    lines = [
        "",
        f"The folder {folder.root} brings things that run code, or loosen what you are asked about:",
        *(f"  {line}" for line in folder.wants),
        "They came with the folder, so look at them first. Without trust they are left out; nothing else changes.",
        "Trust this folder as it is now? [y/N] ",
    ]
    with open(TTY, "rb", buffering=0) as source, open(TTY, "wb", buffering=0) as shown:
        _forget_typed(source.fileno())
        shown.write("\n".join(visible(line) for line in lines).encode("utf-8", "replace"))
        return source.readline(100).strip().lower() in (b"y", b"yes")


def _forget_typed(descriptor: int) -> None:
    """Drop what was typed before the question was there to read."""
    import termios

    termios.tcflush(descriptor, termios.TCIFLUSH)
