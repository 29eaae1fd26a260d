"""HTTP/1.1 for one service: connections over Trio that are kept, and a response read as it comes.

A request waits for its own connection only: there is no limit, no queue and no task in the
background, so a hundred agents cost a hundred sockets and nothing else.  h11 writes the requests and
reads the responses' heads; bodies are cut here, because h11 takes longer for one chunk than
everything else that happens to a delta.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

import h11
import trio
from attrs import frozen

from dsh.errors import LlmError
from dsh_chat.framing import Body, FramingError, body_of
from dsh_chat.proxy import Proxy, tunnel

__all__ = ["Exchange", "Pool", "Target", "Transport"]

_IDLE_SECONDS = 60.0
_IDLE_MOST = 128
_TAIL_SECONDS = 0.05
_ONE_SEND = 256 * 1024


@frozen
class Target:
    """Where requests go.

    Attributes:
        provider: the name to use in messages.
        path: with its leading slash.
        headers: of every request, ``host`` among them; no value is ever shown.
        connect: seconds to connect in, TLS and name look-up included.
    """

    provider: str
    secure: bool
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...]
    connect: float = 20.0

    @property
    def place(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


class Exchange(Protocol):
    """A response whose head has come."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""

    async def read(self, seconds: float) -> bytes:
        """More of the body; empty at its proper end.  After being cancelled, only `release` may follow.

        Raises:
            LlmError: nothing came for `seconds`, or the body broke off.
        """
        ...

    async def release(self, *, whole: bool) -> None:
        """Be done with it.  `whole` says that what is missing of the body, if anything, is of no interest."""
        ...


class Transport(Protocol):
    """What sends requests to one service."""

    async def request(self, body: bytes, seconds: float) -> Exchange:
        """POST `body` and wait for the head of the response.

        Raises:
            LlmError: no connection, no answer for `seconds`, or one that is not HTTP.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that nobody uses."""
        ...


