"""Copies of sessions as they were before a part of them was cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from .lock import name_of

__all__ = ["drop_copies", "keep_copy"]


def keep_copy(database: Path, session_id: str, text: bytes) -> Path:
    """Write a session's lines to a file beside the database, under a name that is not taken.

    Raises:
        OSError: that failed.
    """
    folder = _folder(database)
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in _names(folder, session_id):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        try:
            with open(fd, "wb") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path
    raise AssertionError("there are always more numbers")


def drop_copies(database: Path, session_id: str) -> None:
    """Remove the copies of a session, as far as that can be done."""
    folder = _folder(database)
    with suppress(OSError):
        for path in _names(folder, session_id):
            path.unlink()
    with suppress(OSError):
        folder.rmdir()  # the last one was in it


def _folder(database: Path) -> Path:
    return database.with_name(f"{database.name}-copies")


def _names(folder: Path, session_id: str) -> Iterator[Path]:
    name = name_of(session_id)
    return (folder / f"{name}{'' if number == 1 else f'-{number}'}.jsonl" for number in count(1))
