"""Events that are appended together: heard of one by one, at the end."""

from __future__ import annotations

import pytest

from dsh.jsonvalue import NotJson
from dsh.session.events import Event, StepEnd, StepStart
from dsh.session.log import Session


def session_with(heard: list[tuple[int, int]]) -> Session:
    """A session whose listener notes each event's number, and how long the log was then."""
    session = Session("s")
    session.notify = lambda session, event: heard.append((event.seq, len(session.events)))
    return session


def append_together(session: Session, *data: object) -> None:
    with session.together():
        for item in data:
            session.append(item)


def test_listeners_hear_of_each_in_order_when_all_are_there() -> None:
    heard: list[tuple[int, int]] = []
    session = session_with(heard)
    with session.together():
        session.append(StepStart(1, 1))
        session.append(StepEnd(1, 1))
        assert heard == []
        assert session.open_step is None
    assert heard == [(0, 2), (1, 2)]


def test_what_a_listener_appends_comes_behind_and_is_heard_of_last() -> None:
    session, heard = Session("s"), list[int]()

    def listen(session: Session, event: Event) -> None:
        heard.append(event.seq)
        if event.seq == 0:
            with session.together():
                session.append(StepStart(2, 1))
            assert heard == [0]

    session.notify = listen
    with session.together():
        session.append(StepStart(1, 1))
        session.append(StepEnd(1, 1))
    assert heard == [0, 1, 2]


def test_the_lines_of_all_that_is_there_are_known_to_the_first_listener() -> None:
    session, lines = Session("s"), list[list[bytes]]()
    session.notify = lambda session, event: lines.append(session.lines_from(event))
    with session.together():
        events = [session.append(StepStart(1, 1)), session.append(StepEnd(1, 1))]
    encoded = [session.codec.encode(event) for event in events]
    assert lines == [encoded, encoded[1:]]


def test_what_was_appended_before_an_error_is_heard_of() -> None:
    heard: list[tuple[int, int]] = []
    session = session_with(heard)
    with pytest.raises(NotJson):
        append_together(session, StepStart(1, 1), object())
    assert heard == [(0, 1)]


def test_every_listeners_error_is_raised_at_the_end() -> None:
    session = Session("s")

    def fail(session: Session, event: Event) -> None:
        raise ValueError(event.seq)

    session.notify = fail
    with pytest.raises(ExceptionGroup) as caught:
        append_together(session, StepStart(1, 1), StepEnd(1, 1))
    assert [error.args for error in caught.value.exceptions] == [(0,), (1,)]
    assert len(session.events) == 2