@functools.cache
def tls_context() -> ssl.SSLContext:
    """The one TLS context of the process, made when it is first needed, as httpx makes its own."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        import certifi

        file = certifi.where()
    context = ssl.create_default_context(cafile=file or None, capath=folder or None)
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Stale(Exception):
    """A kept connection had been closed by the other side before it carried anything back."""


class _Connection:
    """A connection, and the body that it still has to deliver."""

    def __init__(self, stream: trio.abc.Stream, socket: trio.socket.SocketType) -> None:
        self.stream = stream
        self.body: Body | None = None
        self.used = 0.0
        self.fresh = True
        self._socket = socket

    def readable(self) -> bool:
        return self._socket.is_readable()

    def close(self) -> None:
        """Without a farewell, so that it needs no checkpoint."""
        self._socket.close()

    async def settled(self, seconds: float) -> bool:
        """Whether the connection can carry another request; waits so long for the rest of the last response."""
        try:
            while self.body is not None and not self.body.done:
                data = b""
                with trio.move_on_after(seconds):
                    data = bytes(await self.stream.receive_some())
                if not data:
                    return False
                self.body.feed(data)
            return (self.body is None or self.body.reusable) and not self.readable()
        except (trio.BrokenResourceError, trio.ClosedResourceError, FramingError):
            return False


class _Response:
    """The `Exchange` of a `Pool`."""

    def __init__(
        self, pool: Pool, connection: _Connection, status: int, headers: Mapping[str, str], keep: bool, first: bytes
    ) -> None:
        self.status = status
        self.headers = headers
        self._pool = pool
        self._connection: _Connection | None = connection
        self._keep = keep
        self._first = first
        try:
            self._body = connection.body = body_of(status, headers)
        except FramingError as error:
            pool.fail(f"answered with a response that cannot be read: {error}", "MALFORMED_RESPONSE", error)

    async def read(self, seconds: float) -> bytes:
        body = self._body
        while not body.done and self._connection is not None:
            data, self._first = self._first, b""
            if not data:
                data = await self._receive(seconds)
            if not data:
                if body.reusable:
                    self._pool.fail(
                        "closed the connection in the middle of the answer", "STREAM_CLOSED", retryable=True
                    )
                body.done = True
                break
            try:
                found = body.feed(data)
            except FramingError as error:
                self._pool.fail(f"broke the rules of HTTP: {error}", "STREAM_CLOSED", error, retryable=True)
            if found:
                return found
        await self.release(whole=True)
        return b""

    async def _receive(self, seconds: float) -> bytes:
        assert self._connection is not None
        try:
            with trio.move_on_after(seconds) as scope:
                return bytes(await self._connection.stream.receive_some())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._pool.fail(
                "dropped the connection in the middle of the answer", "STREAM_CLOSED", error, retryable=True
            )
        assert scope.cancelled_caught
        self._pool.fail(f"sent nothing for {seconds:g} seconds", "TIMEOUT", retryable=True)

    async def release(self, *, whole: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._keep and self._body.reusable and (self._body.done or (whole and not self._first)):
            self._pool.keep(connection)
        else:
            connection.close()


class Pool:
    """The connections to one service, as many as there are requests at a time."""

    def __init__(self, target: Target, proxy: Proxy | None = None) -> None:
        self._target = target
        self._proxy = proxy
        self._place = target.place if proxy is None else f"{target.place} through the proxy {proxy.host}:{proxy.port}"
        self._idle: list[_Connection] = []
        self._tail = _TAIL_SECONDS
        self._path = target.path
        headers = target.headers
        if proxy is not None and not target.secure:
            # To the proxy itself, which reads the address in the request and passes it on.
            self._path = f"http://{dict(headers)['host']}{target.path}"
            headers += proxy.headers
        self._head = [*headers, ("content-length", "0")]

    async def request(self, body: bytes, seconds: float) -> Exchange:
        connection = await self._kept() or await self._connect()
        try:
            return await self._exchange(connection, body, seconds)
        except _Stale:
            return await self._exchange(await self._connect(), body, seconds)

    async def aclose(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def keep(self, connection: _Connection) -> None:
        """Take back a connection that may be used again."""
        connection.used = trio.current_time()
        connection.fresh = False
        self._idle.append(connection)
        if len(self._idle) > _IDLE_MOST:
            self._idle.pop(0).close()

    def fail(self, what: str, code: str, cause: BaseException | None = None, *, retryable: bool = False) -> NoReturn:
        """Raise the `LlmError` that says what the service did."""
        raise LlmError(f"{self._target.provider} ({self._place}) {what}", code=code, retryable=retryable) from cause

    async def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            usable = False
            try:
                if trio.current_time() - connection.used < _IDLE_SECONDS:
                    usable = await connection.settled(self._tail)
            finally:
                if not usable:
                    connection.close()
            if usable:
                return connection
            if connection.body is not None and not connection.body.done:
                # This service leaves bodies open behind [DONE]; waiting for their ends gains nothing.
                self._tail = 0.0
        return None

    async def _connect(self) -> _Connection:
        target = self._target
        try:
            with trio.move_on_after(target.connect):
                return await self._open()
        except OSError as error:
            self.fail(f"cannot be reached: {_reason(error)}", "UNAVAILABLE", error, retryable=True)
        except trio.BrokenResourceError as error:
            cause = error.__cause__
            refused = isinstance(cause, ssl.SSLCertVerificationError)
            why = _reason(cause) if isinstance(cause, OSError) else "the connection broke"
            self.fail(f"failed the TLS handshake: {why}", "UNAVAILABLE", error, retryable=not refused)
        self.fail(f"did not accept a connection within {target.connect:g} seconds", "TIMEOUT", retryable=True)

    async def _open(self) -> _Connection:
        target, proxy = self._target, self._proxy
        plain = await trio.open_tcp_stream(*((proxy.host, proxy.port) if proxy else (target.host, target.port)))
        stream: trio.abc.Stream = plain
        try:
            plain.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_KEEPALIVE, 1)
            if proxy is not None:
                if proxy.secure:
                    stream = await _secured(stream, proxy.host)
                if target.secure:
                    await tunnel(stream, proxy, target.host, target.port)
            if target.secure:
                stream = await _secured(stream, target.host)
        except BaseException:
            plain.socket.close()
            raise
        return _Connection(stream, plain.socket)

    async def _exchange(self, connection: _Connection, body: bytes, seconds: float) -> Exchange:
        try:
            protocol = h11.Connection(h11.CLIENT)
            self._head[-1] = ("content-length", str(len(body)))
            head = protocol.send(h11.Request(method="POST", target=self._path, headers=self._head))
            assert head is not None
            with trio.move_on_after(seconds):
                broken = await _send(connection.stream, head, body)
                return await self._answer(connection, protocol, broken)
            self.fail(f"did not answer within {seconds:g} seconds", "TIMEOUT", retryable=True)
        except BaseException:
            connection.close()
            raise

    async def _answer(
        self, connection: _Connection, protocol: h11.Connection, broken: trio.BrokenResourceError | None
    ) -> Exchange:
        heard = False
        while True:
            try:
                event = protocol.next_event()
                if event is h11.NEED_DATA:
                    data = bytes(await connection.stream.receive_some())
                    protocol.receive_data(data)
                    if not data:
                        raise broken or trio.BrokenResourceError("the connection was closed")
                    heard = True
                    continue
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                if not (connection.fresh or heard):
                    raise _Stale from error
                self.fail("closed the connection without an answer", "STREAM_CLOSED", broken or error, retryable=True)
            except h11.RemoteProtocolError as error:
                self.fail("does not speak HTTP here; check the base URL and its scheme", "MALFORMED_RESPONSE", error)
            if isinstance(event, h11.Response):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        keep = event.http_version == b"1.1" and "close" not in headers.get("connection", "").lower() and broken is None
        return _Response(self, connection, event.status_code, headers, keep, protocol.trailing_data[0])


async def _secured(stream: trio.abc.Stream, host: str) -> trio.SSLStream[trio.abc.Stream]:
    secure = trio.SSLStream(stream, tls_context(), server_hostname=host, https_compatible=True)
    await secure.do_handshake()
    return secure


async def _send(stream: trio.abc.Stream, head: bytes, body: bytes) -> trio.BrokenResourceError | None:
    """Send a request; what broke is returned, because a service may refuse before it has read everything."""
    try:
        if len(body) < _ONE_SEND:
            await stream.send_all(head + body)
        else:
            await stream.send_all(head)
            await stream.send_all(body)
    except trio.BrokenResourceError as error:
        return error
    return None


def _reason(error: BaseException) -> str:
    """The innermost words for a failed connection."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[-1]
    if isinstance(cause, OSError):
        error = cause
    words: Sequence[object] = [getattr(error, "verify_message", None), getattr(error, "strerror", None), error]
    return str(next(word for word in words if word))
