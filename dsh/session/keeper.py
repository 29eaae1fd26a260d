"""What stores have in common: who writes which session, and what waits to be written.

A store is a `SessionStore`, which implements the hooks of sessions, over `SessionWriter`, which
knows how one session's lines are written.  Both are for plugins; nothing in the core uses them.
"""

from __future__ import annotations

import functools
import re
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..errors import SessionError, SessionLocked
from ..hooks.markers import hookimpl
from ..jsonvalue import clean, loads
from ..stash import StashKey
from .lines import EventLog
from .store import UNSTORED, SessionHeader, SessionInfo, SessionQuery, SessionsFound, StoredSession

if TYPE_CHECKING:
    from ..agents import Agent
    from ..harness import Harness
    from .events import Event
    from .log import Session
    from .sessions import Sessions

__all__ = ["SessionStore", "SessionWriter", "check_cancelled", "title_of"]

_TEXT = re.compile(rb'"text":("(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u]){0,400})')
_TITLE = 120
"""How many characters a title has at most."""


def title_of(message: bytes) -> str:
    """A session's title, from the JSON of its first message; the end of that may be missing."""
    text = _TEXT.search(message)
    if text is None:
        return ""
    try:
        title = " ".join(loads(text.group(1).decode("utf-8", "ignore") + '"').split())
    except ValueError:
        return ""
    return title if len(title) <= _TITLE else title[: _TITLE - 1] + "…"


def check_cancelled() -> None:
    """In a thread of Trio's: end by `trio.Cancelled` if whoever waits for it is cancelled.

    For the reading of a session, as long as nothing of it is changed.
    """
    with suppress(RuntimeError):  # no thread of Trio's, so nobody waits
        trio.from_thread.check_cancelled()


def _spelled(header: SessionHeader) -> str | None:
    return None if header.cwd is None else clean(header.cwd)


