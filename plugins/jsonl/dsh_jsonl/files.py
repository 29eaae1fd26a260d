"""The store: sessions, and the files that they lie in."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dsh import SessionError
from dsh.session import SessionStore, StoredSession, check_cancelled, interrupted_turn_closers, parse_log
from dsh.session.codec import Codec, default_codec

from .listing import damaged, scan
from .paths import SUFFIX, bucket, encode_id, find
from .writer import SessionFile, lock

if TYPE_CHECKING:
    from dsh.session import Session, SessionInfo, SessionQuery, Sessions

__all__ = ["JsonlConfig", "SessionFiles", "read"]

CUT = ".cut"
"""What is put behind the name of a file for what was cut off it."""


@frozen
class JsonlConfig:
    """The table ``[jsonl]``.

    Attributes:
        root: the folder of the sessions; ``sessions`` in dsh's own folder if not given.
    """

    root: str | None = None


class SessionFiles(SessionStore):
    """The files of one harness's sessions.

    Args:
        root: the folder that they are in; made when needed.
        sessions: the live ones.
        warn: told what was cut off a file.
    """

    def __init__(self, root: Path, sessions: Sessions, warn: Callable[[str], None] | None = None) -> None:
        super().__init__(sessions, warn)
        self.root = root

    def find(self, session_id: str) -> str | None:
        path = find(self.root, session_id)
        return None if path is None else str(path)

    def new(self, session: Session) -> SessionFile:
        path = self.root / bucket(session.header.cwd) / (encode_id(session.id) + SUFFIX)
        return SessionFile(path, session.header, session.codec.encode_header(session.header))

    def load(self, session_id: str, *, live: bool = False) -> tuple[SessionFile, StoredSession] | None:
        path = find(self.root, session_id)
        if path is None:
            return None
        return load(path, session_id, self.sessions.codec, self.tell, live=live)

    def scan(self, query: SessionQuery) -> list[SessionInfo]:
        return scan(self.root, query, self.sessions.codec)

    def damaged(self) -> list[tuple[str, str]]:
        return damaged(self.root, self.sessions.codec)


def read(path: Path, codec: Codec | None = None) -> StoredSession:
    """Read a session's file as it is; see `dsh_jsonl.read_session`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SessionError(f"cannot read the session file {path}: {error.strerror}") from error
    parsed = parse_log(text, codec or default_codec(), str(path))
    return StoredSession(parsed.header, parsed.events, str(path))


def load(
    path: Path, session_id: str, codec: Codec, warn: Callable[[str], None] | None = None, *, live: bool = False
) -> tuple[SessionFile, StoredSession]:
    """Open and lock a session's file, read it, and close its last turn, unless an agent is in it: then it is `live`.

    What follows the last event is cut off.  A crash leaves a part of a line there; whole lines
    are somebody's, and are kept in a file beside this one, of which `warn` is told.

    Raises:
        SessionLocked: somebody else writes it.
        SessionError: it is not that session's, or cannot be read or written.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise SessionError(f"cannot open the session file {path}: {error.strerror}") from error
    try:
        lock(fd, path)
        return _loaded(fd, path, session_id, codec, warn, live)
    except OSError as error:
        os.close(fd)
        raise SessionError(f"cannot repair the session file {path}: {error.strerror}") from error
    except BaseException:
        os.close(fd)
        raise


def _loaded(
    fd: int, path: Path, session_id: str, codec: Codec, warn: Callable[[str], None] | None, live: bool
) -> tuple[SessionFile, StoredSession]:
    with open(fd, "rb", closefd=False) as stream:
        text = stream.read()
    parsed = parse_log(text, codec, str(path), check_cancelled)
    if parsed.header.id != session_id:
        raise SessionError(f"{path} holds the session {parsed.header.id!r}, not {session_id!r}; it was renamed")
    closers = [] if live else interrupted_turn_closers(parsed.events)
    events, size = parsed.events, parsed.size
    if closers or size < len(text):
        lines = b"".join(codec.encode(event) + b"\n" for event in closers)
        if text.find(b"\n", size) >= 0:
            kept = _keep(path, text[size:])
            if warn is not None:
                warn(
                    f"{path}: from line {len(events) + 2} on there were lines that are no events of the session; "
                    f"they were cut off, and are kept in {kept}"
                )
        os.ftruncate(fd, size)
        written = os.write(fd, lines)
        while written < len(lines):
            written += os.write(fd, lines[written:])
        os.fsync(fd)
        events, size = events.extended(closers), size + len(lines)
    file = SessionFile(path, parsed.header, codec.encode_header(parsed.header))
    file.take(fd, size, events)
    return file, StoredSession(parsed.header, events, str(path))


def _keep(path: Path, rest: bytes) -> Path:
    """Write what is cut off a file beside it, under a name that is not taken."""
    for number in count(1):
        kept = path.with_name(f"{path.name}{CUT}{'' if number == 1 else f'-{number}'}")
        try:
            fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with open(fd, "wb") as target:
            target.write(rest)
            target.flush()
            os.fsync(fd)
        return kept
    raise AssertionError("there are always more numbers")
