"""Between adapter and transport: any transport of httpx serves, and what it raises is an `LlmError`."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from dsh_chat.adapter import ChatAdapter
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request
from dsh.llm.chunks import Chunk, TextDelta

HELLO = b'data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}\n\n'


async def ask(handler: Callable[[httpx.Request], httpx.Response]) -> list[Chunk]:
    adapter = ChatAdapter(Provider("house", "http://models.example:8080/v1"), httpx.MockTransport(handler))
    return [chunk async for chunk in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")]


async def test_mock_transport_of_httpx_stands_in_for_a_service() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url == "http://models.example:8080/v1/chat/completions"
        assert request.headers["host"] == "models.example:8080"
        assert json.loads(request.content)["messages"] == [{"role": "user", "content": "hi"}]
        return httpx.Response(200, content=HELLO)

    chunks = await ask(handler)

    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["hello"]


async def test_mock_transport_can_refuse() -> None:
    with pytest.raises(LlmError, match="slow down") as caught:
        await ask(lambda request: httpx.Response(429, json={"error": "slow down"}, headers={"Retry-After": "3"}))
    assert (caught.value.code, caught.value.retry_after) == ("RATE_LIMIT", 3.0)


@pytest.mark.parametrize(
    ("raised", "code", "retryable", "words"),
    [
        (httpx.ConnectError("Connection refused"), "UNAVAILABLE", True, "cannot be reached: Connection refused"),
        (httpx.ConnectTimeout(""), "TIMEOUT", True, "did not accept a connection within 20 seconds"),
        (httpx.PoolTimeout(""), "TIMEOUT", True, "did not accept a connection within 20 seconds"),
        (httpx.ReadTimeout(""), "TIMEOUT", True, "did not answer within 600 seconds"),
        (httpx.WriteTimeout(""), "TIMEOUT", True, "did not answer within 600 seconds"),
        (httpx.ReadError("gone"), "STREAM_CLOSED", True, "without an answer: gone"),
        (httpx.WriteError(""), "STREAM_CLOSED", True, "without an answer: WriteError"),
        (httpx.CloseError(""), "STREAM_CLOSED", True, "without an answer"),
        (httpx.RemoteProtocolError("Server disconnected"), "STREAM_CLOSED", True, "without an answer"),
        (httpx.LocalProtocolError("Illegal header"), "UNAVAILABLE", False, "Illegal header"),
        (httpx.UnsupportedProtocol("ftp://"), "UNAVAILABLE", False, "base_url"),
        (httpx.ProxyError("407 Wanted"), "UNAVAILABLE", False, "name and password"),
        (httpx.ProxyError("503 Busy"), "UNAVAILABLE", True, "the proxy refused"),
        (httpx.DecodingError("no gzip"), "MALFORMED_RESPONSE", False, "no gzip"),
        (httpx.TooManyRedirects("in circles"), "MALFORMED_RESPONSE", False, "in circles"),
        (httpx.StreamClosed(), "STREAM_CLOSED", True, "without an answer"),
        (httpx.InvalidURL("not this"), "UNAVAILABLE", False, "not this"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_a_transport_raises_says_who_and_why(
    raised: Exception, code: str, retryable: bool, words: str
) -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise raised

    with pytest.raises(LlmError) as caught:
        await ask(handler)

    error = caught.value
    assert (error.code, error.retryable) == (code, retryable)
    assert str(error).startswith("house (models.example:8080) ")
    assert words in str(error)
    assert error.__cause__ is raised


class InPieces(httpx.AsyncByteStream):
    """A body that comes byte for byte."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for place in range(len(self.body)):
            yield self.body[place : place + 1]


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-zlib.MAX_WBITS)


def as_it_is(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        (" X-GZIP ", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("identity, gzip", gzip.compress),
        ("", as_it_is),
        ("none", as_it_is),
        ("UTF-8", as_it_is),
    ],
)
async def test_compressed_answers_and_errors_are_read(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    def response(status: int, body: bytes) -> httpx.Response:
        return httpx.Response(status, headers={"content-encoding": encoding}, stream=InPieces(compress(body)))

    chunks = await ask(lambda request: response(200, HELLO))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["hello"]
    with pytest.raises(LlmError, match="slow down") as caught:
        await ask(lambda request: response(429, b'{"error":"slow down"}'))
    assert caught.value.code == "RATE_LIMIT"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
@pytest.mark.parametrize(("status", "code"), [(200, "MALFORMED_RESPONSE"), (500, "SERVER"), (401, "AUTH")])
async def test_compression_that_is_not_known_is_refused(encoding: str, status: int, code: str) -> None:
    with pytest.raises(LlmError, match=encoding) as caught:
        await ask(lambda request: httpx.Response(status, headers={"content-encoding": encoding}, stream=InPieces(b"x")))
    assert caught.value.code == code


@pytest.mark.parametrize("cuts", [(5,), (20, 40), (1,)])
async def test_gzip_may_end_and_begin_anew(cuts: tuple[int, ...]) -> None:
    edges = [0, *cuts, len(HELLO)]
    body = b"".join(gzip.compress(HELLO[a:b]) for a, b in itertools.pairwise(edges))
    chunks = await ask(lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=InPieces(body)))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["hello"]


async def test_what_is_behind_a_compressed_answer_is_nothing() -> None:
    body = gzip.compress(HELLO) + b"\0" * 20 + b"padding"
    chunks = await ask(lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=InPieces(body)))
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)] == ["hello"]


@pytest.mark.parametrize("body", [b"no gzip at all", gzip.compress(HELLO)[:30] + b"damage" * 10], ids=["none", "torn"])
async def test_damage_in_a_compressed_answer_is_an_error(body: bytes) -> None:
    with pytest.raises(LlmError, match="house"):
        await ask(lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=InPieces(body)))


async def test_a_compressed_answer_that_is_cut_off_is_not_finished() -> None:
    body = gzip.compress(HELLO)[:60]
    with pytest.raises(LlmError, match="house") as caught:
        await ask(lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=InPieces(body)))
    assert caught.value.retryable


async def test_address_that_httpx_refuses_is_an_error() -> None:
    async def connect() -> tuple[str, str | None]:
        return "http://[::1", None

    adapter = ChatAdapter(Provider("local", None, connect=connect))
    with pytest.raises(LlmError, match="local cannot be asked") as caught:
        await anext(adapter.stream(Request("local/m", (Message("user", "hi"),)), "m"))
    assert (caught.value.code, caught.value.retryable) == ("UNAVAILABLE", False)


def test_httpx_is_imported_when_something_is_sent(tmp_path: Path) -> None:
    program = """
import sys, trio
from dsh import Message, Request, open_harness
from dsh.config import Config, PluginsConfig

async def main():
    config = Config(plugins=PluginsConfig(disabled=("local",)))
    async with open_harness(config) as harness:
        assert "dsh_chat.adapter" in sys.modules
        print(*sorted({"httpx", "httpcore", "h11", "ssl"} & set(sys.modules)))

trio.run(main)
"""
    environ = {**os.environ, "DSH_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    assert not {"httpx", "httpcore", "h11"} & set(done.stdout.split())
