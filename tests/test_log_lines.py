"""Reading a log's text."""

from __future__ import annotations

import gc

import pytest

from dsh.errors import CorruptSession
from dsh.llm.chunks import TextDelta
from dsh.messages import USER, Text
from dsh.session import Codec, Session, SessionHeader, interrupted_turn_closers, parse_log
from dsh.session.events import (
    AssistantChunk,
    EndReason,
    Replace,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)

HEADER = b'{"type":"session","version":0,"id":"a","createdAt":1}\n'


def session() -> Session:
    session = Session("a", header=SessionHeader("a", 1))
    for turn in (1, 2):
        session.append(TurnStart(turn, Trigger("message", USER)))
        session.append(UserMessage((Text("é\u2028\x85"),), USER))
        session.append(StepStart(turn, 1))
        session.append(AssistantChunk(turn, 1, TextDelta(0, "x")))
        session.append(ToolCall(turn, 1, "c", "n", "{}"))
        session.append(ToolResult(turn, 1, "c", (Text("y"),), False, meta={"n": 2**80}))
        session.append(StepEnd(turn, 1))
        session.append(TurnEnd(turn, EndReason("completed")))
    return session


def text_of(session: Session) -> bytes:
    codec = session.codec
    return b"".join(line + b"\n" for line in (codec.encode_header(session.header), *session.events.lines()))


def test_a_log_comes_back() -> None:
    original = session()
    text = text_of(original)

    parsed = parse_log(text, Codec(), "it")

    assert parsed.size == len(text)
    assert parsed.header == original.header
    assert list(parsed.events) == list(original.events)
    assert list(parsed.events.lines()) == list(original.events.lines())
    assert parsed.events[5].data.meta == {"n": 2**80}
    assert gc.isenabled()


def test_what_a_session_does_not_fold_is_read_when_needed() -> None:
    parsed = parse_log(text_of(session()), Codec(), "it")

    assert {event.type for event in parsed.events.made()} == {
        "turn/start",
        "user/message",
        "step/start",
        "tool/result",
        "step/end",
        "turn/end",
    }
    assert Session("a", parsed.events).derive_messages() == session().derive_messages()


@pytest.mark.parametrize("at", [1, 5, -1])
def test_a_record_without_a_number_is_passed_over(at: int) -> None:
    """A later version may log other things than events."""
    original = session()
    lines = text_of(original).split(b"\n")
    lines.insert(at, b'{"type":"from_future","x":1}')
    text = b"\n".join(lines)

    parsed = parse_log(text, Codec(), "it")

    assert parsed.size == len(text)
    assert list(parsed.events) == list(original.events)


def test_a_text_cut_anywhere_is_read_up_to_there() -> None:
    text = text_of(session())
    first = text.index(b"\n") + 1
    for size in range(first, len(text) + 1):
        parsed = parse_log(text[:size], Codec(), "it")

        assert len(parsed.events) == text[:size].count(b"\n") - 1
        assert text[: parsed.size] == text[: text[:size].rindex(b"\n") + 1]
        closed = parsed.events.extended(interrupted_turn_closers(parsed.events))
        assert Session("a", closed).open_turn is None


def test_a_seed_begins_with_what_was_read() -> None:
    parsed = parse_log(text_of(session()), Codec(), "it")
    log = Session("a", parsed.events).events
    assert list(log)  # makes the events, in this copy only

    assert log.begins_with(parsed.events)
    assert log.begins_with(parsed.events.head(3))
    assert not log.head(3).begins_with(log)
    assert not session().events.extended([]).begins_with(Session("b", log[:1]).events.extended(log[2:3]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "it has no complete header"),
        (b'{"type":"session"', "it has no complete header"),
        (b"{}\n", "it, line 1: "),
        (HEADER + b'[]\n{"type":"turn/end","seq":7,"time":1,"data":0}\n', "it, line 2: "),
    ],
)
def test_what_is_no_log_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(CorruptSession, match=words):
        parse_log(text, Codec(), "it")


def test_a_replacement_of_nothing_is_refused_by_its_line() -> None:
    original = session()
    original.append(UserMessage((Text("z"),), USER), replace=Replace(1, 1))

    with pytest.raises(CorruptSession, match=r"it, line 18: event 99 is not on the surface"):
        parse_log(text_of(original).replace(b'"start":1', b'"start":99'), Codec(), "it")
