"""Between adapter and transport: any transport of httpx serves, and what it raises is an `LlmError`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
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
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_a_transport_raises_says_who_and_why(
    raised: httpx.TransportError, code: str, retryable: bool, words: str
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


async def test_compressed_answer_is_refused() -> None:
    with pytest.raises(LlmError, match="gzip") as caught:
        await ask(
            lambda request: httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"x"))
        )
    assert caught.value.code == "MALFORMED_RESPONSE"


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
