"""The live sessions of a program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import SessionError
from ..jsonvalue import clean
from .codec import Codec, default_codec
from .events import Event, TurnEnd
from .lineage import LINEAGE, forked_from, lineage_of
from .log import Session
from .store import SessionHeader

if TYPE_CHECKING:
    from ..hookspecs import Hooks

__all__ = ["Sessions", "new_session_id"]


class Sessions:
    """The registry of live sessions; it connects them with the hooks.

    Args:
        hook: the hooks that hear of sessions nobody brings hooks of their own for.
        codec: given to the sessions made here; may be set until the first one is made.
    """

    def __init__(self, hook: Hooks, codec: Codec | None = None) -> None:
        self.hook = hook
        self.codec = codec or default_codec()
        self._live: dict[str, tuple[Session, Hooks]] = {}

    def get(self, id: str) -> Session | None:
        """The live session of that id."""
        found = self._live.get(id)
        return None if found is None else found[0]

    def list(self) -> list[Session]:
        """The live sessions, in the order in which they were entered."""
        return [session for session, _ in self._live.values()]

    def prepare(
        self,
        id: str | None = None,
        *,
        seed: Sequence[Event] = (),
        cwd: str | None = None,
        parent_session: str | None = None,
        created_at: int | None = None,
        seed_length: int | None = None,
    ) -> Session:
        """Make a session that is not live yet.

        Args:
            id: made up if not given.
            seed: its first events.
            cwd: the absolute directory it works in.
            created_at: milliseconds since the epoch; now, if not given.

        Raises:
            SessionError: the id is empty or live, or `cwd` is not absolute.
            CorruptSession: the seed cannot be the beginning of a log.
        """
        if id is None:
            id = new_session_id()
        self._refuse_taken(id)
        if not id:
            raise SessionError("the id of a session cannot be empty")
        if cwd is not None and not os.path.isabs(cwd):
            raise SessionError(f"the directory of a session must be absolute, not {cwd!r}")
        created_at = time.time_ns() // 1_000_000 if created_at is None else created_at
        header = SessionHeader(id, created_at, None if cwd is None else _as_it_is(cwd), parent_session, seed_length)
        session = Session(id, seed, header, codec=self.codec)
        origin = forked_from(header)
        if origin is not None and (live := self.get(origin)) is not None:
            session.stash[LINEAGE] = (origin, *lineage_of(live))
        return session

    def enter(self, session: Session, hook: Hooks | None = None) -> Callable[[], None]:
        """Make a session live: from now on `hook` hears of its events.

        Returns:
            a function that ends this; further calls of it do nothing.

        Raises:
            SessionError: its id is live.
        """
        self._refuse_taken(session.id)
        hook = hook or self.hook

        def notify(session: Session, event: Event) -> None:
            hook.session_event(session=session, event=event)

        def detach() -> None:
            if session.notify is notify:
                session.notify = None
                self._live.pop(session.id, None)

        session.notify = notify
        self._live[session.id] = (session, hook)
        return detach

    def announce(self, session: Session) -> None:
        """Tell the plugins of an entered session.

        Raises:
            BaseException: what ``session_created`` implementations raised; the session stays entered.
        """
        self._hook(session).session_created(session=session)

    def create(
        self,
        id: str | None = None,
        *,
        seed: Sequence[Event] = (),
        cwd: str | None = None,
        parent_session: str | None = None,
        hook: Hooks | None = None,
    ) -> tuple[Session, Callable[[], None]]:
        """Prepare, enter and announce a session; all of it or nothing.

        Returns:
            the session, and the function that ends its being live.

        Raises:
            SessionError: as `prepare`.
            BaseException: what ``session_created`` implementations raised.
        """
        session = self.prepare(id, seed=seed, cwd=cwd, parent_session=parent_session)
        detach = self.enter(session, hook)
        try:
            self.announce(session)
        except BaseException:
            detach()
            raise
        return session, detach

    async def flush(self, session: Session) -> None:
        """Wait until everything logged so far is durable.

        Cancelling the wait leaves the log as it is.

        Raises:
            Exception: what ``session_flush`` implementations raised, after all of them ran.
        """
        await self._hook(session).session_flush(session=session)

    def fork(self, source: Session | str, boundary: int | None = None, child_id: str | None = None) -> Session:
        """Make a session that begins as another one did; it is not live yet.

        Args:
            source: a live session, or its id.
            boundary: the seq of the last event to take over, the end of a turn; by default the log's last.
            child_id: made up if not given.

        Raises:
            SessionError: its code says why: ``SESSION_ALREADY_EXISTS``, ``SESSION_NOT_FOUND``,
                ``SESSION_NOT_LIVE``, ``INVALID_BOUNDARY``, or ``OPEN_TURN``.
        """
        if child_id is not None:
            self._refuse_taken(child_id)
        parent = self._source(source)
        length = _fork_length(parent, boundary)
        return self.prepare(
            child_id,
            seed=parent.events.head(length),
            cwd=parent.header.cwd,
            parent_session=parent.id,
            seed_length=length,
        )

    def _source(self, source: Session | str) -> Session:
        id = source if isinstance(source, str) else source.id
        live = self.get(id)
        if live is None:
            raise SessionError(f"there is no live session {id!r} to fork", code="SESSION_NOT_FOUND")
        if not isinstance(source, str) and source is not live:
            raise SessionError(f"this is not the live session {id!r} but another of that id", code="SESSION_NOT_LIVE")
        return live

    def _refuse_taken(self, id: str) -> None:
        if id in self._live:
            raise SessionError(f"the session {id!r} is live already; choose another id", code="SESSION_ALREADY_EXISTS")

    def _hook(self, session: Session) -> Hooks:
        found = self._live.get(session.id)
        return found[1] if found is not None and found[0] is session else self.hook


def _fork_length(parent: Session, boundary: int | None) -> int:
    """How many events a fork takes over."""
    events = parent.events
    if boundary is None:
        if not events:
            return 0
        boundary = len(events) - 1
    elif type(boundary) is not int or not 0 <= boundary < len(events):
        raise SessionError(
            f"{boundary!r} is not an event of the session {parent.id!r}, which has {len(events)}",
            code="INVALID_BOUNDARY",
        )
    if not isinstance(events[boundary].data, TurnEnd):
        raise SessionError(
            f"event {boundary} of the session {parent.id!r} is not the end of a turn; "
            "wait until its turn is over, or fork at an earlier one",
            code="OPEN_TURN",
        )
    return boundary + 1


def new_session_id() -> str:
    """A new id in the form of a UUID; later ones sort behind earlier ones."""
    milliseconds = time.time_ns() // 1_000_000
    digits = f"{milliseconds:012x}7{os.urandom(2).hex()[:3]}{8 | os.urandom(1)[0] & 3:x}{os.urandom(8).hex()[:15]}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _as_it_is(cwd: str) -> str:
    """A directory as it was stored; the working directory by its real name, if that was no UTF-8."""
    if "\ufffd" in cwd and not os.path.isdir(cwd):
        with suppress(OSError):
            if clean(here := os.getcwd()) == cwd:
                return here
    return cwd
