"""Listing sessions without reading them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from dsh import CorruptSession, SessionError
from dsh.jsonvalue import loads
from dsh.session import SessionInfo, SessionQuery
from dsh.session.codec import Codec

from .paths import SUFFIX, bucket

__all__ = ["scan"]

_WINDOW = 64 * 1024
"""How much of a file is looked at for a title."""
_LONGEST_HEADER = 1024 * 1024
_FIRST_MESSAGE = re.compile(rb'^\{"type":"user/message",.*', re.MULTILINE)
_TEXT = re.compile(rb'"text":("(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u]){0,400})')
_TITLE = 120
"""How many characters a title has at most."""


def scan(root: Path, query: SessionQuery, codec: Codec) -> list[SessionInfo]:
    """The stored sessions that `query` wants, the last written first.  Files that are no sessions are passed over.

    Raises:
        SessionError: `root`, or a folder in it, cannot be read.
    """
    try:
        candidates = sorted(_candidates(root, query), reverse=True)
    except OSError as error:
        raise SessionError(f"cannot list the sessions in {root}: {error.strerror}") from error
    found: list[SessionInfo] = []
    for written, path in candidates:
        if query.limit is not None and len(found) >= query.limit:
            break
        info = _describe(Path(path), written, query, codec)
        if info is not None:
            found.append(info)
    return found


def _candidates(root: Path, query: SessionQuery) -> Iterator[tuple[int, str]]:
    """Time of the last change in milliseconds, and path, of every file that may be wanted."""
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
                    yield entry.stat().st_mtime_ns // 1_000_000, entry.path


def _describe(path: Path, written: int, query: SessionQuery, codec: Codec) -> SessionInfo | None:
    try:
        with open(path, "rb") as stream:
            line = stream.readline(_LONGEST_HEADER)
            start = stream.read(_WINDOW)
        header = codec.decode_header(line)
    except (OSError, CorruptSession):
        return None
    if not start or not query.wants(header):
        return None
    return SessionInfo(
        id=header.id,
        created_at=header.created_at,
        updated_at=written,
        cwd=header.cwd,
        title=_title(start),
        path=str(path),
        parent_session=header.parent_session,
        seed_length=header.seed_length,
    )


def _title(start: bytes) -> str:
    """The beginning of the first message's text, as far as it is there."""
    message = _FIRST_MESSAGE.search(start)
    text = _TEXT.search(message.group()) if message else None
    if text is None:
        return ""
    try:
        title = " ".join(loads(text.group(1).decode("utf-8", "ignore") + '"').split())
    except ValueError:
        return ""
    return title if len(title) <= _TITLE else title[: _TITLE - 1] + "…"
