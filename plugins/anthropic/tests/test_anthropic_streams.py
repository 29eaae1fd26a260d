"""Recorded answers, assembled from whole bodies, single bytes and random pieces, and over a connection."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import trio
from dsh_anthropic.adapter import AnthropicAdapter
from dsh_anthropic.encode import SERVER_BLOCK
from dsh_anthropic.settings import Provider, ServiceSettings

from dsh import LlmError, Message, Request
from dsh.llm.assembler import Assembler
from dsh.llm.http.service import Place
from dsh.messages import OtherBlock, Reasoning, ToolCallBlock

SHARED = Path(__file__).parents[3] / "../shared"
STREAMS = SHARED / "streams"
SERVER = SHARED / "tools/fakesrv.py"
FINISHES = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens", "pause": "pause", "error": None}
MAKER = "p/m"


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
    return [row["file"].removesuffix(".sse") for row in rows if row["api_style"] == "anthropic-messages"]


def adapter_at(url: str, transport: httpx.AsyncBaseTransport | None = None) -> AnthropicAdapter:
    return AnthropicAdapter(Provider(Place("p", "/v1/messages", url), ServiceSettings(pauses=0)), transport)


async def assemble(pieces: Iterable[bytes]) -> tuple[Assembler, LlmError | None]:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Pieces(pieces)))
    return await asked(adapter_at("http://localhost", transport))


async def asked(adapter: AnthropicAdapter) -> tuple[Assembler, LlmError | None]:
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


def thought(block: Reasoning) -> dict[str, Any]:
    assert block.model == MAKER
    if block.data is not None:
        return {"type": "redacted_thinking", "data": block.data}
    return {"type": "thinking", "text": block.text, "signature": block.signature}


def kind(block: object) -> str:
    if isinstance(block, OtherBlock):
        assert block.type == SERVER_BLOCK
        return str(block.data["block"]["type"])
    if isinstance(block, Reasoning):
        return "thinking" if block.data is None else "redacted_thinking"
    return "tool_use" if isinstance(block, ToolCallBlock) else "text"


def summary(assembler: Assembler, error: LlmError | None) -> dict[str, Any]:
    if error is not None:
        return {"text": assembler.text(), "error": (error.code, error.retryable, str(error))}
    blocks, usage = assembler.content(), assembler.usage
    return {
        "text": assembler.text(),
        "reasoning": "".join(block.text for block in blocks if isinstance(block, Reasoning)),
        "reasoning_blocks": [thought(block) for block in blocks if isinstance(block, Reasoning)],
        "block_types": [kind(block) for block in blocks],
        "tool_calls": [
            {"id": block.id, "name": block.name, "arguments": json.loads(block.arguments or "{}")}
            for block in blocks
            if isinstance(block, ToolCallBlock)
        ],
        "finish": assembler.finish and assembler.finish.kind,
        "usage": usage
        and {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cache_read_tokens,
            "reasoning": usage.reasoning_tokens,
            "cache_write": usage.cache_write_tokens,
        },
    }


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    if "error" in expected:
        return {"text": expected["text"], "error": ("OVERLOADED", True, f"p: {expected['error']['message']}")}
    return {
        "finish": FINISHES[expected["stop"]],
        "reasoning_blocks": expected.get("reasoning_blocks", []),
        **{name: expected[name] for name in ("text", "reasoning", "block_types", "tool_calls", "usage")},
    }


@pytest.mark.parametrize("name", recorded())
async def test_recorded_message_assembles_as_expected(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    want = wanted(json.loads((STREAMS / f"{name}.expected.json").read_bytes()))

    assert summary(*await assemble([body])) == want
    for seed in range(3):
        assert summary(*await assemble(random_pieces(body, seed))) == want
    assert summary(*await assemble(body[n : n + 1] for n in range(len(body)))) == want
    for newline in (b"\r\n", b"\r"):
        assert summary(*await assemble([body.replace(b"\n", newline)])) == want


@pytest.mark.skipif(not SERVER.exists(), reason="the scripted service is not here")
async def test_recorded_messages_are_the_same_over_a_connection(tmp_path: Path) -> None:
    names = recorded()
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"sse": str((STREAMS / f"{name}.sse").resolve())} for name in names]))
    command = [sys.executable, str(SERVER), str(script), "--port", "0", "--split", "1"]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            url = bytes(await process.stdout.receive_some()).decode().strip()
        adapter = adapter_at(url)
        for name in names:
            expected = json.loads((STREAMS / f"{name}.expected.json").read_bytes())
            assert summary(*await asked(adapter)) == wanted(expected), name
        await adapter.aclose()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


def cuts() -> list[Any]:
    return [name for name in recorded() if isinstance(name, str) and "overloaded" not in name and "pause" not in name]


@pytest.mark.parametrize("name", cuts())
async def test_message_that_breaks_off_is_never_finished(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes().rstrip()
    end = body.rindex(b"message_stop")
    for at in sorted({1, end // 3, end // 2, end - 1, end, *(n for n in range(end) if body[n] >= 0xC0)}):
        assembler, error = await assemble([body[: at + 1]])
        assert error is not None
        assert assembler.finish is None
        assert error.code in ("STREAM_CLOSED", "EMPTY_RESPONSE")


def read(file: Path) -> Any:
    return json.loads(file.read_bytes())


def refusals() -> list[Any]:
    files = sorted((STREAMS / "errors").glob("*-anthropic.json"))
    if not files:
        return [pytest.param(None, marks=pytest.mark.skip("the recorded errors are not here"))]
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("file", refusals())
async def test_recorded_error_is_classified(file: Path) -> None:
    answer = read(file)
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    headers = {name: value for name, value in headers.items() if name not in ("content-length", "content-encoding")}

    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(answer["status"], headers=headers, content=answer["body"].encode())

    _, error = await asked(adapter_at("http://localhost", httpx.MockTransport(refuse)))

    assert error is not None
    assert error.code == answer["kind"].upper()
    assert (error.status, error.retryable) == (answer["status"], False)
    assert json.loads(answer["body"])["error"]["message"] in error.message