class SessionWriter(ABC):
    """Writes the lines of one session to the place where it is stored, and to no other.

    Lines that cannot be written are kept and tried again with the next ones, so what is stored
    never has a gap.

    Args:
        place: what to call the place in errors, as in "the session file /a/b.jsonl".
        header: the session's.
        loaded: the events that are stored already, until a session claims the writer.

    Attributes:
        released: nobody is expected to write any more; who does closes the writer again.
        taken: how many of the session's events it was given.
    """

    def __init__(self, place: str, header: SessionHeader, loaded: EventLog | None = None) -> None:
        self.place = place
        self.header = header
        self.loaded = loaded
        self.released = False
        self.taken = 0
        self._owner: weakref.ref[Session] | None = None
        self._pending: list[bytes] = []

    @property
    def owner(self) -> Session | None:
        """The session that is written."""
        return None if self._owner is None else self._owner()

    def belongs_to(self, session: Session, lines: Iterable[bytes]) -> None:
        """Make `session` the owner; `lines` are those of its events that are not stored yet."""
        self._owner = weakref.ref(session)
        self.loaded = None
        self.taken = len(session.events)
        self._pending.extend(lines)

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines, and those that are left from before.

        Raises:
            SessionError: they cannot be written; they are kept.
        """
        self.keep(lines)
        self.drain()

    def keep(self, lines: Iterable[bytes]) -> None:
        """Have lines written with the next ones."""
        self._pending.extend(lines)

    def drain(self, *, last: bool = False) -> None:
        """Write what is left to write.

        Args:
            last: nobody will try again; the error says what is lost.

        Raises:
            SessionError: it cannot be written; it is kept all the same.
        """
        if not self._pending:
            return
        try:
            self.write(self._pending)
        except SessionError as error:
            if last:
                count = len(self._pending)
                events = "the last event" if count == 1 else f"the last {count} events"
                error.add_note(f"{events} of the session {self.header.id!r} could not be stored")
            raise
        self._pending.clear()

    def refused(self, verb: str, reason: object) -> SessionError:
        """The error for a write or a sync that failed."""
        count = len(self._pending)
        waiting = f"; {count} event{' waits' if count == 1 else 's wait'} in memory until that is mended"
        return SessionError(f"cannot {verb} {self.place}: {reason}{waiting if count else ''}")

    @abstractmethod
    def write(self, lines: Sequence[bytes]) -> None:
        """Store all of `lines`, so that they survive this process; or nothing.

        Raises:
            SessionError: they cannot be stored.
        """

    @abstractmethod
    def sync(self) -> None:
        """Make durable what is written.  It is called in a thread.

        Raises:
            SessionError: that failed.
        """

    @abstractmethod
    def close(self) -> None:
        """Let others write the session; a line added later takes it again."""


class SessionStore(ABC):
    """The sessions of one harness, as they are stored: register one as a plugin.

    Args:
        sessions: the live ones.
        warn: told what a person should know, as what was cut off a session.
    """

    def __init__(self, sessions: Sessions, warn: Callable[[str], None] | None = None) -> None:
        self.sessions = sessions
        self.warn = warn
        self._key: StashKey[SessionWriter] = StashKey("session writer")
        self._open: dict[str, SessionWriter] = {}
        self._adopting = trio.Lock()

    @abstractmethod
    def find(self, session_id: str) -> str | None:
        """Where the session is stored, in words; None if it is not.

        Raises:
            SessionError: that cannot be seen.
        """

    @abstractmethod
    def new(self, session: Session) -> SessionWriter:
        """The writer of a session that is not stored; nothing is made before the first line is written."""

    @abstractmethod
    def load(self, session_id: str, *, live: bool = False) -> tuple[SessionWriter, StoredSession] | None:
        """Take a session for this process, read it, and close its last turn.  It is called in a thread.

        Only where an agent ends before anything of it was flushed it is called in the frame of that.

        It calls `check_cancelled` while it reads, and gives the session free again if that raises.

        Args:
            live: an agent is in it, who knows better whether the last turn is over: it stays as it is.

        Raises:
            SessionLocked: another process has it.
            SessionError: it cannot be read or closed.
        """

    @abstractmethod
    def scan(self, query: SessionQuery) -> list[SessionInfo]:
        """The stored sessions that have events and that `query` wants.  It is called in a thread.

        Raises:
            SessionError: they cannot be listed.
        """

    def damaged(self) -> list[tuple[str, str]]:
        """The places that hold a session which cannot be read at all, and why.  It is called in a thread.

        Raises:
            SessionError: they cannot be listed.
        """
        return []

    def tell(self, message: str) -> None:
        """Warn, also from the thread that `load` is called in."""
        if self.warn is None:
            return
        try:
            trio.from_thread.run_sync(self.warn, message)
        except RuntimeError:  # no thread of Trio's
            self.warn(message)

    # -- writing

    @hookimpl(tryfirst=True)
    def session_created(self, session: Session) -> None:
        """Get ready to write; nothing is stored before the first event."""
        if session.stash.get(UNSTORED, False):
            return
        writer = self._open.pop(session.id, None)
        if writer is not None and (writer.owner is not None or writer.loaded is None):
            writer.close()  # of a session of that id that is live no more
            writer = None
        if writer is None:
            place = self.find(session.id)
            if place is not None:
                raise SessionError(
                    f"there is a session {session.id!r} already, stored as {place}; resume it, or choose another id",
                    code="SESSION_ALREADY_EXISTS",
                )
            writer = self.new(session)
            writer.belongs_to(session, session.events.lines())
        else:
            self._claim(writer, session)
        session.stash[self._key] = writer
        self._open[session.id] = writer

    def _claim(self, writer: SessionWriter, session: Session) -> None:
        """Go on where the loaded session ends, if `session` is what was loaded."""
        loaded = writer.loaded or EventLog((), session.codec)
        if not session.events.begins_with(loaded) or _spelled(writer.header) != _spelled(session.header):
            writer.close()
            raise SessionError(
                f"the session {session.id!r} is not the one that is stored as {writer.place}; "
                "resume that one, or choose another id",
                code="SESSION_ALREADY_EXISTS",
            )
        writer.belongs_to(session, session.events.lines(len(loaded)))

    @hookimpl(tryfirst=True)
    def session_event(self, session: Session, event: Event) -> None:
        """Write the event's line, before anybody else hears of it; with those behind it that are in the log already.

        And with those before it that a plugin in between kept from this one: a hole would make the log worthless.
        """
        writer = session.stash.get(self._key, None)
        if writer is not None and event.seq >= writer.taken:
            lines = self._missed(session, writer) if event.seq > writer.taken else session.lines_from(event)
            writer.taken = len(session.events)
            writer.add(lines)
            if writer.released:
                writer.close()

    @staticmethod
    def _missed(session: Session, writer: SessionWriter) -> list[bytes]:
        """The lines that the writer of a session was not given."""
        return [*session.events.lines(writer.taken)]

    @hookimpl(tryfirst=True)
    async def session_flush(self, session: Session) -> None:
        """Write what is left and sync it, in a thread; a cancelled wait ends when the disk has answered.

        A session that was live before this store came is taken over, with all that happened before.
        """
        if self._lacks(session):
            async with self._adopting:  # of two that flush at once the second finds it done
                if self._lacks(session):
                    load = functools.partial(self.load, session.id, live=True)
                    self._adopt(session, await trio.to_thread.run_sync(load))
        writer = session.stash.get(self._key, None)
        if writer is not None:
            self._rest(session, writer)
            writer.drain()
            await trio.to_thread.run_sync(writer.sync)

    def _lacks(self, session: Session) -> bool:
        """Whether a session was live before this store came, which has not taken it over yet."""
        return self._key not in session.stash and not session.stash.get(UNSTORED, False)

    def _adopt(self, session: Session, found: tuple[SessionWriter, StoredSession] | None) -> None:
        """Go on with the log of a session that is live, or begin one for it.

        Raises:
            SessionError: another session of that id is stored.
        """
        if found is None:
            writer = self.new(session)
            writer.belongs_to(session, session.events.lines())
        else:
            writer = found[0]
            self._claim(writer, session)
        session.stash[self._key] = writer
        self._open[session.id] = writer

    def _rest(self, session: Session, writer: SessionWriter) -> None:
        """Have a writer take what it was never told of: the store was not there, or somebody kept it from it."""
        if writer.taken < len(session.events):
            writer.keep(self._missed(session, writer))
            writer.taken = len(session.events)

    @hookimpl(trylast=True)
    def agent_disposed(self, agent: Agent) -> None:
        """Give the session free for others; one that was never flushed since this store came is stored now."""
        session = agent.session
        if session.events and self._lacks(session):
            self._adopt(session, self.load(session.id, live=True))
        writer = session.stash.get(self._key, None)
        if writer is not None:
            try:
                self._rest(session, writer)
                writer.drain(last=True)
            finally:
                self._release(session.id, writer)

    def _release(self, session_id: str, writer: SessionWriter) -> None:
        writer.released = True
        writer.close()
        if self._open.get(session_id) is writer:
            del self._open[session_id]

    @hookimpl
    async def dsh_unconfigure(self, harness: Harness) -> None:
        """Write, sync and close whatever is still open; tell of the agents that go on without a store."""
        errors: list[Exception] = []
        for agent in harness.agents.list():  # when the harness closes, none is left
            if self._key in agent.session.stash:
                harness.warn(
                    f"the session {agent.session.id!r} is live and its store was taken out: "
                    "what happens from now on is not stored, unless another store takes it over"
                )
        for session_id, writer in list(self._open.items()):
            try:
                writer.drain(last=True)
                await trio.to_thread.run_sync(writer.sync)
            except SessionError as error:
                errors.append(error)
            finally:
                self._release(session_id, writer)
        await trio.to_thread.run_sync(self.close)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("sessions could not be written to the end", errors)

    def close(self) -> None:
        """Give up what the store itself has open; its writers are closed.  It is called in a thread."""
        self._open.clear()

    # -- reading

    @hookimpl
    async def session_open(self, session_id: str) -> StoredSession | None:
        """Load, lock and repair a session.  Cancelling ends the reading; a repair that has begun is done first."""
        place = self.find(session_id)
        if place is None:
            return None
        held = self._open.get(session_id)
        if held is not None:
            owner = held.owner
            if owner is not None and self.sessions.get(session_id) is owner:
                raise SessionLocked(f"the session {session_id!r} is open here already, and writes {place}")
            self._release(session_id, held)
        found = await trio.to_thread.run_sync(self.load, session_id)
        if found is None:
            return None
        writer, stored = found
        previous = self._open.pop(session_id, None)
        if previous is not None:
            previous.close()
        self._open[session_id] = writer
        return stored

    @hookimpl
    async def session_list(self, query: SessionQuery, found: SessionsFound) -> None:
        """Look for sessions, in a thread that nobody waits for once it is cancelled."""
        look = functools.partial(self.scan, query)
        for info in await trio.to_thread.run_sync(look, abandon_on_cancel=True):
            found.add(info)
        if query.damaged:
            for place, reason in await trio.to_thread.run_sync(self.damaged, abandon_on_cancel=True):
                found.cannot_read(place, reason)
