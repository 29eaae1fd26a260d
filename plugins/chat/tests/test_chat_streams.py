"""Recorded answers of many services, assembled from whole bodies, single bytes and random pieces."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import trio
from dsh_chat.adapter import ChatAdapter
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request, Text
from dsh.llm.assembler import Assembler
from dsh.messages import Reasoning, ToolCallBlock

STREAMS = Path(__file__).parents[3] / "../shared/streams"
SERVER = STREAMS.parent / "tools/fakesrv.py"
FINISHES = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens", "none": None, "refusal": "refusal"}
CUT = {"constructed/deepseek-cut-before-finish", "constructed/openai-cut-in-json"}


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
    return [row["file"].removesuffix(".sse") for row in rows if row["api_style"] == "openai-chat"]


async def assemble(pieces: Iterable[bytes]) -> tuple[Assembler, LlmError | None]:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=Pieces(pieces)))
    return await asked(ChatAdapter(Provider("p", "http://localhost"), transport))


async def asked(adapter: ChatAdapter) -> tuple[Assembler, LlmError | None]:
    assembler = Assembler()
    try:
        async for chunk in adapter.stream(Request("p/m", (Message("user", "hi"),)), "m"):
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
    blocks = assembler.content()
    usage = assembler.usage
    return {
        "text": "".join(block.text for block in blocks if isinstance(block, Text)),
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
        "error": error and error.code,
    }


def wanted(name: str, expected: dict[str, Any]) -> dict[str, Any]:
    finish = FINISHES.get(expected["stop"])
    failed = "error" in expected or "unknown-field:error" in expected["notes"]
    if expected["stop"] == "none" and not failed and name not in CUT:
        finish = "tool-calls" if expected["tool_calls"] else "stop"
    return {
        "text": expected["text"] + expected.get("refusal", ""),
        "reasoning": expected["reasoning"],
        "calls": [
            (call["id"], call["name"], call.get("arguments_raw", call["arguments"])) for call in expected["tool_calls"]
        ],
        "finish": None if failed else finish,
        "usage": None if failed else expected["usage"],
    }


@pytest.mark.parametrize("name", recorded())
async def test_recorded_stream_assembles_as_expected(name: str) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    expected = json.loads((STREAMS / f"{name}.expected.json").read_bytes())

    whole = summary(*await assemble([body]))
    error = whole.pop("error")
    want = wanted(name, expected)
    assert whole == want
    assert (error is not None) == (want["finish"] is None)
    if name in CUT:
        assert error == "STREAM_CLOSED"

    for seed in range(3):
        pieces = summary(*await assemble(random_pieces(body, seed)))
        assert pieces == {**whole, "error": error}
    bytewise = summary(*await assemble(body[n : n + 1] for n in range(len(body))))
    assert bytewise == {**whole, "error": error}


@pytest.mark.parametrize("provider", sorted({name.partition("/")[0] for name in recorded() if isinstance(name, str)}))
async def test_recorded_streams_are_the_same_byte_by_byte_from_a_server(provider: str, tmp_path: Path) -> None:
    """All that a service was recorded with, over one connection after the other, a byte at a time."""
    names = [name for name in recorded() if name.startswith(f"{provider}/")]
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"sse": str((STREAMS / f"{name}.sse").resolve())} for name in names]))
    command = [sys.executable, str(SERVER), str(script), "--port", "0", "--split", "1"]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        with trio.fail_after(60):
            url = bytes(await process.stdout.receive_some()).decode().strip()
        adapter = ChatAdapter(Provider("p", f"{url}/v1"))
        for name in names:
            expected = json.loads((STREAMS / f"{name}.expected.json").read_bytes())
            got = summary(*await asked(adapter))
            error = got.pop("error")
            want = wanted(name, expected)
            assert got == want, name
            assert (error is not None) == (want["finish"] is None), name
        await adapter.aclose()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


@pytest.mark.parametrize("name", recorded())
async def test_recorded_stream_is_the_same_over_a_connection(name: str, nursery: trio.Nursery) -> None:
    body = (STREAMS / f"{name}.sse").read_bytes()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in random_pieces(body, 3))
    wire = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()
            for piece in random_pieces(wire, 4):
                await stream.send_all(piece)
        await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, serve, 0)
    adapter = ChatAdapter(Provider("p", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"))
    got = summary(*await asked(adapter))
    await adapter.aclose()
    nursery.cancel_scope.cancel()

    assert got == summary(*await assemble([body]))
