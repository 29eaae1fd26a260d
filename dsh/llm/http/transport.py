"""An httpx transport for HTTP/1.1 over Trio: a connection for each request under way, kept for the next.

There is no limit, no queue and no task in the background, so a hundred agents cost a hundred sockets
and nothing else.  h11 knows the protocol; what is here moves bytes.  httpx's own transport would hand
out every chunk of a body by itself, through a chain of async generators; this one gives what a read
of the network brought in one piece.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Self, TypeAlias

import h11
import httpx
import trio

__all__ = ["Body", "TrioTransport"]

_IDLE_SECONDS = 60.0
_IDLE_MOST = 128
_TAIL_SECONDS = 0.05
_HTTP = b"HTTP/"

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port."""
Timeouts: TypeAlias = Mapping[str, float | None]
"""As httpx has them in a request's extensions: seconds for ``connect``, ``write`` and ``read``."""


class _Connection:
    """A connection, the state of its protocol, and the response that comes over it.

    Its methods raise `httpx.TransportError`; after that, and after being cancelled, it can only be closed.
    """

    def __init__(self, origin: Origin, stream: trio.abc.Stream, socket: trio.socket.SocketType) -> None:
        self.origin = origin
        self.used = 0.0
        self.heard = False
        self.ended = False
        self._stream = stream
        self._socket = socket
        self._protocol = h11.Connection(h11.CLIENT)
        self._broken: trio.BrokenResourceError | None = None

    async def send(self, request: httpx.Request, content: bytes, seconds: float | None) -> None:
        self.heard = self.ended = False
        send, url = self._protocol.send, request.url
        try:
            parts = [
                send(h11.Request(method=request.method, target=url.raw_path, headers=request.headers.raw)),
                *([send(h11.Data(data=content))] if content else ()),
                send(h11.EndOfMessage()),
            ]
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from error
        with _at_most(seconds):
            try:
                await self._stream.send_all(b"".join(parts))
            except trio.BrokenResourceError as error:
                # A service may refuse before it has read everything: the answer decides.
                self._broken = error
            return
        raise httpx.WriteTimeout("the request was not taken in time")

    async def head(self, seconds: float | None) -> h11.Response:
        """The response without its body; all of it has to come in time, however it trickles in."""
        with _at_most(seconds):
            try:
                while True:
                    event = self._protocol.next_event()
                    if isinstance(event, h11.Response):
                        return event
                    if event is h11.NEED_DATA and not await self._receive(None):
                        if not _may_be_http(self._protocol.trailing_data[0]):
                            raise h11.RemoteProtocolError("that is no HTTP")
                        raise httpx.RemoteProtocolError("the connection was closed without an answer") from self._broken
            except h11.RemoteProtocolError as error:
                raise httpx.RemoteProtocolError(str(error)) from error
        raise httpx.ReadTimeout("nothing came in time")

    async def body(self, seconds: float | None) -> bytes:
        """As much of the body as one read of the network brought; empty at its end."""
        parts = []
        next_event = self._protocol.next_event
        try:
            while not self.ended:
                event = next_event()
                if type(event) is h11.Data:
                    parts.append(event.data)
                elif event is not h11.NEED_DATA:
                    self.ended = True
                elif parts:
                    break
                else:
                    await self._receive(seconds)
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return b"".join(parts)

    def whole(self) -> bool:
        """Whether the response was read to its end, and neither side wants to close."""
        protocol = self._protocol
        return protocol.their_state is h11.DONE and not protocol.trailing_data[0] and self._broken is None

    async def ready(self, seconds: float) -> bool:
        """Whether another request can be sent; waits so long for the end of the last response."""
        with trio.move_on_after(seconds):
            try:
                if await self.body(None):
                    return False
            except httpx.TransportError:
                return False
        if not self.whole() or self._socket.is_readable():
            return False
        self._protocol.start_next_cycle()
        return True

    def close(self) -> None:
        """Without a farewell, so that it needs no checkpoint."""
        self._socket.close()

    async def _receive(self, seconds: float | None) -> bool:
        """Read once; False at the end of the connection."""
        with _at_most(seconds):
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise httpx.ReadError("the connection broke") from error
            self._protocol.receive_data(bytes(data))
            self.heard = self.heard or bool(data)
            return bool(data)
        raise httpx.ReadTimeout("nothing came in time")


