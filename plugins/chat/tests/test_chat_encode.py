"""Requests: the mapping, what strict services demand, and bytes that are made once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dsh_chat.dialect import Dialect
from dsh_chat.encode import Encoder
from hypothesis import given
from hypothesis import strategies as st

from dsh import Message, OtherBlock, Reasoning, Request, Text, ToolCallBlock, ToolResultBlock, ToolSchema
from dsh.messages import Block


def result(call: str, *texts: str) -> ToolResultBlock:
    return ToolResultBlock(call, tuple(Text(text) for text in texts))


def calling(*ids: str, text: str = "") -> Message:
    content: list[Block] = [Text(text)] if text else []
    return Message("assistant", [*content, *(ToolCallBlock(call, "t", "{}") for call in ids)])


def user(text: str) -> Message:
    return Message("user", text)


def body(*messages: Message, dialect: Dialect | None = None, **settings: Any) -> dict[str, Any]:
    request = Request("house/m", tuple(messages), **settings)
    made: dict[str, Any] = json.loads(Encoder(dialect or Dialect()).body(request, "m"))
    return made


def sent(*messages: Message, dialect: Dialect | None = None) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = body(*messages, dialect=dialect)["messages"]
    return made


def roles(*messages: Message) -> list[str]:
    """Of each message its role, and what tells it apart."""
    return [
        f"{wire['role']} {wire.get('tool_call_id') or wire['content'] or wire['tool_calls'][0]['id']}"
        for wire in sent(*messages)
    ]


def test_smallest_request() -> None:
    assert body(user("hi")) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_everything_that_can_be_asked_for() -> None:
    tool = ToolSchema("t", "does it", {"type": "object", "properties": {}})
    made = body(user("hi"), system="be good", tools=(tool,), temperature=0.5, max_tokens=9, stop=("a", "b"))
    assert made == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["a", "b"],
        "tools": [
            {
                "type": "function",
                "function": {"name": "t", "description": "does it", "parameters": {"type": "object", "properties": {}}},
            }
        ],
        "messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "hi"}],
    }


def test_no_tools_and_no_messages() -> None:
    made = body(tools=(), system="s")
    assert "tools" not in made
    assert made["messages"] == [{"role": "system", "content": "s"}]
    assert body()["messages"] == []


def test_dialect_is_data() -> None:
    dialect = Dialect(
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        stream_usage=False,
        thinking="enabled",
        reasoning_effort="high",
        extra_body={"seed": 7},
    )
    made = body(user("hi"), system="s", max_tokens=5, dialect=dialect)
    assert made == {
        "model": "m",
        "stream": True,
        "thinking": {"type": "enabled"},
        "reasoning_effort": "high",
        "max_completion_tokens": 5,
        "seed": 7,
        "messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (Message("system", "s"), [{"role": "system", "content": "s"}]),
        (Message("user", [Text("a"), Text("b")]), [{"role": "user", "content": "ab"}]),
        (Message("user", [OtherBlock({"type": "hint"})]), [{"role": "user", "content": ""}]),
        (Message("assistant", [Text("a"), Reasoning("r"), Text("b")]), [{"role": "assistant", "content": "ab"}]),
        (Message("assistant", [Reasoning("r")]), []),
        (Message("assistant", " \n"), []),
        (Message("assistant", []), []),
    ],
)
def test_messages_one_by_one(message: Message, wire: list[dict[str, Any]]) -> None:
    assert sent(message) == wire


def test_calls_and_results() -> None:
    call = ToolCallBlock("c1", "t", '{"x": 1}')
    assert sent(Message("assistant", [call]), Message("user", [result("c1", "a", "b")])) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ab"},
    ]


def test_result_without_text_is_not_empty() -> None:
    assert sent(calling("c"), Message("user", [result("c")]))[1]["content"] != ""


@pytest.mark.parametrize(
    ("arguments", "wire"),
    [
        ('{"a": 1.50}', '{"a": 1.50}'),
        ("", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ('{"command": "rm -rf build', "{}"),
        ("{'a': 1}", "{}"),
        ('{"a": 1}\n</tool_call>', "{}"),
        ('{"a": NaN}', "{}"),
    ],
)
def test_arguments_that_are_no_object_go_back_as_an_empty_one(arguments: str, wire: str) -> None:
    [message, _] = sent(Message("assistant", [ToolCallBlock("c", "t", arguments)]))
    assert message["tool_calls"][0]["function"]["arguments"] == wire


@pytest.mark.parametrize(
    ("name", "wire"), [("", "unknown_tool"), ("ns:view.x", "ns_view_x"), ("x" * 70, "x" * 64), ("fine_1-x", "fine_1-x")]
)
def test_names_of_calls_are_ones_that_services_take(name: str, wire: str) -> None:
    [message, _] = sent(Message("assistant", [ToolCallBlock("c", name, "{}")]))
    assert message["tool_calls"][0]["function"]["name"] == wire


@pytest.mark.parametrize(
    ("send", "wanted"),
    [("never", [None, None, None]), ("tool-calls", [None, "why", ""]), ("always", ["hm", "why", ""])],
)
def test_thoughts_go_back_as_the_service_wants_them(send: Any, wanted: list[str | None]) -> None:
    messages = (
        Message("assistant", [Reasoning("hm"), Text("a")]),
        Message("assistant", [Reasoning("w"), Reasoning("hy"), ToolCallBlock("c", "t", "{}")]),
        Message("user", [result("c", "ok")]),
        calling("d"),
        Message("user", [result("d", "ok")]),
    )
    wire = sent(*messages, dialect=Dialect(send_reasoning=send, reasoning_field="thoughts"))
    assert [message.get("thoughts") for message in wire if message["role"] == "assistant"] == wanted


def test_thoughts_keep_their_white_space() -> None:
    message = Message("assistant", [Reasoning(" a \n"), Text("x")])
    assert sent(message, dialect=Dialect(send_reasoning="always"))[0]["reasoning_content"] == " a \n"


def test_what_comes_between_a_call_and_its_result_waits() -> None:
    assert roles(
        calling("a", "b", text="go"),
        user("context"),
        Message("user", [result("b", "B")]),
        user("more"),
        Message("user", [result("a", "A")]),
        user("next"),
    ) == ["assistant go", "tool b", "tool a", "user context", "user more", "user next"]


def test_results_stand_before_the_text_of_their_message() -> None:
    mixed = Message("user", [Text("look"), result("a", "A")])
    assert roles(calling("a", text="go"), mixed) == ["assistant go", "tool a", "user look"]


def test_calls_without_a_result_get_one() -> None:
    wire = sent(calling("a", "b"), Message("user", [result("a", "A")]), user("never mind"), Message("assistant", "ok"))
    assert [message["role"] for message in wire] == ["assistant", "tool", "tool", "user", "assistant"]
    assert wire[2]["tool_call_id"] == "b"


def test_results_without_a_call_are_told_as_text() -> None:
    assert roles(user("hi"), Message("user", [result("x", "lost")])) == ["user hi", "user lost"]


MESSAGES = st.one_of(
    st.builds(user, st.text(max_size=5)),
    st.builds(lambda ids: calling(*ids), st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)),
    st.builds(lambda call, text: Message("user", [result(call, text)]), st.sampled_from("abc"), st.text(max_size=5)),
    st.builds(lambda text: Message("assistant", text), st.text(max_size=5)),
)


def complaint(messages: list[dict[str, Any]]) -> str | None:
    """What a strict service would have against a history."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "a result without a call"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return "a call without a result"
        elif message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            if not waiting and not message["content"].strip():
                return "an empty message"
    return "a call without a result" if waiting else None


