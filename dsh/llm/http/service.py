"""A service that is asked over HTTP: reached when needed, its refusals explained, its secrets kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import field, frozen

from ...errors import DshError, LlmError
from .failures import http_failure
from .keys import check_key
from .limits import ANSWERED, MAX_ANSWER
from .wire import parse

if TYPE_CHECKING:
    import httpx

    from .link import Exchange, Link

__all__ = ["Connect", "Place", "Service", "read_all"]

_MOST_ERROR = 64 * 1024
_FOR_ERROR = 30.0
Connect: TypeAlias = "Callable[[], Awaitable[tuple[str, str | None]]]"
"""Gives base URL and key of a service that has to be started first."""


@frozen
class Place:
    """Where a service is, and what it takes to be let in.

    Attributes:
        name: the provider's.
        path: of requests, behind the base URL.
        base_url: None if `connect` tells it.
        key_env: the variable that holds the key, for messages.
        key_header: the header that carries the key; in ``authorization`` it is a bearer token.
        headers: further headers; like the key, they are never shown.
        own_headers: those that the dialect demands.
        connect: awaited before a request until it has succeeded, and again when the service has gone.
        connect_timeout: seconds.
        first_byte: seconds to wait for the head of a response, and for its first event.
        between: seconds to wait for more of it.
        max_answer_bytes: of one response's body; who sends more is taken to have no end.
        problem: why it cannot be asked, in words for the person; None when it can.
        ca_bundle: whose certificates are trusted besides the usual, as in `NetworkConfig`.
        absent: what to do when nothing listens there, as for servers that people start themselves; they are not
            waited for.
    """

    name: str
    path: str
    base_url: str | None
    api_key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    own_headers: Mapping[str, str] = field(factory=dict)
    connect: Connect | None = field(default=None, repr=False)
    connect_timeout: float = 20.0
    first_byte: float = 600.0
    between: float = 300.0
    max_answer_bytes: int = MAX_ANSWER
    problem: str | None = None
    ca_bundle: str | None = None
    absent: str | None = None


class Service:
    """Sends requests to one `Place`.

    Any number of requests may be under way; each has a connection of its own.
    """

    def __init__(self, place: Place, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Args: transport: what sends the requests, such as `httpx.MockTransport`; found when needed, if not given."""
        self.place = place
        self._transport = transport
        self._link: Link | None = None
        self._key = place.api_key
        self._connecting = trio.Lock()

    async def aclose(self) -> None:
        """Close the connections that are kept.  Streams that are open go on and close their own."""
        if self._link is not None:
            await self._link.aclose()

    async def send(self, body: bytes) -> Exchange:
        """Send `body` and wait until the service accepts it.

        Raises:
            LlmError: it cannot be reached, or refuses.
        """
        place = self.place
        if place.problem is not None:
            raise LlmError(f"{place.name}: {place.problem}", code="AUTH")
        exchange = await self._request(body)
        if exchange.status in ANSWERED:
            return exchange
        raise await self._refusal(exchange)

    async def fetch(self, path: str) -> Any:
        """The JSON that lies at `path`, behind the base URL, as with ``GET``.

        Raises:
            LlmError: the service cannot be reached, refuses, or gives something else.
        """
        place = self.place
        if place.problem is not None:
            raise LlmError(f"{place.name}: {place.problem}", code="AUTH")
        try:
            exchange = await self._request(None, path)
            if exchange.status not in ANSWERED:
                raise await self._refusal(exchange)
            try:
                body = await read_all(exchange, place.between, place.max_answer_bytes)
            finally:
                await exchange.release(whole=False)
            return parse(place.name, body)
        except LlmError as error:
            raise self.masked(error) from error.__cause__

    def masked(self, error: LlmError) -> LlmError:
        """`error` without the key, should a service repeat it, or a header's value."""
        text = error.message
        for secret in (self._key, *self.place.headers.values()):
            if secret and len(secret) >= 8:
                text = _without(text, secret)
        error.message = text
        error.args = (text,)
        return error

    async def _refusal(self, exchange: Exchange) -> LlmError:
        """The error for a response that is not 200."""
        place, said = self.place, b""
        most = min(_FOR_ERROR, place.between)
        try:
            with trio.move_on_after(most), suppress(LlmError):
                said = await read_all(exchange, most, _MOST_ERROR)
        finally:
            await exchange.release(whole=False)
        return self.masked(http_failure(place.name, exchange.status, exchange.headers, said, key_hint=self._key_hint()))

    async def _request(self, body: bytes | None, path: str | None = None) -> Exchange:
        link = await self._reach()
        try:
            return await link.send(body, path)
        except LlmError as error:
            if error.code != "UNAVAILABLE" or self.place.connect is None:
                raise self._away(error) from error.__cause__
        # The server that was started for us is gone; have it started anew, once.
        if self._link is link:
            self._link = None
            await link.aclose()
        return await (await self._reach()).send(body, path)

    def _away(self, error: LlmError) -> LlmError:
        """`error`, with what to do about a server that nobody started."""
        absent = self.place.absent
        if absent is None or error.code != "UNAVAILABLE" or not isinstance(_root(error), ConnectionRefusedError):
            return error
        return LlmError(f"{error.message}; nothing listens there: {absent}", code=error.code)

    def _key_hint(self) -> str:
        variable = self.place.key_env
        if variable is None:
            return "name the variable that holds its key with key_env" if self._key is None else "its key is wrong"
        return f"check {variable}" if self._key else f"set {variable}"

    async def _reach(self) -> Link:
        if self._link is not None:
            return self._link
        async with self._connecting:
            if self._link is None:
                url, self._key = await self._address()
                # Takes a while, and many a command sends nothing.
                from .link import Link

                place = self.place
                self._link = Link(
                    place.name,
                    url.rstrip("/"),
                    place.path,
                    self._headers(),
                    connect=place.connect_timeout,
                    first_byte=place.first_byte,
                    transport=self._transport,
                    ca_bundle=place.ca_bundle,
                )
            return self._link

    def _headers(self) -> dict[str, str]:
        """Those of the dialect, the key's, and the further ones, which win."""
        header, key = self.place.key_header, self._key
        headers = dict(self.place.own_headers)
        if key is not None:
            headers[header] = f"Bearer {key}" if header == "authorization" else key
        for name, value in self.place.headers.items():
            headers[name.lower()] = value
        return headers

    async def _address(self) -> tuple[str, str | None]:
        """Base URL and key."""
        place = self.place
        if place.connect is None:
            assert place.base_url is not None
            return place.base_url, place.api_key
        try:
            url, key = await place.connect()
        except DshError:
            raise
        except OSError as error:
            raise LlmError(f"{place.name} cannot be started: {error}", code="UNAVAILABLE") from error
        if key is not None:
            key, problem = check_key(f"the key of {place.name}", key)
            if problem is not None:
                raise LlmError(problem, code="AUTH")
        return url, key


def _without(text: str, secret: str) -> str:
    """`text` without `secret`, also where `shorten` has cut it."""
    text = text.replace(secret, "***")
    if "…" in text:
        for length in range(len(secret) - 1, 3, -1):
            text = text.replace(f"{secret[:length]} …", "*** …").replace(f"… {secret[-length:]}", "… ***")
    return text


def _root(error: BaseException) -> BaseException:
    """What an error goes back to."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, BaseExceptionGroup):
        return _root(error.exceptions[0])
    return error


async def read_all(exchange: Exchange, seconds: float, most: int) -> bytes:
    """The rest of a body, up to about `most` bytes."""
    parts: list[bytes] = []
    size = 0
    while size < most and (data := await exchange.read(seconds)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)
