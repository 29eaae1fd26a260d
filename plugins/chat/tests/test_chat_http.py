"""Connections to real servers: kept, found stale, cut, slow, refused, cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import pytest
import trio
from attrs import define, field
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request
from dsh.llm.chunks import Chunk, Finish, TextDelta, Usage

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
Step: TypeAlias = "bytes | float | str | Callable[[], Awaitable[Any]]"
"""Of a response: bytes to send, seconds to wait, ``"close"``, ``"reset"``, or something to await."""


@define
class Server:
    """Plays one script a request, and remembers what it was asked.

    Attributes:
        scripts: one for each request; the last is played again.
        requests: head and body of each request.
        connections: how many were made.
        broken: how many ended before the script did.
    """

    port: int
    scripts: list[Sequence[Step]] = field(factory=list)
    requests: list[tuple[bytes, bytes]] = field(factory=list)
    connections: int = 0
    broken: int = 0
    changed: trio.Event = field(factory=trio.Event)
    opened: list[ChatAdapter] = field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def open(self, provider: Provider) -> ChatAdapter:
        """An adapter that is closed with the server."""
        self.opened.append(ChatAdapter(provider))
        return self.opened[-1]

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        rest = b""
        try:
            while True:
                asked = await self.read_request(stream, rest)
                if asked is None:
                    return
                head, body, rest = asked
                self.requests.append((head, body))
                script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
                if not await self.play(stream, script):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.broken += 1
        finally:
            self.changed.set()
            self.changed = trio.Event()
            stream.socket.close()

    async def read_request(self, stream: trio.SocketStream, rest: bytes) -> tuple[bytes, bytes, bytes] | None:
        while b"\r\n\r\n" not in rest:
            data = await stream.receive_some()
            if not data:
                return None
            rest += data
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(rest) < length:
            data = await stream.receive_some()
            if not data:
                return None
            rest += data
        return head, rest[:length], rest[length:]

    async def play(self, stream: trio.SocketStream, script: Sequence[Step]) -> bool:
        for step in script:
            if isinstance(step, bytes):
                await stream.send_all(step)
            elif isinstance(step, float):
                await trio.sleep(step)
            elif step == "close":
                return False
            elif step == "reset":
                linger = b"\x01\0\0\0\0\0\0\0"
                stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
                return False
            else:
                assert not isinstance(step, str)
                await step()
        return True


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[Server]:
    """A `Server` that listens."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made = Server(listeners[0].socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, made.handle, listeners)
    yield made
    for adapter in made.opened:
        await adapter.aclose()
    for listener in listeners:
        listener.socket.close()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment does not decide where requests go."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def say(*words: str) -> list[bytes]:
    return [chunk(event({"content": word})) for word in words]


STOP = chunk(event({}, "stop"))
DONE = chunk(b"data: [DONE]\n\n")


def answer(*words: str) -> list[bytes]:
    return [HEAD, *say(*words), STOP, DONE, END]


def adapter_for(server: Server, **dialect: Any) -> ChatAdapter:
    return server.open(Provider("house", server.url, dialect=Dialect(**dialect)))


async def ask(adapter: ChatAdapter, text: str = "hi") -> list[Chunk]:
    async with aclosing(adapter.stream(Request("house/m", (Message("user", text),)), "m")) as stream:
        return [chunk async for chunk in stream]


