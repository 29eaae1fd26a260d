"""OpenAI's Responses: recorded answers, what is sent, and what goes wrong."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import trio
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.providers import Provider, ProviderSettings, configured
from dsh_chat.responses import ResponsesEncoder

from dsh import ConfigError, LlmError, Message, Request, Text, ToolCallBlock, ToolResultBlock, ToolSchema
from dsh.llm.assembler import Assembler
from dsh.messages import Reasoning, TokenUsage

SHARED = Path(__file__).parents[3] / "../shared"
STREAMS = SHARED / "streams"
FINISHES = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}
MAKER = "p/m"
HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these reads."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.pieces = iter(pieces)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self.pieces:
            return piece
        raise StopAsyncIteration


def recorded() -> list[Any]:
    manifest = STREAMS / "MANIFEST.tsv"
    if not manifest.exists():
        return [pytest.param("", marks=pytest.mark.skip("the recorded streams are not here"))]
    with manifest.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row["file"].removesuffix(".sse") for row in rows if row["api_style"] == "openai-responses"]


def adapter_at(url: str, transport: httpx.AsyncBaseTransport | None = None, **dialect: Any) -> ChatAdapter:
    return ChatAdapter(Provider("p", url, dialect=Dialect(dialect="responses", **dialect)), transport)


async def assemble(*pieces: bytes) -> tuple[Assembler, LlmError | None]:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Pieces(pieces)))
    return await asked(adapter_at("http://localhost", transport))


async def asked(adapter: ChatAdapter) -> tuple[Assembler, LlmError | None]:
    assembler = Assembler()
    try:
        async for chunk in adapter.stream(Request(MAKER, (Message("user", "hi"),)), "m"):
            assembler.feed(chunk)
    except LlmError as error:
        return assembler, error
    return assembler, None


def random_pieces(body: bytes, seed: int) -> list[bytes]:
    source = random.Random(seed)
    pieces, at = [], 0
    while at < len(body):
        size = source.choice((1, 2, 3, 7, 60, 400, 4000))
        pieces.append(body[at : at + size])
        at += size
    return pieces


def arguments_of(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def summary(assembler: Assembler, error: LlmError | None) -> dict[str, Any]:
    if error is not None:
        return {"text": assembler.text(), "error": str(error)}
    blocks, usage = assembler.content(), assembler.usage
    assert all(block.model == MAKER for block in blocks if isinstance(block, Reasoning))
    return {
        "text": assembler.text(),
        "reasoning": "".join(block.text for block in blocks if isinstance(block, Reasoning)),
        "calls": [
            (block.id, block.name, arguments_of(block.arguments))
            for block in blocks
            if isinstance(block, ToolCallBlock)
        ],
        "finish": assembler.finish and assembler.finish.kind,
        "usage": usage
        and {
            "input": usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0),
            "output": usage.output_tokens,
            "cached": usage.cache_read_tokens,
            "reasoning": usage.reasoning_tokens,
        },
    }


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    if "error" in expected:
        return {"text": expected["text"], "error": f"p: {expected['error']['message']}"}
    return {
        "text": expected["text"],
        "reasoning": expected["reasoning"],
        "calls": [
            (call["id"], call["name"], call.get("arguments_raw", call["arguments"])) for call in expected["tool_calls"]
        ],
        "finish": FINISHES[expected["stop"]],
        "usage": expected["usage"],
    }


@pytest.mark.parametrize("name", recorded())
async def test_recorded_response_assembles_as_expected(name: str, nursery: trio.Nursery) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    want = wanted(json.loads((STREAMS / f"{name}.expected.json").read_bytes()))

    assert summary(*await assemble(body)) == want
    for seed in range(3):
        assert summary(*await assemble(*random_pieces(body, seed))) == want
    assert summary(*await assemble(*(body[n : n + 1] for n in range(len(body))))) == want

    cuts = [random_pieces(HEAD + body, 4), [HEAD, *(body[n : n + 1] for n in range(len(body)))]]

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()
            for piece in cuts.pop():
                await stream.send_all(piece)
        await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, serve, 0)
    adapter = adapter_at(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    assert [summary(*await asked(adapter)) for _ in range(2)] == [want] * 2
    await adapter.aclose()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", [name for name in recorded() if isinstance(name, str) and "error" not in name])
async def test_response_that_breaks_off_is_never_finished(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    end = max(body.rfind(b"response.completed"), body.rfind(b"response.incomplete"))
    for at in (1, end // 3, end // 2, end):
        assembler, error = await assemble(body[:at])
        assert error is not None
        assert error.code in ("STREAM_CLOSED", "EMPTY_RESPONSE")
        assert assembler.finish is None


async def test_encrypted_thoughts_are_kept() -> None:
    name = "openai/resp-gpt-5.5-tool-pretext"
    if name not in recorded():
        pytest.skip("the recorded streams are not here")
    assembler, _ = await assemble((STREAMS / f"{name}.sse").read_bytes())
    thought, text, call = assembler.content()
    assert isinstance(thought, Reasoning)
    assert thought.data is not None
    assert thought.data.startswith("gAAAA")
    assert isinstance(text, Text)
    assert isinstance(call, ToolCallBlock)


async def test_error_of_a_failed_response_is_the_one_that_counts() -> None:
    name = "openai/resp-gpt-4o-error"
    if name not in recorded():
        pytest.skip("the recorded streams are not here")
    _, error = await assemble((STREAMS / f"{name}.sse").read_bytes())
    assert error is not None
    # It asks for more than the account may ever have in a minute.
    assert "Request too large" in error.message
    assert (error.code, error.retryable) == ("CONTEXT_OVERFLOW", False)


def transcripts() -> list[Any]:
    found = sorted((SHARED / "local/transcripts").glob("3*.response.http"))
    return [pytest.param(file.read_bytes(), id=file.name.removesuffix(".response.http")) for file in found]


@pytest.mark.parametrize("transcript", transcripts())
async def test_responses_of_a_llama_server(transcript: bytes) -> None:
    _, _, body = transcript.replace(b"\r\n", b"\n").partition(b"\n\n")
    assembler, error = await assemble(body)
    assert error is None
    assert assembler.finish is not None
    (block,) = assembler.content()
    assert assembler.finish.kind == ("tool-calls" if isinstance(block, ToolCallBlock) else "stop")
    assert assembler.usage is not None


def event(kind: str, **more: Any) -> bytes:
    return b"data: " + json.dumps({"type": f"response.{kind}", **more}).encode() + b"\n\n"


async def test_refusal() -> None:
    delta = event("refusal.delta", output_index=0, delta="I will not")
    assembler, _ = await assemble(delta, event("completed", response={"status": "completed"}))
    assert assembler.text() == "I will not"
    assert assembler.finish is not None
    assert assembler.finish.kind == "refusal"


async def test_filtered_answer_is_an_error() -> None:
    response = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    assembler, _ = await assemble(event("incomplete", response=response))
    assert assembler.finish is not None
    assert (assembler.finish.kind, assembler.finish.code) == ("error", "CONTENT_FILTER")


async def test_parts_of_a_summary_are_paragraphs() -> None:
    parts = []
    for n, text in enumerate(("one", "two")):
        parts.append(event("reasoning_summary_part.added", output_index=0, summary_index=n))
        parts.append(event("reasoning_summary_text.delta", output_index=0, summary_index=n, delta=text))
    assembler, _ = await assemble(*parts, event("completed", response={}))
    assert assembler.content() == (Reasoning("one\n\ntwo", model=MAKER),)


async def test_response_that_was_not_streamed() -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x="},
        {"type": "message", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "call_id": "1", "name": "work", "arguments": "{}"},
    ]
    whole = {"object": "response", "status": "completed", "output": output, "usage": {"input_tokens": 3}}
    assembler, _ = await assemble(json.dumps(whole).encode())
    assert assembler.content() == (Reasoning("hm", data="x=", model=MAKER), Text("a"), ToolCallBlock("1", "work", "{}"))
    assert assembler.usage == TokenUsage(3, 0)


async def test_what_the_end_alone_tells_is_the_answer() -> None:
    output = [
        {"type": "message", "content": [{"type": "output_text", "text": "a"}]},
        {"type": "function_call", "call_id": "1", "name": "work", "arguments": {"n": 1}},
    ]
    assembler, _ = await assemble(event("created", response={}), event("completed", response={"output": output}))
    assert assembler.content() == (Text("a"), ToolCallBlock("1", "work", '{"n":1}'))


async def test_a_call_that_the_end_alone_tells_is_not_lost() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "a"}]}
    call = {"type": "function_call", "call_id": "1", "name": "work", "arguments": "{}"}
    text = event("output_text.delta", output_index=0, delta="a")
    end = event("completed", response={"output": [message, call]})
    assembler, _ = await assemble(text, end)
    assert assembler.content() == (Text("a"), ToolCallBlock("1", "work", "{}"))
    assert assembler.finish is not None
    assert assembler.finish.kind == "tool-calls"

    done = event("output_item.done", output_index=1, item=call)
    assembler, _ = await assemble(text, done, end)
    assert assembler.content() == (Text("a"), ToolCallBlock("1", "work", "{}"))

    pieces = event("function_call_arguments.delta", output_index=1, delta="{}")
    assembler, _ = await assemble(text, pieces, end)
    assert assembler.content() == (Text("a"), ToolCallBlock("1", "work", "{}"))


@pytest.mark.parametrize("told_by", ["arguments", "item"])
@pytest.mark.parametrize("so_far", ["", '{"a"', '{"b"', '{"a":1}'])
async def test_arguments_as_a_whole_are_those_that_count(told_by: str, so_far: str) -> None:
    item = {"type": "function_call", "call_id": "1", "name": "work", "arguments": ""}
    whole = '{"a":1}'
    last = (
        event("function_call_arguments.done", output_index=0, arguments=whole)
        if told_by == "arguments"
        else event("output_item.done", output_index=0, item={**item, "arguments": whole})
    )
    assembler, _ = await assemble(
        event("output_item.added", output_index=0, item=item),
        event("function_call_arguments.delta", output_index=0, delta=so_far),
        last,
        event("completed", response={"status": "completed"}),
    )
    assert assembler.content() == (ToolCallBlock("1", "work", whole),)


@pytest.mark.parametrize("details", [None, {}, {"reason": "max_output_tokens"}, {"reason": "max_tokens"}])
async def test_an_answer_that_is_not_complete_was_cut(details: Any) -> None:
    response = {"status": "incomplete", "incomplete_details": details}
    assembler, error = await assemble(
        event("output_text.delta", output_index=0, delta="a"), event("incomplete", response=response)
    )
    assert error is None
    assert assembler.finish is not None
    assert assembler.finish.kind == "max-tokens"


async def test_arguments_may_come_before_the_call_that_they_are_for() -> None:
    item = {"type": "function_call", "call_id": "1", "name": "work", "arguments": "{}"}
    assembler, _ = await assemble(
        event("function_call_arguments.delta", output_index=3, delta="{}"),
        event("output_item.done", output_index=3, item=item),
        event("completed", response={}),
    )
    assert assembler.content() == (ToolCallBlock("1", "work", "{}"),)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'data: {"type":"error","code":"server_error","message":"no"}\n\n', "SERVER"),
        (b'event: error\ndata: {"message":"no","code":"rate_limit_exceeded"}\n\n', "RATE_LIMIT"),
        (b'{"error":{"message":"no","code":"server_error"}}', "SERVER"),
        (b'data: {"choices":[]}\n\n', "MALFORMED_RESPONSE"),
        (event("function_call_arguments.delta", output_index=1, delta=["{"]), "MALFORMED_RESPONSE"),
        (event("function_call_arguments.delta", output_index=1, delta="{"), "STREAM_CLOSED"),
        (b"data: [DONE]\n\n", "STREAM_CLOSED"),
        (b"", "EMPTY_RESPONSE"),
    ],
)
async def test_answers_that_are_none(body: bytes, code: str) -> None:
    _, error = await assemble(body)
    assert error is not None
    assert error.code == code


def sent(*messages: Message, **dialect: Any) -> Any:
    encoder = ResponsesEncoder(Dialect(dialect="responses", **dialect))
    return json.loads(encoder.body(Request(MAKER, messages), "m"))["input"]


def test_head() -> None:
    tool = ToolSchema("work", "Works.", {"type": "object"})
    request = Request(MAKER, (Message("user", "a"),), "be kind", (tool,), 0.5, 100)
    encoder = ResponsesEncoder(Dialect(dialect="responses", send_reasoning="always", reasoning_effort="low"))
    assert json.loads(encoder.body(request, "m")) == {
        "model": "m",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low"},
        "temperature": 0.5,
        "max_output_tokens": 100,
        "tools": [
            {
                "type": "function",
                "name": "work",
                "description": "Works.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "instructions": "be kind",
        "input": [{"role": "user", "content": "a"}],
    }
    assert json.loads(encoder.body(Request(MAKER, ()), "m"))["input"] == []


def test_items() -> None:
    thoughts = (
        Reasoning("seen", data="x=", model=MAKER),
        Reasoning("open", model=MAKER),
        Reasoning("of another", data="y=", model="q/m"),
        Reasoning("sealed", "seal"),
    )
    calls = (ToolCallBlock("1", "wo rk", '{"a":1}'), ToolCallBlock("2", "work", ""))
    messages = (
        Message("user", "go"),
        Message("assistant", [*thoughts, Text("look"), *calls]),
        Message("user", [ToolResultBlock("1", (Text("one"),))]),
        Message("user", "and now"),
        Message("assistant", [Text("done"), Reasoning("to nothing", model=MAKER)]),
    )
    summary = [{"type": "summary_text", "text": "seen"}]
    own = [
        {"type": "reasoning", "summary": summary, "encrypted_content": "x="},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "open"}]},
    ]
    rest = [
        {"role": "assistant", "content": "look"},
        {"type": "function_call", "call_id": "1", "name": "wo_rk", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "2", "name": "work", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call_output", "call_id": "2", "output": "(the call was not answered)"},
        {"role": "user", "content": "and now"},
        {"role": "assistant", "content": "done"},
    ]
    go = [{"role": "user", "content": "go"}]
    assert sent(*messages) == go + rest
    for when in ("always", "tool-calls"):
        assert sent(*messages, send_reasoning=when) == go + own + rest


def test_each_request_extends_the_one_before() -> None:
    encoder = ResponsesEncoder(Dialect(dialect="responses", send_reasoning="always"))
    history = [Message("user", "go")]
    last = b""
    for n in range(10):
        now = encoder.body(Request(MAKER, tuple(history)), "m")
        assert now.startswith(last)
        last = now.removesuffix(b"]}")
        call = ToolCallBlock(f"c{n}", "work", "{}")
        history.append(Message("assistant", [Reasoning("hm", data="x", model=MAKER), call]))
        history.append(Message("user", [ToolResultBlock(call.id, (Text("ok"),))]))


def test_table_chooses_the_dialect() -> None:
    settings = ProviderSettings(base_url="https://host/v1/responses", dialect="responses")
    provider = configured("house", settings, {})
    assert (provider.base_url, provider.dialect.dialect) == ("https://host/v1", "responses")


def test_dialect_that_there_is_not() -> None:
    settings = ProviderSettings(base_url="https://host/v1", dialect="latin")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigError, match=r"providers\.house\.dialect is 'latin'; it takes one of chat, responses"):
        configured("house", settings, {})


async def test_requests_go_to_their_own_path() -> None:
    asked_for: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked_for.append(str(request.url))
        return httpx.Response(200, content=event("completed", response={}))

    await asked(adapter_at("http://host/v1", httpx.MockTransport(answer)))
    assert asked_for == ["http://host/v1/responses"]