@given(st.lists(MESSAGES, max_size=12))
def test_any_history_is_sent_in_a_valid_form(messages: list[Message]) -> None:
    wire = sent(*messages)
    assert complaint(wire) is None
    texts = [message["content"] for message in wire if message["role"] == "user"]
    assert sorted(texts) == sorted(texts_of_users(messages, wire))


def texts_of_users(messages: list[Message], wire: list[dict[str, Any]]) -> list[str]:
    """Every text from a user, and every result that no call was waiting for."""
    answered = [message["content"] for message in wire if message["role"] == "tool"]
    found = []
    for message in messages:
        for block in message.content:
            if message.role == "user" and isinstance(block, Text):
                found.append(block.text)
            elif isinstance(block, ToolResultBlock):
                text = "".join(part.text for part in block.content if isinstance(part, Text)) or "(no output)"
                if text in answered:
                    answered.remove(text)
                else:
                    found.append(text)
    return found


STEPS = st.lists(
    st.tuples(st.text(max_size=3), st.lists(st.sampled_from("abc"), unique=True, max_size=3), st.booleans()), max_size=8
)


@given(STEPS)
def test_each_request_extends_the_one_before(steps: list[tuple[str, list[str], bool]]) -> None:
    """In a conversation as the loop makes it: every call is answered before the next request."""
    encoder, fresh = Encoder(Dialect(send_reasoning="always")), Dialect(send_reasoning="always")
    history: list[Message] = []
    before = b""
    for text, calls, context in steps:
        history.append(user(text))
        made = encoder.body(Request("house/m", tuple(history), system="s"), "m")
        assert made.startswith(before.removesuffix(b"]}"))
        assert made == Encoder(fresh).body(Request("house/m", tuple(history), system="s"), "m")
        before = made
        history.append(calling(*calls, text=text))
        for call in calls:
            if context:
                history.append(user("note"))
            history.append(Message("user", [result(call, "ok")]))