def text_in(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def failure(adapter: ChatAdapter, text: str = "hi") -> LlmError:
    with pytest.raises(LlmError) as caught:
        await ask(adapter, text)
    return caught.value


async def test_request_is_a_post_with_the_headers_of_the_service(server: Server) -> None:
    server.scripts = [answer("hello")]
    provider = Provider("house", server.url, api_key="sk-12345678", headers={"X-Team": "blue"})
    adapter = server.open(provider)

    chunks = await ask(adapter)

    assert text_in(chunks) == "hello"
    head, body = server.requests[0]
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /v1/chat/completions http/1.1"
    assert f"host: 127.0.0.1:{server.port}" in lines
    assert "authorization: bearer sk-12345678" in lines
    assert "x-team: blue" in lines
    assert any(line.startswith("user-agent: dsh/") for line in lines)
    assert json.loads(body)["model"] == "m"


async def test_connection_is_kept_for_the_next_request(server: Server) -> None:
    server.scripts = [answer("one"), answer("two")]
    adapter = adapter_for(server)

    assert text_in(await ask(adapter)) == "one"
    assert text_in(await ask(adapter)) == "two"

    assert server.connections == 1


async def test_finish_does_not_wait_for_the_end_of_the_body(server: Server) -> None:
    release = trio.Event()
    server.scripts = [[HEAD, *say("one"), STOP, DONE, release.wait, END], answer("two")]
    adapter = adapter_for(server)

    chunks = await ask(adapter)
    release.set()
    await trio.testing.wait_all_tasks_blocked()

    assert isinstance(chunks[-1], Finish)
    assert text_in(await ask(adapter)) == "two"
    assert server.connections == 1


async def test_connection_whose_body_did_not_end_is_not_used_again(server: Server) -> None:
    server.scripts = [[HEAD, *say("one"), STOP, DONE], answer("two")]
    adapter = adapter_for(server)

    await ask(adapter)
    assert text_in(await ask(adapter)) == "two"

    assert server.connections == 2


async def test_connection_closed_while_it_was_kept_is_replaced(server: Server) -> None:
    server.scripts = [[*answer("one"), "close"], answer("two")]
    adapter = adapter_for(server)

    await ask(adapter)
    await trio.testing.wait_all_tasks_blocked()
    assert text_in(await ask(adapter)) == "two"

    assert server.connections == 2


async def test_kept_connection_that_closes_on_the_request_is_tried_once_more(server: Server) -> None:
    server.scripts = [answer("one"), ["close"], answer("two")]
    adapter = adapter_for(server)

    await ask(adapter)
    assert text_in(await ask(adapter)) == "two"

    assert (server.connections, len(server.requests)) == (2, 3)


async def test_fresh_connection_that_closes_without_an_answer_is_an_error(server: Server) -> None:
    server.scripts = [["close"]]

    error = await failure(adapter_for(server))

    assert (error.code, error.retryable) == ("STREAM_CLOSED", True)
    assert len(server.requests) == 1


async def test_requests_at_the_same_time_have_connections_of_their_own(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsh.llm.http.transport._TAIL_SECONDS", 30.0)  # a busy machine is no service that is silent
    server.scripts = [[HEAD, *say("a"), 0.05, *say("b"), STOP, DONE, END]]
    adapter = adapter_for(server)
    texts: list[str] = []

    async def one() -> None:
        texts.append(text_in(await ask(adapter)))

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(one)

    assert texts == ["ab"] * 200
    assert server.connections == 100


async def test_cancelling_closes_the_connection(server: Server) -> None:
    server.scripts = [[HEAD, *say("one"), trio.sleep_forever], answer("two")]
    adapter = adapter_for(server)
    seen: list[Chunk] = []

    with trio.CancelScope() as scope:
        async with aclosing(adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")) as stream:
            async for part in stream:
                seen.append(part)
                if text_in(seen):
                    scope.cancel()

    assert scope.cancelled_caught
    assert text_in(await ask(adapter)) == "two"
    assert server.connections == 2


async def test_closing_early_closes_the_connection_without_waiting(server: Server) -> None:
    server.scripts = [[HEAD, *say("one"), trio.sleep_forever], answer("two")]
    adapter = adapter_for(server)

    stream = adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")
    await anext(stream)
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()

    assert not scope.cancelled_caught
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.parametrize("head", [b"SSH-2.0-OpenSSH_9\r\n", b"<html>hi</html>", b"\0\0\6\4\0", b"HTTQ"])
async def test_server_that_speaks_no_http_and_leaves_is_named(server: Server, head: bytes) -> None:
    server.scripts = [[head, "close"]]
    error = await failure(adapter_for(server))
    assert (error.code, error.retryable) == ("MALFORMED_RESPONSE", False)
    assert "base URL" in str(error)


@pytest.mark.parametrize("head", [b"", b"H", b"HTTP/1.1 20", b"HTTP/1.1 200 OK\r\ncontent-"])
async def test_head_that_breaks_off_may_come_whole_the_next_time(server: Server, head: bytes) -> None:
    server.scripts = [[head, "close"]]
    error = await failure(adapter_for(server))
    assert (error.code, error.retryable) == ("STREAM_CLOSED", True)


async def test_unknown_fields_before_the_first_event_are_passed_over(server: Server) -> None:
    server.scripts = [[HEAD, chunk(b"id\nwho: knows\n" + event({"content": "x"})), STOP, END]]
    assert text_in(await ask(adapter_for(server))) == "x"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("insufficient_system_resource", "OVERLOADED"),
        ("network_error", "SERVER"),
        ("malformed_function_call", "TOOL_USE_FAILED"),
    ],
)
async def test_end_that_is_a_failure_may_go_well_the_next_time(server: Server, reason: str, code: str) -> None:
    usage = chunk(b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n')
    server.scripts = [[HEAD, chunk(event({"reasoning_content": "hm"})), chunk(event({}, reason)), usage, DONE, END]]
    adapter = adapter_for(server)
    seen: list[Chunk] = []

    async def listen() -> None:
        async for part in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"):
            seen.append(part)  # noqa: PERF401  # what came before the error is wanted

    with pytest.raises(LlmError) as caught:
        await listen()
    assert (caught.value.code, caught.value.retryable) == (code, True)
    assert reason in str(caught.value)
    # It has to be paid for all the same.
    assert [part.usage.input_tokens for part in seen if isinstance(part, Usage)] == [7]
    assert not any(isinstance(part, Finish) for part in seen)


@pytest.mark.parametrize("status", [b"201 Created", b"203 x"])
async def test_statuses_of_gateways_are_an_answer(server: Server, status: bytes) -> None:
    server.scripts = [[HEAD.replace(b"200 OK", status), *answer("x")[1:]]]
    assert text_in(await ask(adapter_for(server))) == "x"


@pytest.mark.parametrize("status", [b"202 x", b"204 x", b"206 x", b"226 x"])
async def test_statuses_without_an_answer_are_none(server: Server, status: bytes) -> None:
    server.scripts = [[b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status]]
    error = await failure(adapter_for(server))
    assert (error.code, error.retryable, error.status) == ("MALFORMED_RESPONSE", False, int(status[:3]))
    assert "base URL" in str(error)


@pytest.mark.parametrize(
    ("body", "code", "status", "said"),
    [
        (b"upstream connect error", "MALFORMED_RESPONSE", None, "upstream connect error"),
        (b"null", "MALFORMED_RESPONSE", None, "null"),
        (b'{"code":401,"msg":"token expired"}', "AUTH", 401, "token expired"),
        (b'{"base_resp":{"status_code":1004,"status_msg":"login fail"}}', "SERVER", None, "login fail"),
        (b'{"success":false,"errors":[{"message":"no such thing"}]}', "SERVER", None, "no such thing"),
        (b'{"error":"model not found"}', "NOT_FOUND", 404, "model not found"),
        (b'[{"error":{"code":503,"message":"busy"}}]', "OVERLOADED", 503, "busy"),
        (b'data: [{"error":{"code":429,"message":"slow"}}]\n\n', "RATE_LIMIT", 429, "slow"),
        (b"event: error\ndata: it broke\n\n", "SERVER", None, "it broke"),
        (b'event: error\ndata: "it broke"\n\n', "SERVER", None, "it broke"),
        (b"data: it broke\n\n", "MALFORMED_RESPONSE", None, "it broke"),
        (b"dat", "STREAM_CLOSED", None, "before it was finished"),
        (b"\xef\xbb\xbf", "STREAM_CLOSED", None, "before it was finished"),
        (b": hello\n\n", "STREAM_CLOSED", None, "before it was finished"),
    ],
)
async def test_errors_inside_an_answer_say_what_is_wrong(
    server: Server, body: bytes, code: str, status: int | None, said: str
) -> None:
    server.scripts = [[HEAD, chunk(body), END]]
    error = await failure(adapter_for(server))
    assert (error.code, error.status) == (code, status)
    assert said in str(error)


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_body_that_breaks_off_is_an_error_after_what_came(server: Server, ending: str) -> None:
    server.scripts = [[HEAD, *say("some", " text"), 0.01, ending]]
    adapter = adapter_for(server)
    seen: list[Chunk] = []

    async def listen() -> None:
        async for part in adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"):
            seen.append(part)  # noqa: PERF401  # what came before the error is wanted

    with pytest.raises(LlmError) as caught:
        await listen()

    assert text_in(seen) == "some text"
    assert (caught.value.code, caught.value.retryable) == ("STREAM_CLOSED", True)


async def test_silence_is_a_timeout(server: Server) -> None:
    server.scripts = [[trio.sleep_forever], [HEAD, *say("x"), trio.sleep_forever]]
    adapter = adapter_for(server, first_byte=0.05, between=0.05)

    for _ in range(2):
        error = await failure(adapter)
        assert (error.code, error.retryable) == ("TIMEOUT", True)


async def test_answer_is_over_when_a_finished_stream_falls_silent(server: Server) -> None:
    server.scripts = [[HEAD, *say("x"), STOP, trio.sleep_forever]]
    chunks = await ask(adapter_for(server, between=0.05))
    assert isinstance(chunks[-1], Finish)


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_answer_is_over_when_a_service_leaves_behind_its_end(server: Server, ending: str) -> None:
    server.scripts = [[HEAD, *say("x"), STOP, 0.01, ending]]
    chunks = await ask(adapter_for(server))
    assert text_in(chunks) == "x"
    assert isinstance(chunks[-1], Finish)


async def test_refused_connection_is_unavailable() -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()

    error = await failure(ChatAdapter(Provider("house", f"http://127.0.0.1:{port}/v1")))

    assert (error.code, error.retryable) == ("UNAVAILABLE", True)
    assert f"127.0.0.1:{port}" in str(error)
    assert "refused" in str(error)
    assert error.__cause__ is not None


async def test_unknown_host_is_unavailable() -> None:
    error = await failure(ChatAdapter(Provider("house", "http://no-such-host.invalid/v1")))
    assert (error.code, error.retryable) == ("UNAVAILABLE", True)


async def test_server_that_speaks_no_http_is_named(server: Server) -> None:
    server.scripts = [[b"220 mail.example ESMTP\r\n\r\n"]]
    error = await failure(adapter_for(server))
    assert error.code == "MALFORMED_RESPONSE"
    assert "base URL" in str(error)


async def test_redirect_is_not_followed(server: Server) -> None:
    server.scripts = [[b"HTTP/1.1 308 x\r\nlocation: https://other.example/v1\r\ncontent-length: 0\r\n\r\n"]]
    error = await failure(adapter_for(server))
    assert error.code == "HTTP_308"
    assert "https://other.example/v1" in str(error)


async def test_refusal_before_the_body_was_read_is_reported(server: Server) -> None:
    body = b'{"error":{"message":"too big"}}'
    response = b"HTTP/1.1 413 x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)

    async def refuse(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(response)
        await stream.send_eof()
        # Unread data would make the kernel reset the connection and drop the answer.
        async for _ in stream:
            pass
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, refuse, 0)
        port = listeners[0].socket.getsockname()[1]
        error = await failure(server.open(Provider("house", f"http://127.0.0.1:{port}")), "x" * 3_000_000)
        nursery.cancel_scope.cancel()

    assert error.status == 413
    assert "too big" in str(error)


async def test_informational_responses_are_skipped(server: Server) -> None:
    server.scripts = [[b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", *answer("ok")]]
    assert text_in(await ask(adapter_for(server))) == "ok"


async def test_error_response_leaves_the_connection_usable(server: Server) -> None:
    body = b'{"error":"slow down"}'
    head = b"HTTP/1.1 429 x\r\nretry-after: 7\r\ncontent-length: %d\r\n\r\n" % len(body)
    server.scripts = [[head + body], answer("ok")]
    adapter = adapter_for(server)

    error = await failure(adapter)

    assert (error.code, error.retry_after, error.retryable) == ("RATE_LIMIT", 7.0, True)
    assert text_in(await ask(adapter)) == "ok"
    assert server.connections == 1


async def test_body_without_length_ends_with_the_connection(server: Server) -> None:
    plain = b"HTTP/1.1 200 OK\r\n\r\n"
    server.scripts = [[plain, event({"content": "x"}), event({}, "stop"), "close"]]
    assert text_in(await ask(adapter_for(server))) == "x"


async def test_key_is_in_no_message(server: Server) -> None:
    body = b'{"error":{"message":"bad key sk-secret-123456"}}'
    server.scripts = [[b"HTTP/1.1 401 x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)]]
    provider = Provider("house", server.url, api_key="sk-secret-123456", key_env="HOUSE_KEY")

    error = await failure(server.open(provider))

    assert (error.code, error.status, error.retryable) == ("AUTH", 401, False)
    assert "check HOUSE_KEY" in str(error)
    assert "sk-secret" not in str(error)
    assert "sk-secret" not in repr(ChatAdapter(provider))


async def test_server_that_is_started_first_is_asked_for_once_and_again_when_gone(server: Server) -> None:
    server.scripts = [[*answer("one"), "close"]]
    starts: list[int] = []
    gone = await trio.open_tcp_listeners(0, host="127.0.0.1")
    dead = f"http://127.0.0.1:{gone[0].socket.getsockname()[1]}/v1"
    await gone[0].aclose()

    async def connect() -> tuple[str, str | None]:
        starts.append(1)
        return (dead if len(starts) == 2 else server.url), "local-key-1"

    adapter = server.open(Provider("local", None, connect=connect))
    assert text_in(await ask(adapter)) == "one"
    assert text_in(await ask(adapter)) == "one"
    assert len(starts) == 1

    starts.append(1)
    again = server.open(Provider("local", None, connect=connect))
    starts.pop()
    assert text_in(await ask(again)) == "one"
    assert len(starts) == 3
    assert b"Bearer local-key-1" in server.requests[-1][0]


def cut_key(around: bytes, before: int) -> bytes:
    return b'{"error":{"message":"%s sk-secret-123456 %s"}}' % (around * before, around * 2000)


@pytest.mark.parametrize("before", range(640, 668, 3))
async def test_key_is_in_no_message_where_that_is_cut(server: Server, before: int) -> None:
    body = cut_key(b"a", before)
    server.scripts = [[b"HTTP/1.1 400 x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)]]
    error = await failure(server.open(Provider("house", server.url, api_key="sk-secret-123456")))
    assert "sk-s" not in str(error)


async def test_what_a_redirect_gives_away_is_not_shown(server: Server) -> None:
    place = b"https://me:pass-word@other.example/v1?token=tok-en#x"
    server.scripts = [[b"HTTP/1.1 307 x\r\nlocation: %s\r\ncontent-length: 0\r\n\r\n" % place]]
    error = await failure(adapter_for(server))
    assert "redirects to https://other.example/v1 (HTTP 307)" in str(error)


async def test_head_that_trickles_in_is_a_timeout(server: Server) -> None:
    trickle: list[Step] = [step for _ in range(10_000) for step in (b"x", 0.02)]
    server.scripts = [[b"HTTP/1.1 200 OK\r\nx-slow: ", *trickle]]
    error = await failure(adapter_for(server, first_byte=0.2))
    assert (error.code, error.retryable) == ("TIMEOUT", True)


async def test_what_an_error_says_is_not_waited_for_without_end(server: Server) -> None:
    trickle: list[Step] = [step for _ in range(10_000) for step in (chunk(b"x"), 0.02)]
    server.scripts = [[HEAD.replace(b"200 OK", b"503 x"), *trickle]]
    error = await failure(adapter_for(server, between=0.3))
    assert (error.code, error.retryable) == ("OVERLOADED", True)


async def test_answer_in_one_piece_that_trickles_in_is_a_timeout(server: Server) -> None:
    trickle: list[Step] = [step for _ in range(10_000) for step in (chunk(b" "), 0.02)]
    server.scripts = [[HEAD, chunk(b"{"), *trickle]]
    error = await failure(adapter_for(server, first_byte=0.1))
    assert (error.code, error.retryable) == ("TIMEOUT", True)


@pytest.mark.parametrize("sign", [b": still there\n\n", b": still there\n", event({}), b'data: {"choices":[]}\n\n'])
async def test_service_that_says_nothing_but_that_it_lives_is_a_timeout(server: Server, sign: bytes) -> None:
    signs: list[Step] = [step for _ in range(10_000) for step in (chunk(sign), 0.02)]
    server.scripts = [[HEAD, *signs]]
    error = await failure(adapter_for(server, first_byte=0.1))
    assert (error.code, error.retryable) == ("TIMEOUT", True)
    assert "nothing but that it lives" in str(error)


async def test_answer_without_an_end_is_given_up(server: Server) -> None:
    server.scripts = [[HEAD, *say(*["word"] * 200), 600.0]]
    adapter = adapter_for(server, max_answer_bytes=5_000)

    error = await failure(adapter)

    assert (error.code, error.retryable) == ("ANSWER_TOO_LONG", False)
    assert "house sent an answer of more than 5000 bytes" in error.message


async def test_answer_in_one_piece_that_is_too_long_is_given_up(server: Server) -> None:
    body = b'{"choices": [{"message": {"content": "' + b"x" * 20_000
    server.scripts = [[HEAD, chunk(body[:1000]), chunk(body[1000:]), 600.0]]
    adapter = adapter_for(server, max_answer_bytes=5_000)

    assert (await failure(adapter)).code == "ANSWER_TOO_LONG"
