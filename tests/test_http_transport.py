"""The httpx transport by itself: under httpx's own client, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
import trio
from attrs import define, field

from dsh.llm.http.transport import TrioTransport

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


@define
class Server:
    """Answers each read with the next of some responses; None closes the connection.

    Attributes:
        connections: how many were made.
        ended: how many the other side closed.
    """

    url: str
    responses: list[bytes | None] = field(factory=list)
    connections: int = 0
    ended: int = 0

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                response = self.responses.pop(0)
                if response is None:
                    break
                await stream.send_all(response)
            else:
                self.ended += 1
        await stream.aclose()


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[Server]:
    """A `Server` that listens."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, (made := Server("")).handle, listeners)
    made.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    yield made
    nursery.cancel_scope.cancel()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """httpx's client over our transport."""
    async with httpx.AsyncClient(transport=TrioTransport()) as made:
        yield made


async def test_client_of_httpx_works_over_it(server: Server, client: httpx.AsyncClient) -> None:
    server.responses = [OK + b"content-length: 2\r\n\r\n{}", OK + b"X-A: b\r\ncontent-length: 0\r\n\r\n"]

    assert (await client.post(server.url, json={"a": 1})).json() == {}
    second = await client.get(server.url, params={"q": "ü"})

    assert (second.headers["x-a"], second.http_version, second.reason_phrase) == ("b", "HTTP/1.1", "OK")
    assert server.connections == 1


async def test_what_one_read_brings_is_one_piece(server: Server, client: httpx.AsyncClient) -> None:
    server.responses = [CHUNKED + b"1\r\na\r\n2;x=y\r\nbc\r\n3\r\ndef\r\n0\r\nfield: 1\r\n\r\n"]
    async with client.stream("GET", server.url) as response:
        assert [part async for part in response.aiter_raw()] == [b"abcdef"]


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (CHUNKED + b"zz\r\n", httpx.RemoteProtocolError),
        (CHUNKED + b"3\r\nabcd\r\n", httpx.RemoteProtocolError),
        (CHUNKED + b"1" * 20000, httpx.RemoteProtocolError),
        (OK + b"content-length: -1\r\n\r\n", httpx.RemoteProtocolError),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n", httpx.RemoteProtocolError),
        (b"220 mail.example ESMTP\r\n\r\n", httpx.RemoteProtocolError),
        (OK + b"content-length: 9\r\n\r\nshort", httpx.ReadTimeout),
        (None, httpx.RemoteProtocolError),
    ],
)
async def test_response_that_breaks_the_rules_is_an_error(
    server: Server, client: httpx.AsyncClient, response: bytes | None, kind: type[Exception]
) -> None:
    server.responses = [response, OK + b"content-length: 0\r\n\r\n"]

    with pytest.raises(kind):
        await client.get(server.url, timeout=0.1)

    assert (await client.get(server.url)).status_code == 200
    assert server.connections == 2


@pytest.mark.parametrize(
    "first",
    [
        OK + b"content-length: 3\r\n\r\nabcd",
        OK + b"content-length: 3\r\nconnection: Close\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc",
    ],
    ids=["too long", "close", "HTTP/1.0"],
)
async def test_connection_that_must_not_be_kept_is_not(server: Server, client: httpx.AsyncClient, first: bytes) -> None:
    server.responses = [first, OK + b"content-length: 1\r\n\r\nx"]
    assert (await client.get(server.url)).content == b"abc"
    assert (await client.get(server.url)).content == b"x"
    assert server.connections == 2


async def test_connections_belong_to_their_hosts(server: Server, client: httpx.AsyncClient) -> None:
    server.responses = [OK + b"content-length: 0\r\n\r\n"] * 3
    for host in ("127.0.0.1", "localhost", "127.0.0.1"):
        await client.get(server.url.replace("127.0.0.1", host))
    assert server.connections == 2


async def test_request_that_nobody_takes_is_a_timeout(client: httpx.AsyncClient, nursery: trio.Nursery) -> None:
    async def ignore(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    listeners = await nursery.start(trio.serve_tcp, ignore, 0)
    url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
    with pytest.raises(httpx.WriteTimeout):
        await client.post(url, content=b"x" * 30_000_000, timeout=httpx.Timeout(10, write=0.05))
    with pytest.raises(httpx.ReadTimeout):
        await client.post(url, timeout=httpx.Timeout(10, read=0.05))
    with pytest.raises(httpx.ConnectTimeout):
        await client.post(url, timeout=httpx.Timeout(10, connect=0))
    nursery.cancel_scope.cancel()


async def test_request_that_cannot_be_sent_is_an_error(server: Server, client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        await client.get("ftp://models.example")
    with pytest.raises(httpx.LocalProtocolError):
        await client.get(server.url, headers={"x-a": "b\r\nc"})


async def test_kept_connections_are_closed_with_it(server: Server) -> None:
    server.responses = [OK + b"content-length: 0\r\n\r\n"]
    transport = TrioTransport()
    response = await transport.handle_async_request(httpx.Request("GET", server.url))
    await response.aread()
    assert server.ended == 0

    await transport.aclose()
    await trio.testing.wait_all_tasks_blocked()

    assert server.ended == 1