def test_message_is_encoded_once() -> None:
    encoder, counted = Encoder(Dialect()), []

    class Counting(Encoder):
        def _encode(self, message: Message, maker: str) -> Any:
            counted.append(message)
            return encoder._encode(message, maker)

    counting = Counting(Dialect())
    history: list[Message] = []
    for n in range(20):
        history.append(user(str(n)))
        counting.body(Request("house/m", tuple(history)), "m")
        counting.body(Request("house/m", tuple(history[: n // 2])), "m")
    assert len(counted) == 20


def test_conversations_that_share_messages_do_not_disturb_each_other() -> None:
    encoder = Encoder(Dialect())
    shared = (user("a"), user("b"))
    left, right = (*shared, user("left")), (*shared, user("right"))
    for _ in range(2):
        for history in (shared, left, right, shared[:1], (*left, user("more")), left):
            made = json.loads(encoder.body(Request("house/m", history), "m"))
            assert [message["content"] for message in made["messages"]] == [
                block.text for message in history for block in message.content if isinstance(block, Text)
            ]


def test_dialects_do_not_share_bytes() -> None:
    message = Message("assistant", [Reasoning("hm"), Text("a")])
    assert "reasoning_content" not in sent(message)[0]
    assert "reasoning_content" in sent(message, dialect=Dialect(send_reasoning="always"))[0]
    assert "reasoning_content" not in sent(message)[0]


def test_changed_tools_change_the_request() -> None:
    encoder = Encoder(Dialect())
    schema = {"type": "object"}
    for name in ("one", "two", "one"):
        made = json.loads(encoder.body(Request("house/m", (user("x"),), tools=(ToolSchema(name, "", schema),)), "m"))
        assert made["tools"][0]["function"]["name"] == name


def test_thoughts_go_back_to_the_model_that_had_them() -> None:
    encoder = Encoder(Dialect(send_reasoning="always"))
    thoughts = (
        Reasoning("unsigned "),
        Reasoning("own ", model="house/m"),
        Reasoning("foreign", "seal", model="other/m"),
    )
    messages = (user("go"), Message("assistant", [*thoughts, Text("a")]), user("on"))

    def sent(model: str) -> Any:
        return json.loads(encoder.body(Request(model, messages), "m"))["messages"][1]["reasoning_content"]

    assert sent("house/m") == "unsigned own "
    assert sent("house/n") == "unsigned "
    assert sent("house/m") == "unsigned own "
