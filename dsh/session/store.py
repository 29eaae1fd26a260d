"""What a store of sessions and the rest of the program tell each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs
from attrs import frozen

from ..errors import PluginError
from ..hooks import Collector
from ..jsonvalue import clean
from ..stash import StashKey
from .events import FORMAT, VOCABULARY, Event

__all__ = ["UNSTORED", "EventTypes", "SessionHeader", "SessionInfo", "SessionQuery", "SessionsFound", "StoredSession"]

UNSTORED: StashKey[bool] = StashKey("nobody stores this session")
"""Set on a session before it is entered, stores leave it alone."""


@frozen
class SessionHeader:
    """What is known of a session before its first event; it never changes.

    Attributes:
        version: of the log format.
        created_at: milliseconds since the epoch.
        cwd: the absolute directory that the session works in.  Where its name is no UTF-8, what is stored of it
            has U+FFFD for the bytes that are not.
        parent_session: the id of the session that it was forked from, or whose agent started it.
        seed_length: how many of its first events came from the parent.
    """

    version: int = attrs.field(default=FORMAT, kw_only=True)
    id: str
    created_at: int
    cwd: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None


@frozen
class StoredSession:
    """A session as a store hands it out.  From ``session_open`` its log is balanced: no turn in it is open.

    Attributes:
        events: the log; a lazy sequence, where the store has one.  If it has a method ``lines()``, that
            gives the events' lines as they are stored, and whoever wants only a few events made uses it.
        path: the file it lies in, where it lies in a file of its own.
        rest: how many bytes follow the events that were never completely written; 0 once it is repaired.
    """

    header: SessionHeader
    events: Sequence[Event]
    path: str | None = None
    rest: int = 0


@frozen
class SessionQuery:
    """Which stored sessions to list; the newest come first.

    Attributes:
        cwd: only those that work in this directory.
        limit: at most so many from each store.
        parent: only those whose parent has this id.
        children: False leaves out those that have a parent but no seed: the sessions of subagents.
        damaged: also tell of what is stored as a session and cannot be read, which may take long.
    """

    cwd: str | None = None
    limit: int | None = None
    parent: str | None = None
    children: bool = True
    damaged: bool = False

    def wants(self, header: SessionHeader) -> bool:
        """Whether a session with this header is asked for."""
        if self.cwd is not None and (header.cwd is None or clean(header.cwd) != clean(self.cwd)):
            return False
        if self.parent is not None and header.parent_session != self.parent:
            return False
        return self.children or header.parent_session is None or header.seed_length is not None


@frozen
class SessionInfo:
    """A stored session in a list.

    Attributes:
        created_at, updated_at: milliseconds since the epoch.
        title: the beginning of its first message, on one line; empty if that is not known.
        path: the file it lies in, where it lies in a file of its own.
        turns: how many turns it has, where the store knows without reading it all.
    """

    id: str
    created_at: int
    updated_at: int
    cwd: str | None = None
    title: str = ""
    path: str | None = None
    parent_session: str | None = None
    seed_length: int | None = None
    turns: int | None = None

    def line(self) -> str:
        """The session on one line, for a list to choose from: when it was last used, its title, its id."""
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.updated_at / 1000))
        return f"{used}  {self.title[:60] or '(nothing said)'}  {self.id}"


class SessionsFound(Collector[SessionInfo]):
    """The collector of ``session_list``.

    Attributes:
        unreadable: what was asked for by `SessionQuery.damaged`: places, each with a sentence on what is wrong there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unreadable: list[tuple[str, str]] = []

    def add(self, info: SessionInfo) -> None:
        """Add a stored session; iteration has the last updated ones first."""
        self.collect(info, -info.updated_at)

    def cannot_read(self, place: str, reason: str) -> None:
        """Tell of a stored session that is not to be added, as nobody can tell whose it is."""
        self.unreadable.append((place, reason))


class EventTypes(Collector[type[Any]]):
    """The collector of ``session_event_types``."""

    def add(self, cls: type[Any]) -> None:
        """Add a frozen attrs class with a ``type`` class variable, by convention ``plugin-name/event``.

        If it has a property ``notice``, a short text, that is printed to stderr as such events come.

        Raises:
            PluginError: it is no such class, or the type has a class already.
        """
        kind = getattr(cls, "type", None)
        if not isinstance(cls, type) or not attrs.has(cls) or not isinstance(kind, str):
            raise PluginError(f"{cls!r} is no event class: it needs @attrs.frozen and a `type: ClassVar[str]`")
        if any(other.type == kind for other in (*VOCABULARY, *self)):
            raise PluginError(f"the event type {kind!r} has a class already; choose another name for {cls.__name__}'s")
        self.collect(cls)
