"""Events to lines and back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh.errors import CorruptSession
from dsh.jsonvalue import NotJson, dumps, loads
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh.messages import (
    USER,
    Block,
    CallConfig,
    FinishReason,
    Message,
    OtherBlock,
    OtherSource,
    PluginSource,
    Reasoning,
    Text,
    TokenUsage,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
)
from dsh.session.codec import Codec
from dsh.session.events import (
    VOCABULARY,
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    EndReason,
    ErrorInfo,
    Event,
    Header,
    HookDecision,
    LinesDelta,
    OtherData,
    PromptBlocked,
    Replace,
    RequestHeader,
    RequestHeaderDelta,
    SteeringMessage,
    StepEnd,
    StepStart,
    SurfaceOp,
    TodoItem,
    TodoWrite,
    ToolCall,
    ToolResult,
    ToolsDelta,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh.session.store import SessionHeader

RECORDED = Path(__file__).parents[1] / "../shared/recorded"
SCHEMA = ToolSchema("read", "Reads.", {"type": "object", "properties": {}})

SPELLINGS: list[tuple[Any, str]] = [
    (TurnStart(1, Trigger("message", USER)), '{"turn":1,"trigger":{"kind":"message","source":{"kind":"user"}}}'),
    (TurnEnd(1, EndReason("completed")), '{"turn":1,"reason":{"kind":"completed"}}'),
    (
        TurnEnd(1, EndReason("error", step=2, message="m", code="C")),
        '{"turn":1,"reason":{"kind":"error","step":2,"message":"m","code":"C"}}',
    ),
    (StepStart(1, 2), '{"turn":1,"step":2}'),
    (StepEnd(1, 2), '{"turn":1,"step":2}'),
    (UserMessage((Text("hi"),), USER), '{"content":[{"type":"text","text":"hi"}],"source":{"kind":"user"}}'),
    (
        PromptBlocked((Text("hi"),), PluginSource("p"), "no"),
        '{"content":[{"type":"text","text":"hi"}],"source":{"kind":"plugin","plugin":"p"},"reason":"no"}',
    ),
    (
        ContextMessage((OtherBlock({"type": "image", "x": [1]}),), OtherSource({"kind": "k", "y": None})),
        '{"content":[{"type":"image","x":[1]}],"source":{"kind":"k","y":null}}',
    ),
    (
        SteeringMessage(1, (Text("é\u2028"),), USER),
        '{"turn":1,"content":[{"type":"text","text":"é\u2028"}],"source":{"kind":"user"}}',
    ),
    (
        RequestHeader(
            Header(CallConfig("p/m", max_tokens=5, stop=["a"]), "s", (SCHEMA,), (Message("user", "x"),)), "initial"
        ),
        '{"header":{"config":{"model":"p/m","maxTokens":5,"stop":["a"]},"system":"s","tools":[{"name":"read",'
        '"description":"Reads.","parameters":{"type":"object","properties":{}}}],"messagePrefix":[{"role":"user",'
        '"content":[{"type":"text","text":"x"}]}]},"reason":"initial"}',
    ),
    (
        RequestHeaderDelta(LinesDelta(1, 0, ("x",)), ToolsDelta((), ("read",), ()), message_prefix=()),
        '{"system":{"keepStart":1,"keepEnd":0,"insert":["x"]},"tools":{"added":[],"removed":["read"],"changed":[]},'
        '"messagePrefix":[]}',
    ),
    (
        AssistantChunk(1, 2, ToolCallDelta(0, "c", "read", "{}")),
        '{"turn":1,"step":2,"chunk":{"type":"tool-call-delta","index":0,"id":"c","name":"read","argumentsDelta":"{}"}}',
    ),
    (
        AssistantChunk(1, 2, ToolCallDelta(0, "c")),
        '{"turn":1,"step":2,"chunk":{"type":"tool-call-delta","index":0,"id":"c","argumentsDelta":""}}',
    ),
    (
        AssistantMessage(
            1, 2, (Reasoning("r"), ToolCallBlock("c", "read", "{}")), TokenUsage(1, 2, reasoning_tokens=0), True
        ),
        '{"turn":1,"step":2,"content":[{"type":"reasoning","text":"r"},{"type":"tool-call","id":"c","name":"read",'
        '"arguments":"{}"}],"usage":{"inputTokens":1,"outputTokens":2,"reasoningTokens":0},"interrupted":true}',
    ),
    (
        AssistantMessage(1, 2, (Reasoning("r", "s=", model="p/m"), Reasoning("", data="d=", model="p/m"))),
        '{"turn":1,"step":2,"content":[{"type":"reasoning","text":"r","signature":"s=","model":"p/m"},'
        '{"type":"reasoning","text":"","data":"d=","model":"p/m"}]}',
    ),
    (ToolCall(1, 2, "c", "read", "{}"), '{"turn":1,"step":2,"callId":"c","name":"read","arguments":"{}"}'),
    (
        ToolResult(1, 2, "c", (Text("t"),), True, ErrorInfo("E", "X"), {"a": 1}),
        '{"turn":1,"step":2,"callId":"c","content":[{"type":"text","text":"t"}],"isError":true,'
        '"error":{"name":"E","code":"X"},"meta":{"a":1}}',
    ),
    (TodoWrite((TodoItem("do", "pending"),)), '{"todos":[{"content":"do","status":"pending"}]}'),
    (
        HookDecision("tools_pre_execute", "p", "1", "deny", reason="r", changed=("a",), ms=0.0, turn=1, call_id="c"),
        '{"hook":"tools_pre_execute","plugin":"p","version":"1","verdict":"deny","reason":"r","changed":["a"],"ms":0.0,'
        '"turn":1,"callId":"c"}',
    ),
    (OtherData("compact/start", {"turn": 1, "n": None}), '{"turn":1,"n":null}'),
]


def line(data: Any, rest: str = "", kind: str | None = None) -> bytes:
    return f'{{"type":"{kind or data.type}","seq":3,"time":4,"data":'.encode() + dumps(data) + rest.encode() + b"}"


def said(content: list[Any], rest: str = "") -> bytes:
    return line({"content": content, "source": {"kind": "user"}}, rest, "user/message")


@pytest.mark.parametrize(("data", "spelling"), SPELLINGS, ids=lambda value: getattr(value, "type", ""))
def test_every_type_has_its_json_spelling(data: Any, spelling: str) -> None:
    surface: SurfaceOp | None = "append" if getattr(data, "surface", False) else None
    expected = f'{{"type":"{data.type}","seq":3,"time":4,"data":{spelling}' + (
        ',"surfaceOp":"append"}' if surface else "}"
    )

    written = Codec().encode(Event(3, 4, data, None, surface))
    read = Codec().decode(written)

    assert expected == written.decode()
    assert data == read.data
    assert expected == Codec().encode(attrs.evolve(read, raw=None)).decode()


def test_spellings_cover_the_vocabulary() -> None:
    assert {cls.type for cls in VOCABULARY} <= {data.type for data, _ in SPELLINGS}


def test_the_envelope_has_its_order() -> None:
    event = Event(9, 4, ContextMessage((), USER), (1, 2), Replace(1, 2))

    written = Codec().encode(event)

    assert list(loads(written)) == ["type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp"]
    assert written.endswith(b'"sourceEventSeqs":[1,2],"surfaceOp":{"op":"replace","start":1,"end":2}}')
    assert Codec().decode(written) == event


@pytest.mark.parametrize(
    "chunk",
    [
        BlockStart(0, "text"),
        TextDelta(0, "a"),
        ReasoningDelta(1, "b"),
        BlockEnd(0, ToolResultBlock("c", (Text("x"),), False)),
        Usage(TokenUsage(1, 2)),
        Finish(FinishReason("error", "m", "C")),
    ],
    ids=lambda chunk: chunk.type,
)
def test_chunks_and_their_tag(chunk: Chunk) -> None:
    codec = Codec()
    json = codec.to_json(chunk)

    assert next(iter(json)) == "type"
    assert json["type"] == chunk.type
    assert codec.from_json(json, Chunk) == chunk


def test_what_a_class_does_not_know_survives_in_the_line() -> None:
    codec = Codec()
    original = b'{"type":"step/end","seq":1,"time":2,"data":{"turn":1,"step":1,"later":[1e2]},"new":true}'

    event = codec.decode(original)

    assert event.data == StepEnd(1, 1)
    assert codec.encode(event) == original


def test_unknown_types_blocks_and_sources_are_carried() -> None:
    codec = Codec()
    event = codec.decode(b'{"type":"from/future","seq":0,"time":1,"data":{"big":123456789012345678901234567890}}')
    content: tuple[Block, ...] = codec.from_json([{"type": "video", "url": "u"}, {"odd": 1}], tuple[Block, ...])

    assert event.data == OtherData("from/future", {"big": 123456789012345678901234567890})
    assert b"123456789012345678901234567890" in codec.encode(attrs.evolve(event, raw=None))
    assert codec.to_json(content) == [{"type": "video", "url": "u"}, {"odd": 1}]


def test_lone_surrogates_are_cleaned_when_read_and_kept_in_the_line() -> None:
    data = rb'{"turn":1,"step":1,"callId":"c","content":[{"type":"text","text":"\udcb2"}],"isError":false}'
    original = b'{"type":"tool/result","seq":0,"time":1,"data":' + data + b',"surfaceOp":"append"}'

    event = Codec().decode(original)

    assert event.data.content == (Text("\ufffd"),)
    assert Codec().encode(event) == original


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", ["not JSON"]),
        (b"[]", ["not an event"]),
        (b'{"type":"step/end","seq":0,"time":1}', ["not an event", "data"]),
        (b'{"type":"step/end","seq":true,"time":1,"data":{}}', ["seq"]),
        (b'{"type":"step/end","seq":0,"time":1,"data":[]}', ["step/end", "an object"]),
        (line({"turn": "1", "step": 1}, kind="step/end"), ["step/end", "data.turn", "int", "str"]),
        (line({"turn": 1}, kind="step/end"), ["step/end", "data.step", "missing"]),
        (line({"turn": 1, "step": 1, "chunk": {"type": "nope"}}, kind="assistant/chunk"), ["nope", "data.chunk"]),
        (said([{"type": "text"}], ',"surfaceOp":"append"'), ["user/message", "data.content[0].text"]),
        (said([]), ["user/message", "surfaceOp"]),
        (said([], ',"surfaceOp":{"op":"replace","start":1}'), ["surfaceOp"]),
        (said([], ',"surfaceOp":"append","sourceEventSeqs":["1"]'), ["sourceEventSeqs"]),
        (line({"turn": 1, "step": 1, "callId": 3, "name": "n", "arguments": ""}, kind="tool/call"), ["data.callId"]),
    ],
)
def test_what_does_not_fit_is_named(text: bytes, words: list[str]) -> None:
    with pytest.raises(CorruptSession) as caught:
        Codec().decode(text)

    assert [word for word in words if word not in str(caught.value)] == []


def test_from_json_names_the_field() -> None:
    with pytest.raises(ValueError, match=r"missing @ data\.text"):
        Codec().from_json({"type": "text"}, Text)


@attrs.frozen
class Weather:
    type: ClassVar[str] = "weather/seen"
    sky: str
    degrees: float | None = None
    hours_ahead: tuple[int, ...] = ()
    extra: dict[str, Any] = attrs.field(factory=dict)


def test_a_plugins_type_is_read_as_its_class_where_it_is_known() -> None:
    data = Weather("blue", 21.5, (1, 2), {"a": 1})
    written = Codec().encode(Event(0, 1, data))

    assert written.endswith(b'"data":{"sky":"blue","degrees":21.5,"hoursAhead":[1,2],"extra":{"a":1}}}')
    assert Codec([Weather]).decode(written).data == data
    assert Codec().decode(written).data == OtherData("weather/seen", loads(written)["data"])


class Odd:
    """No JSON; its text is the same in every process."""

    def __repr__(self) -> str:
        return "Odd()"


@pytest.mark.parametrize(
    "data",
    [
        Weather("blue", math.nan),
        Weather("blue", extra={"a": math.inf}),
        Weather("blue", extra={1: "a"}),  # type: ignore[dict-item]  # the mistake in question
        Weather("blue", extra={"a": (1,)}),
        Weather("blue", extra={"a": {1}}),
        Weather("blue", extra={"a": Odd()}),
    ],
    ids=str,
)
def test_what_is_no_json_is_refused(data: Weather) -> None:
    with pytest.raises(NotJson, match=r"^weather/seen: .*cannot be serialized as JSON"):
        Codec().imported(data)


def test_the_line_made_last_is_made_once() -> None:
    codec = Codec()
    event = Event(0, 1, StepStart(1, 1))

    assert codec.encode(event) is codec.encode(event)


@pytest.mark.parametrize("header", [SessionHeader("a", 1), SessionHeader("a", 1, "/w", "parent", 3)])
def test_session_headers(header: SessionHeader) -> None:
    codec = Codec()
    written = codec.encode_header(header)

    assert list(loads(written))[:4] == ["type", "version", "id", "createdAt"]
    assert codec.decode_header(written) == header


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "not JSON"),
        (b'{"type":"other"}', "header"),
        (b'{"type":"session","version":1,"id":"a","createdAt":1}', "format 1 "),
        (b'{"type":"session","version":0,"id":"a"}', "createdAt"),
        (b'{"type":"session","version":0,"id":7,"createdAt":1}', "data.id"),
    ],
)
def test_bad_session_headers_are_refused(text: bytes, words: str) -> None:
    with pytest.raises(CorruptSession, match=words):
        Codec().decode_header(text)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded sessions are not here")
def test_recorded_sessions_come_back_byte_for_byte() -> None:
    codec = Codec()
    seen: set[str] = set()
    for path in sorted(RECORDED.glob("*/session*.jsonl")):
        header, *lines = path.read_bytes().split(b"\n")[:-1]
        assert codec.encode_header(codec.decode_header(header)) == header
        for original in lines:
            event = codec.decode(original)
            seen.add(event.type)
            assert codec.encode(event) is original
            assert codec.encode(attrs.evolve(event, raw=None)) == original

    assert len(seen) > 10


texts = st.text(max_size=8)
blocks = st.recursive(
    st.one_of(
        st.builds(Text, texts),
        st.builds(Reasoning, texts),
        st.builds(ToolCallBlock, texts, texts, texts),
        st.builds(OtherBlock, st.fixed_dictionaries({"type": st.just("x"), "y": st.integers()})),
    ),
    lambda inner: st.builds(ToolResultBlock, texts, st.lists(inner, max_size=2).map(tuple), st.none() | st.booleans()),
    max_leaves=3,
)
contents = st.lists(blocks, max_size=3).map(tuple)
sources = st.one_of(st.just(USER), st.builds(PluginSource, texts), st.builds(OtherSource, st.just({"kind": "z"})))
datas = st.one_of(
    st.builds(UserMessage, contents, sources),
    st.builds(AssistantMessage, st.integers(), st.integers(), contents, st.none() | st.builds(TokenUsage)),
    st.builds(ToolResult, st.integers(), st.integers(), texts, contents, st.booleans(), st.none()),
    st.builds(AssistantChunk, st.integers(), st.integers(), st.builds(TextDelta, st.integers(), texts)),
    st.builds(ToolCall, st.integers(), st.integers(), texts, texts, texts),
)


@given(datas, st.integers(0, 2**53), st.none() | st.lists(st.integers(0, 99)).map(tuple))
def test_any_event_survives(data: Any, time: int, seqs: tuple[int, ...] | None) -> None:
    codec = Codec()
    event = Event(7, time, data, seqs, "append" if getattr(data, "surface", False) else None)

    written = codec.encode(event)

    assert b"\n" not in written
    assert Codec().decode(written) == event
