"""TLS, and the way through proxies."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio
from attrs import define, evolve, field
from dsh_chat.adapter import ChatAdapter
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request
from dsh.llm.chunks import TextDelta

EVENTS = b"".join(
    b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % pair
    for pair in ((b"sa", b"null"), (b"fe", b'"stop"'))
)
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(EVENTS), EVENTS)


@define
class Server:
    """Answers every request, and remembers their heads.

    Attributes:
        answer: what it answers.
        connections: how many were made.
        closed: set when one has ended.
    """

    port: int
    answer: bytes = ANSWER
    heads: list[str] = field(factory=list)
    connections: int = 0
    closed: trio.Event = field(factory=trio.Event)

    async def handle(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        rest = b""
        with suppress(trio.BrokenResourceError):
            while data := await stream.receive_some():
                rest += data
                head, end, body = rest.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                if end and length and len(body) == int(length[1]):
                    rest = b""
                    self.heads.append(head.decode().lower())
                    await stream.send_all(self.answer)
        self.closed.set()


@pytest.fixture
async def server(nursery: trio.Nursery) -> Server:
    """A `Server` that listens."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made = Server(listeners[0].socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, made.handle, listeners)
    return made


async def text_of(provider: Provider, times: int = 1) -> list[str]:
    """The answers to some requests through one adapter."""
    adapter = ChatAdapter(provider)
    texts = []
    for _ in range(times):
        async with aclosing(adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")) as stream:
            texts.append("".join([chunk.text async for chunk in stream if isinstance(chunk, TextDelta)]))
    await adapter.aclose()
    return texts


async def failure(provider: Provider) -> LlmError:
    with pytest.raises(LlmError) as caught:
        await text_of(provider)
    return caught.value


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment does not decide where requests go."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def test_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    assert await text_of(Provider("house", "http://models.example/v1"), 2) == ["safe", "safe"]
    assert len(server.heads) == 2
    assert server.heads[0].startswith("post http://models.example/v1/chat/completions http/1.1")


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body


async def test_connection_through_a_proxy_is_kept_behind_the_last_event(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    server.answer = chunked(EVENTS, b"data: [DONE]\n\n") + b"0\r\n\r\n"
    assert await text_of(Provider("house", "http://models.example/v1"), 2) == ["safe", "safe"]
    assert server.connections == 1


async def test_answer_through_a_proxy_can_end_before_its_body(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    server.answer = chunked(EVENTS, b"data: [DONE]\n\n")
    assert await text_of(Provider("house", "http://models.example/v1"), 2) == ["safe", "safe"]
    assert server.connections == 2


@pytest.mark.parametrize("cancelled", [False, True])
async def test_answer_through_a_proxy_can_be_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    server.answer = chunked(EVENTS.partition(b"\n\n")[0] + b"\n\n")
    adapter = ChatAdapter(Provider("house", "http://models.example/v1"))

    with trio.CancelScope() as scope:
        async with aclosing(adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")) as stream:
            await anext(stream)
            stream.take_ready()
            if cancelled:
                scope.cancel()
                await anext(stream)
    with trio.fail_after(10):
        await server.closed.wait()
    await adapter.aclose()

    assert scope.cancelled_caught == cancelled


async def test_hundred_requests_through_a_proxy_wait_for_nobody(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[trio.Event] = []

    async def hold(stream: trio.SocketStream) -> None:
        # Each is answered when all of them have come.
        await stream.receive_some()
        waiting.append(trio.Event())
        if len(waiting) == 120:
            for event in waiting:
                event.set()
        await waiting[-1].wait()
        await stream.send_all(ANSWER)
        await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, hold, 0)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    adapter = ChatAdapter(Provider("house", "http://models.example/v1"))
    finished: list[object] = []

    async def one() -> None:
        finished.append([chunk async for chunk in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")])

    with trio.fail_after(30):
        async with trio.open_nursery() as all_of_them:
            for _ in range(120):
                all_of_them.start_soon(one)
    await adapter.aclose()

    assert len(finished) == 120


@pytest.mark.parametrize("excepted", ["127.0.0.1", "models.example, 127.0.0.1", "*", "10.0.0.0/8, x/y,127.0.0.0/8"])
async def test_proxy_is_passed_by_where_the_environment_says_so(
    server: Server, monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", excepted)
    assert await text_of(Provider("house", f"http://127.0.0.1:{server.port}/v1")) == ["safe"]
    assert server.heads[0].startswith("post /v1/chat/completions")


async def test_proxy_of_white_space_is_none(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", " ")
    assert await text_of(Provider("house", f"http://127.0.0.1:{server.port}/v1")) == ["safe"]


@pytest.mark.parametrize("excepted", ["10.0.0.0/8", "/", "models.example/8", "0.0.0.0/99"])
async def test_networks_that_are_others_do_not_pass_the_proxy_by(
    server: Server, monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("NO_PROXY", excepted)
    assert await text_of(Provider("house", "http://192.0.2.1/v1")) == ["safe"]


async def test_proxy_that_wants_a_password_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.port}")
    server.answer = b"HTTP/1.1 407 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert "a proxy on the way wants a name and password" in str(await failure(Provider("h", "http://models.example")))


async def test_proxy_gets_its_password_and_the_service_the_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://me:p%40ss@127.0.0.1:{server.port}")

    await text_of(Provider("house", "http://models.example:8080/v1", api_key="sk-12345678"))

    head = server.heads[0]
    assert "post http://models.example:8080/v1/chat/completions" in head
    assert "host: models.example:8080" in head
    assert "authorization: bearer sk-12345678" in head
    assert "proxy-authorization: basic bwu6cebzcw==" in head


async def test_proxy_that_cannot_be_reached_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    await listeners[0].aclose()

    error = await failure(Provider("house", "http://models.example/v1"))

    assert (error.code, error.retryable) == ("UNAVAILABLE", True)
    assert "proxy" in str(error)


without_socks = pytest.mark.skipif(find_spec("socksio") is not None, reason="SOCKS is spoken here")


@pytest.mark.parametrize(
    "proxy", [pytest.param("socks5://127.0.0.1:1080", marks=without_socks), "http://[::1", "ftp://127.0.0.1"]
)
async def test_proxy_that_is_not_supported_is_refused(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    error = await failure(Provider("house", "https://models.example/v1"))
    assert (error.code, error.retryable) == ("CONFIG", False)
    assert "NO_PROXY" in str(error)
    assert "HTTPS_PROXY" in str(error)


async def test_proxy_that_refuses_the_tunnel_is_named(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")

    listeners = await nursery.start(trio.serve_tcp, refuse, 0)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")

    error = await failure(Provider("house", "https://models.example/v1"))

    assert (error.code, error.status) == ("UNAVAILABLE", 407)
    assert "password" in str(error)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for localhost, with its key, that nobody trusts."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl program to make a certificate")
    file = tmp_path / "cert.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(file), "-out", str(tmp_path / "only.pem")]
    subprocess.run(command, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + (tmp_path / "only.pem").read_bytes())
    return file


async def pipe(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
    async for data in source:
        await sink.send_all(data)
    with suppress(trio.BrokenResourceError):
        await trio.aclose_forcefully(sink)


async def test_tls_is_spoken_kept_and_verified(
    certificate: Path, server: Server, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(certificate)
    tunnels: list[bytes] = []

    async def proxy(stream: trio.SocketStream) -> None:
        tunnels.append(bytes(await stream.receive_some()).split(b"\r\n")[0])
        await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with await trio.open_tcp_stream("127.0.0.1", port) as onward, trio.open_nursery() as both:
            both.start_soon(pipe, stream, onward)
            both.start_soon(pipe, onward, stream)

    listeners = await nursery.start(trio.serve_ssl_over_tcp, server.handle, 0, served)
    port = listeners[0].transport_listener.socket.getsockname()[1]
    proxies = await nursery.start(trio.serve_tcp, proxy, 0)
    provider = Provider("house", f"https://localhost:{port}")
    error = await failure(provider)
    texts = await text_of(evolve(provider, ca_bundle=str(certificate)), 2)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    texts += await text_of(provider, 2)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxies[0].socket.getsockname()[1]}")
    texts += await text_of(provider, 2)

    assert (error.code, error.retryable) == ("UNAVAILABLE", False)
    assert "self-signed" in str(error) or "self signed" in str(error)
    assert "SSL_CERT_FILE" in str(error)
    assert texts == ["safe"] * 6
    assert tunnels == [f"CONNECT localhost:{port} HTTP/1.1".encode()]


async def test_tls_to_a_plain_server_is_unavailable(nursery: trio.Nursery) -> None:
    async def plain(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listeners = await nursery.start(trio.serve_tcp, plain, 0)
    error = await failure(Provider("house", f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}"))

    assert (error.code, error.retryable) == ("UNAVAILABLE", False)
    assert "TLS" in str(error)
    assert "scheme" in str(error)
