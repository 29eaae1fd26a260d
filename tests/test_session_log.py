"""Appending to a session, and what it knows of its log."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import attrs
import pytest

from dsh.errors import CorruptSession
from dsh.jsonvalue import NotJson
from dsh.llm.chunks import TextDelta
from dsh.messages import USER, CallConfig, Message, Text, ToolCallBlock
from dsh.session import EventLog, Session
from dsh.session.codec import Codec
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    EndReason,
    Event,
    Header,
    OtherData,
    Replace,
    RequestHeader,
    RequestHeaderDelta,
    StepEnd,
    StepStart,
    ToolCall,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


def test_an_event_is_numbered_and_dated() -> None:
    session = Session("a")

    first, second = session.append(TurnStart(1, Trigger("message", USER))), session.append(say("hi"))

    assert [first.seq, second.seq] == [0, 1]
    assert first.time > 1_700_000_000_000
    assert list(session.events) == [first, second]
    assert session.events[1] is second
    assert (first.surface_op, second.surface_op) == (None, "append")


def test_turns_steps_and_calls_are_known() -> None:
    session = Session("a")
    states = []
    for data in (
        TurnStart(3, Trigger("message", USER)),
        StepStart(3, 1),
        AssistantMessage(3, 1, (ToolCallBlock("c1", "read", "{}"), ToolCallBlock("c2", "read", "{}"))),
        StepEnd(3, 1),
        TurnEnd(3, EndReason("completed")),
    ):
        session.append(data)
        states.append((session.open_turn, session.open_step, session.last_turn))

    assert states == [(3, None, 3), (3, 1, 3), (3, 1, 3), (3, None, 3), (None, None, 3)]
    assert session.call_ids == {"c1", "c2"}
    again = Session("b", session.events)
    assert (again.open_turn, again.open_step, again.last_turn) == (None, None, 3)
    assert again.call_ids == {"c1", "c2"}


@attrs.frozen
class Note:
    type: ClassVar[str] = "note/taken"
    words: list[str]
    about: dict[str, Any] | None = None


@attrs.frozen
class Nameless:
    words: str


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (Nameless("x"), "Nameless"),
        ({"type": "turn/start"}, "dict"),
        (None, "NoneType"),
        (Note([], {"a": math.nan}), "note/taken"),
        (Note([object()]), "note/taken"),  # type: ignore[list-item]  # the mistake in question
        (UserMessage("text", USER), "user/message"),  # type: ignore[arg-type]  # the mistake in question
        (UserMessage((), None), "user/message"),  # type: ignore[arg-type]  # the mistake in question
    ],
)
def test_what_is_no_event_is_not_logged(data: Any, name: str) -> None:
    """H01, L03."""
    session = Session("a")

    with pytest.raises(NotJson, match=f"^{name}: .*cannot be serialized as JSON"):
        session.append(data)

    assert len(session.events) == 0
    assert len(session.surface) == 0


def test_a_cycle_is_not_logged() -> None:
    about: dict[str, Any] = {}
    about["self"] = about

    with pytest.raises(NotJson, match="contains itself"):
        Session("a").append(Note([], about))


def test_what_the_caller_changes_later_does_not_reach_the_log() -> None:
    """H02."""
    session = Session("a")
    words, sources = ["one"], [0]
    note = Note(words)
    session.append(say("hi"))

    event = session.append(note)
    summary = session.append(say("both"), sources=sources)
    words.append("two")
    sources.append(1)

    assert event.data == Note(["one"])
    assert session.events[1] is event
    assert summary.source_event_seqs == (0,)


def test_what_the_model_does_not_see_has_no_place_on_the_surface() -> None:
    """H01."""
    session = Session("a")
    session.append(say("hi"))

    with pytest.raises(ValueError, match="step/start"):
        session.append(StepStart(1, 1), sources=[0])
    with pytest.raises(ValueError, match="other/kind"):
        session.append(OtherData("other/kind", {}), replace=Replace(0, 0))
    with pytest.raises(ValueError, match="user/message: sources"):
        session.append(say("x"), sources=["0"])  # type: ignore[list-item]  # the mistake in question

    assert len(session.events) == 1


def test_a_replacement_of_what_is_not_there_is_not_logged() -> None:
    session = Session("a")
    session.append(say("one"))
    session.append(say("two"))

    with pytest.raises(ValueError, match="event 7 "):
        session.append(say("all"), replace=Replace(0, 7))
    with pytest.raises(ValueError, match="1 to 0"):
        session.append(say("all"), replace=Replace(1, 0))

    assert len(session.events) == 2
    assert session.surface.seqs == (0, 1)


def test_every_listener_hears_every_event_in_order() -> None:
    session = Session("a")
    heard: list[tuple[str, int, int]] = []

    def notify(session: Session, event: Event) -> None:
        heard.append(("first", event.seq, len(session.events)))
        if event.seq == 0:
            nested = session.append(say("nested"))
            assert session.events[nested.seq] is nested
            session.append(say("nested too"))
        elif event.seq == 1:
            session.append(say("deeper"))
        heard.append(("second", event.seq, len(session.events)))

    session.notify = notify
    session.append(say("outer"))

    assert [(who, seq) for who, seq, _ in heard] == [(who, n) for n in range(4) for who in ("first", "second")]
    assert len(session.events) == 4


def test_a_listeners_error_reaches_the_appender_after_everyone_has_heard() -> None:
    session = Session("a")
    heard: list[int] = []

    def notify(session: Session, event: Event) -> None:
        heard.append(event.seq)
        if event.seq == 0:
            session.append(say("nested"))
            raise ValueError("zero")

    session.notify = notify
    with pytest.raises(ValueError, match="zero"):
        session.append(say("outer"))

    assert heard == [0, 1]
    assert len(session.events) == 2
    session.append(say("next"))
    assert heard == [0, 1, 2]


def test_several_errors_come_together() -> None:
    session = Session("a")

    def notify(session: Session, event: Event) -> None:
        if event.seq == 0:
            session.append(say("nested"))
        raise ValueError(str(event.seq))

    session.notify = notify
    with pytest.raises(ExceptionGroup) as caught:
        session.append(say("outer"))

    assert [str(error) for error in caught.value.exceptions] == ["0", "1"]


def test_a_session_that_was_left_takes_appends_and_tells_nobody() -> None:
    session = Session("a")
    heard: list[int] = []

    def notify(session: Session, event: Event) -> None:
        heard.append(event.seq)
        session.append(say("nested"))
        session.notify = None

    session.notify = notify
    session.append(say("outer"))
    session.append(say("later"))

    assert heard == [0]
    assert len(session.events) == 3


def test_a_seed_is_not_announced_and_must_be_contiguous() -> None:
    """L03."""
    events = [Event(0, 1, TurnStart(1, Trigger("message", USER))), Event(1, 1, say("hi"), None, "append")]

    assert Session("a", events).derive_messages() == [Message("user", "hi")]
    with pytest.raises(CorruptSession, match="contiguous from 0"):
        Session("a", events[1:])
    with pytest.raises(CorruptSession, match="user/message: surface_op"):
        Session("a", [Event(0, 1, say("hi"))])
    with pytest.raises(NotJson, match="Nameless"):
        Session("a", [Event(0, 1, Nameless("x"))])
    with pytest.raises(CorruptSession, match="event 5 "):
        Session("a", [Event(0, 1, say("hi"), None, Replace(5, 5))])


def test_a_seed_is_a_copy() -> None:
    parent = Session("a")
    parent.append(say("hi"))
    child = Session("b", parent.events)

    parent.append(say("more"))
    child.append(say("other"))

    assert [len(parent.events), len(child.events)] == [2, 2]
    assert child.events[0] is parent.events[0]


def test_the_view_of_the_log_is_live_and_closed() -> None:
    session = Session("a")
    view = session.events
    for n in range(3):
        session.append(StepStart(1, n))

    assert len(view) == 3
    assert [event.seq for event in view[1:]] == [1, 2]
    assert view[-1].seq == 2
    assert [event.seq for event in reversed(view)] == [2, 1, 0]
    assert not hasattr(view, "append")
    with pytest.raises(TypeError):
        view[0] = view[1]  # type: ignore[index]  # the mistake in question


def test_lines_become_events_when_they_are_asked_for() -> None:
    codec = Codec()
    chunk = Event(0, 1, AssistantChunk(1, 1, TextDelta(0, "a")))
    lines = [b'{"type":"%b","seq":%d,"time":1,"data":{}}' % pair for pair in ((b"step/end", 1), (b"tool/call", 2))]
    log = EventLog([codec.encode(chunk), *lines], codec)

    assert list(log.made()) == []
    assert log[0] == chunk
    assert log[0] is log[0]
    assert log.line(0) == codec.encode(chunk)
    with pytest.raises(CorruptSession, match=r"event 1 .*step/end.*missing"):
        log[1]
    assert log[2].data == OtherData("tool/call", {})  # no session is made from it
    assert log.line(2) == lines[1]


def test_the_request_header_is_the_fold_of_the_log() -> None:
    session = Session("a")
    first, second = Header(CallConfig("p/one"), "be brief"), Header(CallConfig("p/two"), "be brief")
    assert session.request_header() is None

    session.append(RequestHeader(first, "initial"))
    assert session.request_header() == first
    session.append(RequestHeaderDelta(config=second.config))
    assert session.request_header() == second
    assert session.request_header() is session.request_header()
    assert Session("b", session.events).request_header() == second


def test_a_delta_without_a_header_is_an_error_each_time() -> None:
    session = Session("a")
    session.append(ToolCall(1, 1, "c", "n", "{}"))
    session.append(RequestHeaderDelta(config=CallConfig("p/m")))

    for _ in range(2):
        with pytest.raises(CorruptSession, match="event 1 "):
            session.request_header()


def test_appending_encodes_once() -> None:
    """Whoever writes the line in a listener gets what `append` has made to check it."""
    session = Session("a")
    lines: list[bytes] = []
    session.notify = lambda session, event: lines.append(session.codec.encode(event))

    event = session.append(say("hi"))

    assert lines[0] is session.codec.encode(event)
