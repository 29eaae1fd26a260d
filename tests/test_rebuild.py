"""Making a request again from the log."""

from __future__ import annotations

from typing import Any

import pytest

from dsh.errors import CorruptSession
from dsh.llm.chunks import TextDelta
from dsh.messages import USER, CallConfig, Message, Text
from dsh.session import Event, Replace, Session, owed, rebuild_request
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    EndReason,
    Header,
    LinesDelta,
    RequestHeader,
    RequestHeaderDelta,
    StepEnd,
    StepStart,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)

ONE = Header(CallConfig("p/m"), "one", message_prefix=(Message("user", "prefix"),))
TWO = Header(CallConfig("p/m"), "two", message_prefix=(Message("user", "prefix"),))


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


def conversation() -> tuple[Session, dict[tuple[int, int], tuple[Header, list[Message]]]]:
    """A session, and what its requests were while it grew."""
    session = Session("a")
    requests: dict[tuple[int, int], tuple[Header, list[Message]]] = {}

    def step(turn: int, number: int, header: Header) -> None:
        messages = [*(header.message_prefix or ()), *session.derive_messages()]
        requests[turn, number] = header, messages
        session.append(StepStart(turn, number))
        data = owed(session, header, bool(requests) and session.request_header() is not None)
        if data is not None:
            session.append(data)
        session.append(AssistantChunk(turn, number, TextDelta(0, "x")))
        session.append(AssistantMessage(turn, number, (Text(f"answer {turn}.{number}"),)))
        session.append(ContextMessage((Text("in step"),), USER))
        session.append(StepEnd(turn, number))

    session.append(TurnStart(1, Trigger("message", USER)))
    session.append(say("hi"))
    step(1, 1, ONE)
    step(1, 2, ONE)
    session.append(TurnEnd(1, EndReason("completed")))
    session.append(TurnStart(2, Trigger("message", USER)))
    session.append(say("summary"), replace=Replace(1, session.surface.seqs[-2]))
    session.append(say("go on"))
    step(2, 1, TWO)
    session.append(TurnEnd(2, EndReason("completed")))
    return session, requests


def test_every_request_comes_out_as_it_was() -> None:
    session, requests = conversation()

    assert len(requests) == 3
    assert {key: rebuild_request(session.events, *key) for key in requests} == requests
    assert {key: rebuild_request(list(session.events), *key) for key in requests} == requests


def test_there_is_no_such_step() -> None:
    session, _ = conversation()

    with pytest.raises(ValueError, match="no step 9 of turn 1"):
        rebuild_request(session.events, 1, 9)


def log(*datas: Any) -> list[Event]:
    return [Event(n, 1, data) for n, data in enumerate(datas)]


def test_a_step_that_asked_nobody() -> None:
    with pytest.raises(ValueError, match="before a model was asked"):
        rebuild_request(log(StepStart(1, 1), StepEnd(1, 1), StepStart(1, 2), RequestHeader(ONE, "initial")), 1, 1)


def test_an_answer_without_a_header_is_corrupt() -> None:
    with pytest.raises(CorruptSession, match="no request header"):
        rebuild_request(log(StepStart(1, 1), AssistantMessage(1, 1, ())), 1, 1)


def test_a_header_behind_the_first_chunk_is_the_next_ones() -> None:
    events = log(
        RequestHeader(ONE, "initial"),
        StepStart(1, 1),
        AssistantChunk(1, 1, TextDelta(0, "x")),
        RequestHeaderDelta(system=LinesDelta(0, 0, ("two",))),
    )

    assert rebuild_request(events, 1, 1)[0] == ONE
