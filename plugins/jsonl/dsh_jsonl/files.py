"""The store: sessions, their files, and the hooks between them."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from dsh import SessionError, SessionLocked, StashKey, hookimpl
from dsh.session import StoredSession, interrupted_turn_closers, parse_log
from dsh.session.codec import Codec, default_codec
from dsh.session.lines import EventLog

from .listing import scan
from .paths import SUFFIX, bucket, encode_id, find
from .writer import SessionFile, lock

if TYPE_CHECKING:
    from dsh import Agent, Harness
    from dsh.session import Event, Session, SessionQuery, Sessions, SessionsFound

__all__ = ["JsonlConfig", "SessionFiles", "read"]


@frozen
class JsonlConfig:
    """The table ``[jsonl]``.

    Attributes:
        root: the folder of the sessions; ``sessions`` in dsh's own folder if not given.
    """

    root: str | None = None


class SessionFiles:
    """The files of one harness's sessions.

    Args:
        root: the folder that they are in; made when needed.
        sessions: the live ones.
    """

    def __init__(self, root: Path, sessions: Sessions) -> None:
        self.root = root
        self.sessions = sessions
        self._key: StashKey[SessionFile] = StashKey("jsonl file")
        self._open: dict[str, SessionFile] = {}

    @hookimpl(tryfirst=True)
    def session_created(self, session: Session) -> None:
        """Get ready to write; the file itself is made with the first event."""
        file = self._open.pop(session.id, None)
        if file is not None and (file.owner is not None or file.loaded is None):
            file.close()  # of a session of that id that is live no more
            file = None
        if file is None:
            file = self._new_file(session)
            file.belongs_to(session, session.events.lines())
        else:
            self._claim(file, session)
        session.stash[self._key] = file
        self._open[session.id] = file

    def _new_file(self, session: Session) -> SessionFile:
        stored = find(self.root, session.id)
        if stored is not None:
            raise SessionError(
                f"there is a session {session.id!r} already, stored as {stored}; resume it, or choose another id",
                code="SESSION_ALREADY_EXISTS",
            )
        path = self.root / bucket(session.header.cwd) / (encode_id(session.id) + SUFFIX)
        return SessionFile(path, session.codec.encode_header(session.header))

    def _claim(self, file: SessionFile, session: Session) -> None:
        """Go on with the file that was loaded, if `session` is what was loaded."""
        loaded = file.loaded or EventLog((), session.codec)
        if not session.events.begins_with(loaded) or file.path.parent.name != bucket(session.header.cwd):
            file.close()
            raise SessionError(
                f"the session {session.id!r} is not the one that is stored as {file.path}; "
                "resume that one, or choose another id",
                code="SESSION_ALREADY_EXISTS",
            )
        file.belongs_to(session, session.events.lines(len(loaded)))

    @hookimpl(tryfirst=True)
    def session_event(self, session: Session, event: Event) -> None:
        """Write the event's line, before anybody else hears of it."""
        file = session.stash.get(self._key, None)
        if file is not None:
            file.add(session.codec.encode(event))
            if file.released:
                file.close()

    @hookimpl(tryfirst=True)
    async def session_flush(self, session: Session) -> None:
        """Write what is left and sync the file, in a thread; a cancelled wait ends when the disk has answered."""
        file = session.stash.get(self._key, None)
        if file is not None:
            file.drain()
            await trio.to_thread.run_sync(file.sync)

    @hookimpl(trylast=True)
    def agent_disposed(self, agent: Agent) -> None:
        """Give the file free for others."""
        file = agent.session.stash.get(self._key, None)
        if file is not None:
            try:
                file.drain()
            finally:
                self._release(agent.session.id, file)

    def _release(self, session_id: str, file: SessionFile) -> None:
        file.released = True
        file.close()
        if self._open.get(session_id) is file:
            del self._open[session_id]

    @hookimpl
    async def dsh_unconfigure(self, harness: Harness) -> None:
        """Write, sync and close whatever is still open."""
        errors: list[Exception] = []
        for session_id, file in list(self._open.items()):
            try:
                file.drain()
                await trio.to_thread.run_sync(file.sync)
            except SessionError as error:
                errors.append(error)
            finally:
                self._release(session_id, file)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("sessions could not be written to the end", errors)

    @hookimpl
    async def session_open(self, session_id: str) -> StoredSession | None:
        """Load, lock and repair a session's file.  Cancelling waits until that is done."""
        path = find(self.root, session_id)
        if path is None:
            return None
        held = self._open.get(session_id)
        if held is not None:
            owner = held.owner
            if owner is not None and self.sessions.get(session_id) is owner:
                raise SessionLocked(f"the session {session_id!r} is open here already, and writes {path}")
            self._release(session_id, held)
        load = functools.partial(_load, path, session_id, self.sessions.codec)
        file, stored = await trio.to_thread.run_sync(load)
        previous = self._open.pop(session_id, None)
        if previous is not None:
            previous.close()
        self._open[session_id] = file
        return stored

    @hookimpl
    async def session_list(self, query: SessionQuery, found: SessionsFound) -> None:
        """Look through the folders, in a thread that nobody waits for once it is cancelled."""
        look = functools.partial(scan, self.root, query, self.sessions.codec)
        for info in await trio.to_thread.run_sync(look, abandon_on_cancel=True):
            found.add(info)


def read(path: Path, codec: Codec | None = None) -> StoredSession:
    """Read a session's file as it is; see `dsh_jsonl.read_session`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SessionError(f"cannot read the session file {path}: {error.strerror}") from error
    parsed = parse_log(text, codec or default_codec(), str(path))
    return StoredSession(parsed.header, parsed.events, str(path))


def _load(path: Path, session_id: str, codec: Codec) -> tuple[SessionFile, StoredSession]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND)
    except OSError as error:
        raise SessionError(f"cannot open the session file {path}: {error.strerror}") from error
    try:
        lock(fd, path)
        return _loaded(fd, path, session_id, codec)
    except OSError as error:
        os.close(fd)
        raise SessionError(f"cannot repair the session file {path}: {error.strerror}") from error
    except BaseException:
        os.close(fd)
        raise


def _loaded(fd: int, path: Path, session_id: str, codec: Codec) -> tuple[SessionFile, StoredSession]:
    with open(fd, "rb", closefd=False) as stream:
        text = stream.read()
    parsed = parse_log(text, codec, str(path))
    if parsed.header.id != session_id:
        raise SessionError(f"{path} holds the session {parsed.header.id!r}, not {session_id!r}; it was renamed")
    closers = interrupted_turn_closers(parsed.events)
    events, size = parsed.events, parsed.size
    if closers or size < len(text):
        lines = b"".join(codec.encode(event) + b"\n" for event in closers)
        os.ftruncate(fd, size)
        written = os.write(fd, lines)
        while written < len(lines):
            written += os.write(fd, lines[written:])
        os.fsync(fd)
        events, size = events.extended(closers), size + len(lines)
    file = SessionFile(path, codec.encode_header(parsed.header))
    file.take(fd, size, events)
    return file, StoredSession(parsed.header, events, str(path))