class Body(httpx.AsyncByteStream):
    """The body of a response, a read of the network at a time."""

    def __init__(
        self, pool: TrioTransport, connection: _Connection, headers: httpx.Headers, timeouts: Timeouts
    ) -> None:
        self._pool = pool
        self._connection: _Connection | None = connection
        self._headers = headers
        self._timeouts = timeouts

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        try:
            data = await connection.body(self._timeouts.get("read"))
        except BaseException:
            self._connection = None
            connection.close()
            raise
        if not data:
            await self.aclose()
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """Close the connection, unless the body was read to its end.  Has no checkpoint."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.whole():
                self._pool.keep(connection)
            else:
                connection.close()

    async def leave(self) -> None:
        """Close a body of which only the end may be missing: it is read when the connection is needed.

        Services often send the last, empty chunk in a packet of its own, for which no answer need wait.
        """
        connection = self._connection
        if connection is None or connection.whole() or not self._goes_on():
            await self.aclose()
        else:
            self._connection = None
            self._pool.keep(connection)

    def _goes_on(self) -> bool:
        """Whether the connection can carry another request when the body has ended."""
        headers = self._headers
        return "transfer-encoding" in headers and "close" not in headers.get("connection", "").lower()


class TrioTransport(httpx.AsyncBaseTransport):
    """Sends requests over connections of its own, directly to where they go.

    Of a request's timeouts it knows ``connect`` (name look-up and TLS included), ``write`` and ``read``.
    A connection that was closed while it was kept is replaced once.  Being cancelled closes the
    connection; one with a response that was not read to its end is never used again.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        """Args: context: for TLS; without one, httpx's own."""
        self._context = context
        self._idle: list[_Connection] = []
        self._tail = _TAIL_SECONDS

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` and wait for the head of the response.

        Raises:
            httpx.TransportError: there is no connection, no answer, or one that is not HTTP.
        """
        url = request.url
        if url.scheme not in ("http", "https"):
            raise httpx.UnsupportedProtocol(f"{url.scheme or 'nothing'}:// is not spoken here")
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        timeouts: Timeouts = request.extensions.get("timeout", {})
        content = await request.aread()
        connection = await self._kept(origin)
        if connection is not None:
            try:
                return await self._exchange(connection, request, content, timeouts)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                # Closed by the other side before it saw the request, unless it said anything.
                if connection.heard:
                    raise
        connection = await _connect(origin, timeouts.get("connect"), self._tls)
        return await self._exchange(connection, request, content, timeouts)

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = httpx.create_ssl_context()
        return self._context

    async def aclose(self) -> None:
        """Close the connections that nobody uses."""
        while self._idle:
            self._idle.pop().close()

    def keep(self, connection: _Connection) -> None:
        """Take back a connection that may be used again."""
        connection.used = trio.current_time()
        self._idle.append(connection)
        if len(self._idle) > _IDLE_MOST:
            self._idle.pop(0).close()

    async def _exchange(
        self, connection: _Connection, request: httpx.Request, content: bytes, timeouts: Timeouts
    ) -> httpx.Response:
        try:
            await connection.send(request, content, timeouts.get("write"))
            head = await connection.head(timeouts.get("read"))
        except BaseException:
            connection.close()
            raise
        headers = httpx.Headers(head.headers.raw_items())
        extensions = {"http_version": b"HTTP/" + head.http_version, "reason_phrase": head.reason}
        body = Body(self, connection, headers, timeouts)
        return httpx.Response(head.status_code, headers=headers, stream=body, extensions=extensions)

    async def _kept(self, origin: Origin) -> _Connection | None:
        while connection := self._pop(origin):
            ready = False
            try:
                ready = await connection.ready(self._tail)
            finally:
                if not ready:
                    connection.close()
            if ready:
                return connection
            if not connection.ended:
                # This service leaves bodies open; waiting for their ends gains nothing.
                self._tail = 0.0
        return None

    def _pop(self, origin: Origin) -> _Connection | None:
        oldest = trio.current_time() - _IDLE_SECONDS
        while self._idle and self._idle[0].used < oldest:
            self._idle.pop(0).close()
        places = (n for n in reversed(range(len(self._idle))) if self._idle[n].origin == origin)
        place = next(places, None)
        return None if place is None else self._idle.pop(place)


async def _connect(origin: Origin, seconds: float | None, context: Callable[[], ssl.SSLContext]) -> _Connection:
    scheme, host, port = origin
    with _at_most(seconds):
        try:
            plain = await trio.open_tcp_stream(host, port)
        except OSError as error:
            raise httpx.ConnectError(_reason(error)) from (error.__cause__ or error)
        stream: trio.abc.Stream = plain
        try:
            plain.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_KEEPALIVE, 1)
            if scheme == "https":
                stream = await _secured(plain, host, context())
        except BaseException:
            plain.socket.close()
            raise
        return _Connection(origin, stream, plain.socket)
    raise httpx.ConnectTimeout("no connection in time")


async def _secured(plain: trio.SocketStream, host: str, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(plain, context, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as error:
        raise httpx.ConnectError(f"TLS: {error.__cause__ or 'the connection broke'}") from error
    return stream


def _may_be_http(head: bytes) -> bool:
    """Whether a response that never came to the end of its head began as one."""
    return head[: len(_HTTP)] == _HTTP[: len(head)]


def _at_most(seconds: float | None) -> AbstractContextManager[object, bool | None]:
    return nullcontext() if seconds is None else trio.move_on_after(seconds)


def _reason(error: OSError) -> str:
    """The words of every address that was tried, each once."""
    cause = error.__cause__
    tried = cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,)
    words = [each.strerror or str(each) for each in tried if isinstance(each, OSError)]
    # Trio says where to, which the message does already.
    words = [re.sub(r"^Error connecting to \(.*?\): ", "", text) for text in words]
    return "; ".join(dict.fromkeys(words)) or error.strerror or str(error)
