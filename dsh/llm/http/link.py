"""The link to one service: what every request to it has in common, and a response under way."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping
from contextlib import suppress

import httpx
import trio

from ...errors import LlmError
from .encoding import PLAIN, Inflater, Unreadable, inflater
from .failures import transport_failure
from .limits import ANSWERED
from .route import transport_for
from .transport import Body

__all__ = ["Exchange", "Link"]


_TAIL_SECONDS = 0.05
_BAD = "MALFORMED_RESPONSE"
_FAILURES = (httpx.RequestError, httpx.StreamError, httpx.InvalidURL)
"""What transports raise; those of other makers also the kinds that a client raises."""


class Link:
    """Sends requests to one address.

    Requests go to the transport directly: cookies, redirects and authentication are not wanted, so
    that a client of httpx would only add its set-up and a third of a millisecond to each.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        path: str,
        headers: Mapping[str, str],
        *,
        connect: float,
        first_byte: float,
        transport: httpx.AsyncBaseTransport | None = None,
        ca_bundle: str | None = None,
    ) -> None:
        """Args:
            name: the service's, for messages.
            base_url: of the service.
            path: behind it, where requests go.
            headers: of each request, beside those that every request has.
            connect: seconds to wait for a connection.
            first_byte: seconds to wait for the head of a response.
            transport: what sends the requests; found by the address, if not given.
            ca_bundle: whose certificates are trusted besides the usual, as in `NetworkConfig`.

        Raises:
            LlmError: `base_url` is no address, or the proxy on the way there or a file of certificates cannot be used.
        """
        self._connect = connect
        self._first_byte = first_byte
        try:
            self._base_url = base_url
            self._url = httpx.URL(f"{base_url}{path}")
        except httpx.InvalidURL as error:
            raise transport_failure(name, error) from error
        via = ""
        if transport is None:
            transport, via = transport_for(self._url, ca_bundle)
        self._transport = transport
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        self._who = f"{name} ({self._url.host}:{port}{via})"
        self._headers = httpx.Headers(
            {
                "user-agent": f"dsh/{_version()}",
                "accept": "text/event-stream",
                "accept-encoding": "identity",
                "content-type": "application/json",
            }
        )
        self._headers.update(headers)

    async def send(self, body: bytes | None, path: str | None = None) -> Exchange:
        """Send `body` and wait for the head of the response; being cancelled closes the connection.

        Args:
            body: None asks for what lies there, with ``GET``.
            path: another one behind the base URL.

        Raises:
            LlmError: no connection, no answer, or one that is not HTTP.
        """
        patience = self._first_byte
        timeouts = {"connect": self._connect, "write": patience, "read": patience, "pool": None}
        method, url, headers = "POST", self._url, self._headers
        if path is not None:
            url = httpx.URL(f"{self._base_url}{path}")
        if body is None:
            method, headers = "GET", httpx.Headers({**headers, "accept": "application/json"})
            headers.pop("content-type", None)
        request = httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeouts})
        try:
            response = await self._transport.handle_async_request(request)
        except _FAILURES as error:
            raise transport_failure(self._who, error, timeouts) from error
        # Transports look it up again for the body, over which `Exchange.read` watches with changing patience.
        timeouts["read"] = None
        encoding = response.headers.get("content-encoding", "").strip().lower()
        inflate = None
        if encoding not in PLAIN and (inflate := inflater(encoding)) is None:
            if response.status_code not in ANSWERED:
                # The status says what is wrong, if nothing else can be read.
                return Exchange(self._who, response, Unreadable(encoding))
            await response.aclose()
            raise LlmError(f"{self._who} compressed its answer ({encoding}), unasked", code=_BAD)
        return Exchange(self._who, response, inflate)

    async def aclose(self) -> None:
        """Close the connections that nobody uses."""
        await self._transport.aclose()


class Exchange:
    """A response whose head has come.

    Attributes:
        headers: whatever the case of their names.
    """

    def __init__(self, who: str, response: httpx.Response, inflate: Inflater | None = None) -> None:
        """Args: inflate: for a body that is compressed."""
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._inflate = inflate
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._who = who
        self._response = response
        self._stream = response.stream
        self._chunks = aiter(response.stream)

    async def read(self, seconds: float) -> bytes:
        """More of the body; empty at its end.  After being cancelled, only `release` may follow.

        Raises:
            LlmError: nothing came for `seconds`, or the body broke off.
        """
        try:
            with trio.move_on_after(seconds):
                async for data in self._chunks:
                    if data and (data := data if self._inflate is None else self._inflate.feed(data)):
                        return data
                return self._rest()
        except _FAILURES as error:
            raise transport_failure(self._who, error, answering=True) from error
        except zlib.error as error:
            raise LlmError(
                f"{self._who} compressed its answer in a way that cannot be read: {error}", code=_BAD
            ) from error
        raise LlmError(f"{self._who} sent nothing for {seconds:g} seconds", code="TIMEOUT", retryable=True)

    def _rest(self) -> bytes:
        inflate, self._inflate = self._inflate, None
        return b"" if inflate is None else inflate.end()

    async def release(self, *, whole: bool) -> None:
        """Be done with it.  `whole` says that what is missing of the body, if anything, is its end.

        Waits for that end through a proxy only, and not long.
        """
        if whole and isinstance(self._stream, Body):
            await self._stream.leave()
            return
        with suppress(*_FAILURES):
            if whole:
                with trio.move_on_after(_TAIL_SECONDS):
                    async for _ in self._chunks:
                        pass
            await self._response.aclose()
            # Transports that are async generators have to be run to their ends, or the garbage
            # collector complains; being cancelled ends all that are nested in each other.
            with trio.CancelScope(shield=True) as scope:
                scope.cancel()
                async for _ in self._chunks:
                    pass


@functools.cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dsh-harness")
    except PackageNotFoundError:
        return "0"
