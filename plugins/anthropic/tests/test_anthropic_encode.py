"""What is sent: valid whatever the log holds, encoded once, each request an extension of the last."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from dsh_anthropic.encode import Encoder
from dsh_anthropic.settings import ServiceSettings
from hypothesis import given
from hypothesis import strategies as st

from dsh import Message, Request, Text, ToolCallBlock, ToolResultBlock, ToolSchema
from dsh.messages import Block, OtherBlock, Reasoning

MODEL = "anthropic/m"
MARK = b',"cache_control":{"type":"ephemeral"}'
TOOL = ToolSchema("work", "Works.", {"type": "object", "properties": {}})


def user(text: str) -> Message:
    return Message("user", text)


def assistant(*content: Block) -> Message:
    return Message("assistant", content)


def returned(*content: Block) -> Message:
    return Message("user", content)


def call(id: str, arguments: str = "{}", name: str = "work") -> ToolCallBlock:
    return ToolCallBlock(id, name, arguments)


def result(id: str, text: str = "ok", is_error: bool | None = None) -> ToolResultBlock:
    return ToolResultBlock(id, (Text(text),), is_error)


def server(**wire: Any) -> OtherBlock:
    return OtherBlock({"type": "anthropic", "provider": "anthropic", "block": wire})


def encoded(*messages: Message, so_far: tuple[Block, ...] = (), **settings: Any) -> Any:
    return json.loads(body(*messages, so_far=so_far, **{"cache": "off", **settings}))


def body(*messages: Message, so_far: tuple[Block, ...] = (), **settings: Any) -> bytes:
    return Encoder("anthropic", ServiceSettings(**settings)).body(Request(MODEL, messages), "m", so_far)


def sent(*messages: Message, so_far: tuple[Block, ...] = ()) -> list[tuple[str, list[Any]]]:
    return [(message["role"], message["content"]) for message in encoded(*messages, so_far=so_far)["messages"]]


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def used(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "work", "input": {}}


def answered(id: str, text: str = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": text, **more}


NO_RESULT = "(the call was not answered)"


@pytest.mark.parametrize(
    ("messages", "wanted"),
    [
        ([user("a"), user("b")], [("user", [said("a"), said("b")])]),
        (
            [user("a"), assistant(Text("b")), user("c")],
            [("user", [said("a")]), ("assistant", [said("b")]), ("user", [said("c")])],
        ),
        ([user("a"), assistant(Text(" ")), user(" \n"), user("b")], [("user", [said("a"), said("b")])]),
        ([assistant(Text("b"))], [("user", [said("(the conversation goes on)")]), ("assistant", [said("b")])]),
        ([], [("user", [said("(the conversation goes on)")])]),
        ([Message("system", "be kind")], [("user", [said("<system>\nbe kind\n</system>")])]),
        (
            [user("a"), assistant(Text("b")), assistant(Text("c")), user("d")],
            [("user", [said("a")]), ("assistant", [said("b"), said("c")]), ("user", [said("d")])],
        ),
        (
            [user("a"), assistant(call("1"), call("2")), returned(Text("x"), result("2")), returned(result("1"))],
            [
                ("user", [said("a")]),
                ("assistant", [used("1"), used("2")]),
                ("user", [answered("1"), answered("2"), said("x")]),
            ],
        ),
        (
            [user("a"), assistant(call("1")), user("b")],
            [
                ("user", [said("a")]),
                ("assistant", [used("1")]),
                ("user", [answered("1", NO_RESULT, is_error=True), said("b")]),
            ],
        ),
        (
            [user("a"), assistant(call("1")), assistant(call("2")), returned(result("2"))],
            [
                ("user", [said("a")]),
                ("assistant", [used("1")]),
                ("user", [answered("1", NO_RESULT, is_error=True)]),
                ("assistant", [used("2")]),
                ("user", [answered("2")]),
            ],
        ),
        ([user("a"), returned(result("9", "lost"))], [("user", [said("a"), said("lost")])]),
        (
            [user("a"), assistant(call("1"), call("1")), returned(result("1"), result("1", "again"))],
            [("user", [said("a")]), ("assistant", [used("1")]), ("user", [answered("1"), said("again")])],
        ),
        (
            [user("a"), assistant(call("1")), returned(result("1", " ", True))],
            [
                ("user", [said("a")]),
                ("assistant", [used("1")]),
                ("user", [answered("1", "(no output)", is_error=True)]),
            ],
        ),
    ],
)
def test_messages(messages: list[Message], wanted: Any) -> None:
    assert sent(*messages) == wanted


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"a": [1, "ü"]}', {"a": [1, "ü"]}),
        ("", {}),
        ('{"a": ', {}),
        ("[1]", {}),
        ("null", {}),
    ],
)
def test_input_is_an_object(arguments: str, wanted: Any) -> None:
    block = sent(user("a"), assistant(call("1", arguments)), returned(result("1")))[1][1][0]
    assert block["input"] == wanted


def test_ids_and_names_of_other_services_are_made_to_fit() -> None:
    calls = [call("functions.work:0", name="a b"), call("functions_work_0", name="")]
    answers = [result("functions.work:0", "one"), result("functions_work_0", "two")]
    turns = sent(user("a"), assistant(*calls), Message("user", answers))
    ids = [block["id"] for block in turns[1][1]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-zA-Z0-9_-]+", id) for id in ids)
    assert [block["tool_use_id"] for block in turns[2][1]] == ids
    assert [block["name"] for block in turns[1][1]] == ["a_b", "unknown_tool"]


def test_thoughts_go_back_as_they_came_to_the_model_that_had_them() -> None:
    thoughts = [
        Reasoning(" with space \n", "seal==", model=MODEL),
        Reasoning("", "only-a-seal", model=MODEL),
        Reasoning("", data="EqkE/+==", model=MODEL),
        Reasoning("unsealed", model=MODEL),
        Reasoning("of another", "seal", model="anthropic/other"),
        Reasoning("of nobody", "seal"),
        Reasoning("plain"),
    ]
    turns = sent(user("a"), assistant(*thoughts, Text("b"), call("1")), returned(result("1")))
    assert turns[1][1] == [
        {"type": "thinking", "thinking": " with space \n", "signature": "seal=="},
        {"type": "thinking", "thinking": "", "signature": "only-a-seal"},
        {"type": "redacted_thinking", "data": "EqkE/+=="},
        said("b"),
        used("1"),
    ]


def test_thoughts_that_led_to_nothing_are_left_out() -> None:
    thought = Reasoning("hm", "seal", model=MODEL)
    assert sent(user("a"), assistant(thought), user("b")) == [("user", [said("a"), said("b")])]
    assert sent(user("a"), assistant(thought, Text("b"), thought), user("c"))[1][1][1:] == [said("b")]


def test_blocks_of_the_service_itself_go_back_to_it_alone() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    cut = {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}}
    foreign = OtherBlock({"type": "anthropic", "provider": "house", "block": search})
    content = (server(**search), server(**found), foreign, OtherBlock({"type": "image"}), server(**cut))
    assert sent(user("a"), assistant(*content), user("b"))[1][1] == [search, found]
    assert sent(user("a"), so_far=content)[1][1] == [search, found, cut]


def test_thoughts_can_be_forgotten() -> None:
    encoder = Encoder("anthropic", ServiceSettings())
    old = assistant(Reasoning("old", "seal", model=MODEL), Text("b"))
    new = assistant(Reasoning("new", "seal", model=MODEL), Text("d"))
    request = Request(MODEL, (user("a"), old, user("c")))
    assert b"old" in encoder.body(request, "m")
    assert encoder.forget_thoughts(request)
    assert not encoder.forget_thoughts(request)
    assert b"old" not in encoder.body(request, "m")
    later = encoder.body(Request(MODEL, (*request.messages, new, user("e"))), "m")
    assert b"old" not in later
    assert b"new" in later


def test_head() -> None:
    request = Request(MODEL, (user("a"),), "be kind", (TOOL,), 0.5, 100, ("END", " "))
    wire = json.loads(Encoder("anthropic", ServiceSettings(cache="off")).body(request, "m"))
    assert wire == {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "tools": [{"name": "work", "description": "Works.", "input_schema": {"type": "object", "properties": {}}}],
        "system": [said("be kind")],
        "messages": [{"role": "user", "content": [said("a")]}],
    }


@pytest.mark.parametrize(
    ("settings", "most", "wanted"),
    [
        ({"thinking_budget": 2048}, 4096, {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        ({"thinking_budget": 2048}, 2000, {"thinking": {"type": "enabled", "budget_tokens": 1999}}),
        ({"thinking_budget": 2048}, 1000, {"temperature": 0.0}),
        ({"thinking": "adaptive"}, 1000, {"thinking": {"type": "adaptive"}}),
        ({"thinking": "disabled"}, 1000, {"thinking": {"type": "disabled"}, "temperature": 0.0}),
        ({"effort": "low"}, 1000, {"output_config": {"effort": "low"}, "temperature": 0.0}),
        ({"extra_body": {"top_k": 3}}, 1000, {"top_k": 3, "temperature": 0.0}),
    ],
)
def test_ways_to_think(settings: dict[str, Any], most: int, wanted: Any) -> None:
    request = Request(MODEL, (user("a"),), temperature=0.0, max_tokens=most)
    wire = json.loads(Encoder("anthropic", ServiceSettings(**settings)).body(request, "m"))
    assert {name: wire[name] for name in wire.keys() - {"model", "max_tokens", "stream", "messages"}} == wanted


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-7-sonnet-20250219", 64_000),
        ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1", 32_000),
        ("claude-opus-4-8", 64_000),
        ("claude-sonnet-5-5", 64_000),
        ("another", 32_000),
    ],
)
def test_limit_that_the_service_demands(model: str, limit: int) -> None:
    request = Request(MODEL, (user("a"),))
    assert json.loads(Encoder("anthropic", ServiceSettings()).body(request, model))["max_tokens"] == limit
    assert json.loads(Encoder("anthropic", ServiceSettings(max_tokens=7)).body(request, model))["max_tokens"] == 7


def marked(wire: Any) -> list[str]:
    """What carries a mark, by its text, name or id."""
    found = [("tool " + tool["name"]) for tool in wire.get("tools", ()) if "cache_control" in tool]
    found += [block["text"] for block in wire.get("system", ()) if "cache_control" in block]
    for message in wire["messages"]:
        for block in message["content"]:
            if "cache_control" in block:
                found.append(block.get("text") or block.get("tool_use_id"))
    return found


def test_four_marks_for_the_cache() -> None:
    encoder = Encoder("anthropic", ServiceSettings(server_tools=({"type": "web_search_1", "name": "web"},)))
    steps = (user("a"), assistant(call("1")), returned(result("1")), assistant(call("2")))
    request = Request(MODEL, (*steps, returned(result("2"), Text("go on"))), "system", (TOOL,))
    assert marked(json.loads(encoder.body(request, "m"))) == ["tool web", "system", "1", "go on"]


def test_marks_may_last_an_hour_or_be_left_out() -> None:
    assert b'"cache_control":{"type":"ephemeral","ttl":"1h"}' in body(user("a"), cache="1h")
    assert b"cache_control" not in body(user("a"), cache="off")


BLOCKS = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "hello", "ü\n"])),
    st.builds(Reasoning, st.just("hm"), st.sampled_from([None, "s"]), model=st.sampled_from([None, MODEL])),
    st.builds(Reasoning, st.just(""), data=st.just("x"), model=st.just(MODEL)),
    st.builds(call, st.sampled_from(["1", "2", "a.b", ""]), st.sampled_from(["{}", "", "{"])),
    st.builds(result, st.sampled_from(["1", "2", "a.b", ""]), st.sampled_from(["", "ok"])),
    st.just(OtherBlock({"type": "image"})),
    st.just(server(type="server_tool_use", id="s", name="web", input={})),
)
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["user", "assistant", "system"]), st.lists(BLOCKS, max_size=4)), max_size=8
)


@given(MESSAGES)
def test_what_is_sent_is_valid(messages: list[Message]) -> None:
    turns = sent(*messages)
    assert [role for role, _ in turns] == [("user", "assistant")[n % 2] for n in range(len(turns))]
    open_calls: list[str] = []
    for role, blocks in turns:
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        if role == "assistant":
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert len(set(open_calls)) == len(open_calls)
            assert "thinking" not in blocks[-1]["type"]
            assert all(block["signature"] for block in blocks if block["type"] == "thinking")
        else:
            assert [block["type"] == "tool_result" for block in blocks] == sorted(
                (block["type"] == "tool_result" for block in blocks), reverse=True
            )
            assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == open_calls
            open_calls = []


def test_each_request_extends_the_one_before() -> None:
    encoded_messages: list[Message] = []

    class Counting(Encoder):
        def _encode(self, message: Message, model: str) -> Any:
            encoded_messages.append(message)
            return super()._encode(message, model)

    encoder = Counting("anthropic", ServiceSettings())
    history: list[Message] = [user("go")]
    last = b""
    for n in range(20):
        now = encoder.body(Request(MODEL, tuple(history), "system", (TOOL,)), "m")
        assert now.count(MARK) == min(4, n + 3)
        plain = now.replace(MARK, b"")
        assert plain.startswith(last)
        last = plain.removesuffix(b"]}]}")
        history.append(assistant(Reasoning("hm", "s", model=MODEL), call(f"c{n}")))
        history.append(returned(result(f"c{n}")))
        if n % 3 == 0:
            history.append(user(f"and {n}"))
    assert len(encoded_messages) == len({id(message) for message in encoded_messages})


@given(MESSAGES)
def test_what_was_sent_before_changes_nothing(messages: list[Message]) -> None:
    encoder = Encoder("anthropic", ServiceSettings())
    for n in range(len(messages) + 1):
        fresh = [Message(message.role, message.content) for message in messages[:n]]
        assert encoder.body(Request(MODEL, tuple(messages[:n])), "m") == body(*fresh)


def test_conversations_that_share_messages_do_not_disturb_each_other() -> None:
    encoder = Encoder("anthropic", ServiceSettings())
    shared = (user("a"), assistant(call("1")), returned(result("1")))
    for _ in range(2):
        for text in ("left", "right"):
            messages = (*shared, user(text))
            assert encoder.body(Request(MODEL, messages), "m") == body(*messages)
