"""What the model sees of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import CorruptSession
from dsh.messages import USER, Message, OtherSource, PluginSource, Text, ToolCallBlock, ToolResultBlock
from dsh.session import Codec, Session, Surface, derive, event_message, pairing_balanced, parse_log
from dsh.session.events import (
    AssistantMessage,
    ContextMessage,
    ErrorInfo,
    Event,
    PromptBlocked,
    Replace,
    SteeringMessage,
    StepStart,
    ToolResult,
    UserMessage,
)
from dsh.session.surface import Node

RECORDED = Path(__file__).parents[1] / "../shared/recorded"


def say(text: str) -> UserMessage:
    return UserMessage((Text(text),), USER)


def answer(*blocks: Text | ToolCallBlock) -> AssistantMessage:
    return AssistantMessage(1, 1, blocks)


def result(call_id: str) -> ToolResult:
    return ToolResult(1, 1, call_id, (Text("out"),), False)


def replaced(*operations: Replace) -> Surface:
    surface = Surface(Event(seq, 1, say(str(seq)), None, "append") for seq in range(4))
    for seq, operation in enumerate(operations, 4):
        surface.apply(Event(seq, 1, say(str(seq)), None, operation))
    return surface


def test_a_replacement_stands_where_the_old_ones_stood() -> None:
    """H04."""
    surface = replaced(Replace(1, 2))

    assert surface.seqs == (0, 4, 3)
    assert surface.generation == 1
    assert surface.node(4) == Node(4, 0, 3)
    assert surface.nodes() == [Node(0, None, 4), Node(4, 0, 3), Node(3, 4, None)]
    assert 2 not in surface


def test_order_is_of_places_not_of_numbers() -> None:
    """H04."""
    assert replaced(Replace(1, 2), Replace(4, 3)).seqs == (0, 5)
    assert replaced(Replace(2, 2)).seqs == (0, 1, 4, 3)


@pytest.mark.parametrize(("operation", "word"), [(Replace(3, 4), "3"), (Replace(9, 3), "9"), (Replace(0, 1), "1")])
def test_impossible_replacements_change_nothing(operation: Replace, word: str) -> None:
    """H04."""
    surface = replaced(Replace(1, 2))

    with pytest.raises(CorruptSession, match=word):
        surface.apply(Event(5, 1, say("x"), None, operation))

    assert surface.seqs == (0, 4, 3)
    assert surface.generation == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (say("hi"), Message("user", "hi")),
        (answer(Text("a")), Message("assistant", "a")),
        (answer(), None),
        (
            ToolResult(1, 1, "c", (Text("t"),), True, ErrorInfo("E", "X"), {"secret": 1}),
            Message("user", ToolResultBlock("c", (Text("t"),), True)),
        ),
        (
            ContextMessage((Text("t"),), PluginSource("p")),
            Message("user", (Text('<context source="plugin">'), Text("t"), Text("</context>"))),
        ),
        (
            SteeringMessage(1, (Text("t"), Text("u")), OtherSource({"kind": 'a"b'})),
            Message("user", (Text(r'<steering source="a\"b">'), Text("t"), Text("u"), Text("</steering>"))),
        ),
        (PromptBlocked((Text("t"),), USER, "no"), None),
        (StepStart(1, 1), None),
    ],
)
def test_events_as_messages(data: object, message: Message | None) -> None:
    assert event_message(Event(0, 1, data)) == message


def test_messages_are_the_same_objects_as_long_as_they_are_the_same() -> None:
    session = Session("a")
    session.append(say("one"))
    first = session.derive_messages()
    session.append(say("two"))
    second = session.derive_messages()
    session.append(say("three"))
    session.append(say("one and two"), replace=Replace(0, 1))
    third = session.derive_messages()

    assert first == [Message("user", "one")]
    assert second[0] is first[0]
    assert [message.content for message in third] == [(Text("one and two"),), (Text("three"),)]
    session.append(say("four"))
    assert session.derive_messages()[:2] == third
    assert session.derive_messages()[1] is third[1]
    assert session.derive_messages() is not session.derive_messages()


def test_an_empty_answer_is_no_message_but_has_a_place() -> None:
    session = Session("a")
    session.append(answer())
    session.append(say("hi"))
    session.append(say("instead"), replace=Replace(0, 0))

    assert [message.content for message in session.derive_messages()] == [(Text("instead"),), (Text("hi"),)]


def test_pairs_of_calls_and_results() -> None:
    """H05."""
    session = Session("a")
    session.append(answer(ToolCallBlock("a", "n", ""), ToolCallBlock("b", "n", "")))
    session.append(result("a"))
    session.append(result("b"))

    balance = [pairing_balanced(session.surface, session.events, seq) for seq in (0, 1, 2, None, 99)]

    assert balance == [True, False, False, True, True]


def test_a_result_without_a_call_is_corrupt() -> None:
    """H05."""
    session = Session("a")
    session.append(result("a"))

    with pytest.raises(CorruptSession, match="event 0 "):
        pairing_balanced(session.surface, session.events)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not here")
def test_recorded_sessions_derive() -> None:
    lengths = []
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        parsed = parse_log(path.read_bytes(), Codec(), path.name)
        session = Session(parsed.header.id, parsed.events, parsed.header)
        messages = session.derive_messages()
        assert messages == derive(session.events)
        lengths.append(len(messages))

    assert max(lengths) > 4


kinds = st.sampled_from([say("u"), answer(Text("a")), answer(), result("c"), StepStart(1, 1)])
steps = st.lists(
    st.tuples(kinds, st.none() | st.tuples(st.integers(0, 20), st.integers(0, 3)), st.booleans()), max_size=30
)


@given(steps)
def test_the_derived_history_is_what_a_fresh_look_gives(
    steps: list[tuple[object, tuple[int, int] | None, bool]],
) -> None:
    session = Session("a")
    held: list[tuple[list[Message], list[Message]]] = []
    for data, span, look in steps:
        replace = None
        seqs = session.surface.seqs
        if span is not None and seqs and not isinstance(data, StepStart):
            start = span[0] % len(seqs)
            replace = Replace(seqs[start], seqs[min(start + span[1], len(seqs) - 1)])
        session.append(data, replace=replace)
        if look:
            messages = session.derive_messages()
            held.append((messages, list(messages)))
            assert messages == derive(session.events)

    assert session.derive_messages() == derive(session.events)
    assert session.surface.seqs == Surface(session.events).seqs
    assert Session("b", session.events).derive_messages() == session.derive_messages()
    assert all(now == then for now, then in held)
