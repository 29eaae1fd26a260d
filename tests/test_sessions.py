"""The registry of live sessions."""

from __future__ import annotations

import os
from typing import Any, ClassVar, cast

import attrs
import pytest

from dsh.errors import PluginError, SessionError
from dsh.hooks import PluginManager, hookimpl
from dsh.hookspecs import Hooks
from dsh.messages import USER, Text
from dsh.session import (
    Codec,
    Event,
    EventTypes,
    Session,
    SessionHeader,
    SessionInfo,
    SessionQuery,
    Sessions,
    SessionsFound,
)
from dsh.session.events import EndReason, Trigger, TurnEnd, TurnStart, UserMessage
from dsh.session.sessions import new_session_id

CWD = os.path.abspath(os.sep)


class Listener:
    """Hears of sessions; raises what it is told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.error: Exception | None = None

    def _hear(self, what: str, session: Session) -> None:
        self.heard.append((what, session.id))
        if self.error is not None:
            raise self.error

    @hookimpl
    def session_created(self, session: Session) -> None:
        self._hear("created", session)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        self._hear(event.type, session)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self._hear("flush", session)


def registry() -> tuple[Sessions, Listener, PluginManager]:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    listener = Listener()
    manager.register(listener, "listener")
    return Sessions(cast(Hooks, manager.relay)), listener, manager


def turn(session: Session, number: int) -> None:
    session.append(TurnStart(number, Trigger("message", USER)))
    session.append(UserMessage((Text("hi"),), USER))
    session.append(TurnEnd(number, EndReason("completed")))


def test_nothing_is_heard_before_it_is_entered() -> None:
    sessions, listener, _ = registry()
    session = sessions.prepare("a", cwd=CWD, created_at=5)
    session.append(TurnStart(1, Trigger("message", USER)))

    assert session.header == SessionHeader("a", 5, CWD)
    assert sessions.get("a") is None
    assert listener.heard == []


async def test_the_life_of_a_session() -> None:
    sessions, listener, _ = registry()
    session = sessions.prepare("a")
    detach = sessions.enter(session)
    assert sessions.get("a") is session
    assert listener.heard == []

    sessions.announce(session)
    session.append(TurnStart(1, Trigger("message", USER)))
    await sessions.flush(session)
    assert listener.heard == [("created", "a"), ("turn/start", "a"), ("flush", "a")]

    detach()
    detach()
    session.append(TurnEnd(1, EndReason("completed")))
    assert sessions.get("a") is None
    assert len(listener.heard) == 3


def test_a_late_detach_leaves_a_later_session_alone() -> None:
    sessions, _, _ = registry()
    detach = sessions.enter(sessions.prepare("a"))
    detach()
    second = sessions.prepare("a")
    sessions.enter(second)

    detach()

    assert sessions.get("a") is second


def test_ids_are_taken_while_live() -> None:
    sessions, _, _ = registry()
    first = sessions.prepare("a")
    second = sessions.prepare("a")
    sessions.enter(first)

    with pytest.raises(SessionError) as prepared:
        sessions.prepare("a")
    with pytest.raises(SessionError) as entered:
        sessions.enter(second)

    assert {prepared.value.code, entered.value.code} == {"SESSION_ALREADY_EXISTS"}


def test_what_cannot_be_prepared() -> None:
    sessions, _, _ = registry()

    with pytest.raises(SessionError, match="absolute"):
        sessions.prepare("a", cwd="here")
    with pytest.raises(SessionError, match="empty"):
        sessions.prepare("")


def test_made_up_ids_are_unique_and_sorted_by_time() -> None:
    ids = [new_session_id() for _ in range(200)]

    assert len(set(ids)) == 200
    assert {tuple(map(len, id.split("-"))) for id in ids} == {(8, 4, 4, 4, 12)}
    assert [id[:13] for id in ids] == sorted(id[:13] for id in ids)


def test_sessions_are_listed_as_they_came() -> None:
    sessions, _, _ = registry()
    for id in ("b", "a"):
        sessions.create(id)

    assert [session.id for session in sessions.list()] == ["b", "a"]
    sessions.list().clear()
    assert len(sessions.list()) == 2


def test_create_is_all_or_nothing() -> None:
    sessions, listener, _ = registry()
    listener.error = ValueError("no")

    with pytest.raises(ValueError, match="no"):
        sessions.create("a")

    assert sessions.list() == []
    listener.error = None
    assert sessions.create("a")[0].id == "a"


def test_a_session_uses_the_hooks_it_was_entered_with() -> None:
    sessions, listener, manager = registry()
    scope = manager.scope()
    own = Listener()
    scope.register(own, "own")

    session, _ = sessions.create("a", hook=cast(Hooks, scope.relay))
    session.append(TurnStart(1, Trigger("message", USER)))

    assert own.heard == [("created", "a"), ("turn/start", "a")]
    assert listener.heard == own.heard


def test_an_event_that_a_listener_refuses_stays() -> None:
    sessions, listener, _ = registry()
    session, _ = sessions.create("a")
    listener.error = ValueError("no")

    with pytest.raises(ValueError, match="no"):
        session.append(TurnStart(1, Trigger("message", USER)))

    assert len(session.events) == 1


def test_a_fork_begins_as_its_source_did() -> None:
    """H07."""
    sessions, listener, _ = registry()
    session, _ = sessions.create("a", cwd=CWD)
    turn(session, 1)
    turn(session, 2)

    whole = sessions.fork(session, child_id="b")
    early = sessions.fork("a", 2)
    empty = sessions.fork(sessions.create("c")[0])

    assert whole.header == attrs.evolve(whole.header, id="b", cwd=CWD, parent_session="a", seed_length=6)
    assert list(whole.events) == list(session.events)
    assert (len(early.events), early.header.seed_length, early.last_turn) == (3, 3, 1)
    assert (len(empty.events), empty.header.seed_length, empty.header.cwd) == (0, 0, None)
    assert sessions.get("b") is None
    assert ("created", "b") not in listener.heard
    turn(whole, 3)
    assert len(session.events) == 6


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"source": "a", "child_id": "a", "boundary": 999}, "SESSION_ALREADY_EXISTS"),
        ({"source": "z"}, "SESSION_NOT_FOUND"),
        ({"source": Session("z")}, "SESSION_NOT_FOUND"),
        ({"source": Session("a")}, "SESSION_NOT_LIVE"),
        ({"source": "a", "boundary": 999}, "INVALID_BOUNDARY"),
        ({"source": "a", "boundary": -1}, "INVALID_BOUNDARY"),
        ({"source": "a", "boundary": 1.5}, "INVALID_BOUNDARY"),
        ({"source": "a", "boundary": True}, "INVALID_BOUNDARY"),
        ({"source": "a", "boundary": 1}, "OPEN_TURN"),
        ({"source": "a"}, "OPEN_TURN"),
    ],
    ids=str,
)
def test_forks_that_cannot_be(arguments: dict[str, Any], code: str) -> None:
    """H07."""
    sessions, _, _ = registry()
    session, _ = sessions.create("a")
    turn(session, 1)
    session.append(TurnStart(2, Trigger("message", USER)))

    with pytest.raises(SessionError) as caught:
        sessions.fork(**arguments)

    assert caught.value.code == code
    assert len(sessions.fork("a", 2).events) == 3


@attrs.frozen
class Seen:
    type: ClassVar[str] = "weather/seen"
    sky: str


@attrs.frozen
class Typeless:
    sky: str


def test_plugins_types_are_checked_and_known() -> None:
    types = EventTypes()
    types.add(Seen)

    for wrong in (Seen, Typeless, TurnStart, object):
        with pytest.raises(PluginError):
            types.add(wrong)

    assert list(types) == [Seen]
    assert Codec(types).types["weather/seen"] is Seen


def test_queries() -> None:
    root, fork = SessionHeader("a", 1, CWD), SessionHeader("b", 1, CWD, "a", 3)
    child = SessionHeader("c", 1, None, "a")

    def wanted(query: SessionQuery) -> str:
        return "".join(header.id for header in (root, fork, child) if query.wants(header))

    assert wanted(SessionQuery()) == "abc"
    assert wanted(SessionQuery(cwd=CWD)) == "ab"
    assert wanted(SessionQuery(parent="a")) == "bc"
    assert wanted(SessionQuery(children=False)) == "ab"


def test_found_sessions_have_the_last_written_first() -> None:
    found = SessionsFound()
    for id, written in (("a", 1), ("b", 3), ("c", 2)):
        found.add(SessionInfo(id, 0, written))

    assert [info.id for info in found] == ["b", "c", "a"]
