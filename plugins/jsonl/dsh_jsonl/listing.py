"""Listing sessions without reading them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsh import CorruptSession, SessionError
from dsh.session import SessionHeader, SessionInfo, SessionQuery, parse_log, title_of
from dsh.session.codec import Codec

from .index import Entry, Index
from .paths import SUFFIX, bucket

__all__ = ["LONGEST_HEADER", "candidates", "damaged", "scan"]

_WINDOW = 64 * 1024
"""How much of a file is looked at for a title."""
LONGEST_HEADER = 1024 * 1024
_FIRST_MESSAGE = re.compile(rb'^\{"type":"user/message",.*', re.MULTILINE)


def scan(root: Path, query: SessionQuery, codec: Codec) -> list[SessionInfo]:
    """The stored sessions that `query` wants, the last written first.  Files that are no sessions are passed over.

    Raises:
        SessionError: `root`, or a folder in it, cannot be read.
    """
    try:
        files = sorted(candidates(root, query), reverse=True)
    except OSError as error:
        raise SessionError(f"cannot list the sessions in {root}: {error.strerror}") from error
    index = Index(root, lambda path: _read(path, codec))
    found: list[SessionInfo] = []
    for written, path, size in files:
        if query.limit is not None and len(found) >= query.limit:
            break
        entry = index.entry(path, written, size)
        info = None if entry is None else _wanted(entry, path, written, query)
        if info is not None:
            found.append(info)
    index.save([path for _, path, _ in files] if query.cwd is None else None)
    return found


def damaged(root: Path, codec: Codec) -> list[tuple[str, str]]:
    """The files whose first line is no session's, in the order of their names, each with what is wrong.

    Raises:
        SessionError: `root`, or a folder in it, cannot be read.
    """
    found: list[tuple[str, str]] = []
    try:
        for path in sorted(path for _, path, _ in candidates(root, SessionQuery())):
            try:
                with open(path, "rb") as stream:
                    parse_log(stream.readline(LONGEST_HEADER), codec, path)
            except FileNotFoundError:
                continue  # deleted in between
            except OSError as error:
                found.append((path, f"cannot read the session file {path}: {error.strerror}"))
            except CorruptSession as error:
                found.append((path, str(error)))
    except OSError as error:
        raise SessionError(f"cannot list the sessions in {root}: {error.strerror}") from error
    return found


def candidates(root: Path, query: SessionQuery) -> Iterator[tuple[int, str, int]]:
    """Time of the last change in nanoseconds, path and size of every file that may be wanted."""
    try:
        with os.scandir(root) as entries:
            folders = [entry.path for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return
    if query.cwd is not None:
        wanted = os.path.join(root, bucket(query.cwd))
        folders = [folder for folder in folders if folder == wanted]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and entry.is_file():
                    try:
                        found = entry.stat()
                    except FileNotFoundError:
                        continue  # deleted in between
                    yield found.st_mtime_ns, entry.path, found.st_size


def _read(path: str, codec: Codec) -> Entry:
    try:
        with open(path, "rb") as stream:
            line = stream.readline(LONGEST_HEADER)
            start = stream.read(_WINDOW)
        header = codec.decode_header(line)
    except (OSError, CorruptSession):
        return None
    if not start:
        return None
    message = _FIRST_MESSAGE.search(start)
    title = title_of(message.group()) if message else ""
    return [header.id, header.created_at, header.cwd, header.parent_session, header.seed_length, title]


def _wanted(entry: list[Any], path: str, written: int, query: SessionQuery) -> SessionInfo | None:
    id, created_at, cwd, parent, seed_length, title = entry
    if not query.wants(SessionHeader(id, created_at, cwd, parent, seed_length)):
        return None
    return SessionInfo(id, created_at, written // 1_000_000, cwd, title, path, parent, seed_length)
