"""The adapter of one service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from dsh.errors import DshError, LlmError
from dsh.llm.adapter import Request
from dsh_chat.encode import Encoder
from dsh_chat.failures import http_failure
from dsh_chat.providers import Provider, check_key
from dsh_chat.stream import ChatStream, read_all

if TYPE_CHECKING:
    import httpx

    from dsh_chat.link import Exchange, Link

__all__ = ["ChatAdapter"]

_MOST_ERROR = 64 * 1024
_FOR_ERROR = 30.0


class ChatAdapter:
    """Speaks chat completions with one `Provider`.

    Any number of requests may be under way; each has a connection of its own.

    Attributes:
        models: names that are known to work.
        configured: it has what it needs to be asked.
        broken: what is wrong with the key that it was given; None if nothing is, or if there is no key.
        default_model: what to ask when nobody named a model, without the provider's name.
    """

    def __init__(self, provider: Provider, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Args: transport: what sends the requests, such as `httpx.MockTransport`; found when needed, if not given."""
        self._provider = provider
        self._encoder = Encoder(provider.dialect)
        self._transport = transport
        self._link: Link | None = None
        self._key = provider.api_key
        self._connecting = trio.Lock()
        self.models: Sequence[str] = provider.models
        self.configured = provider.configured
        self.broken = provider.problem if provider.broken else None
        self.default_model = provider.default_model or (provider.models[0] if provider.models else None)

    def __repr__(self) -> str:
        return f"ChatAdapter({self._provider!r})"

    @property
    def provider(self) -> Provider:
        return self._provider

    def stream(self, request: Request, model: str) -> ChatStream:
        """The answer to `request`; nothing is sent before its first chunk is asked for."""
        return ChatStream(self, request, model)

    async def aclose(self) -> None:
        """Close the connections that are kept.  Streams that are open go on and close their own."""
        if self._link is not None:
            await self._link.aclose()

    async def send(self, request: Request, model: str) -> Exchange:
        """Send `request` and wait until the service accepts it.

        Raises:
            LlmError: it cannot be reached, or refuses.
        """
        provider = self._provider
        if provider.problem is not None:
            raise LlmError(f"{provider.name}: {provider.problem}", code="AUTH")
        exchange = await self._request(self._encoder.body(request, model))
        if exchange.status == 200:
            return exchange
        try:
            body = await read_all(exchange, min(_FOR_ERROR, provider.dialect.between), _MOST_ERROR)
        except LlmError:
            body = b""
        finally:
            await exchange.release(whole=False)
        raise self.masked(
            http_failure(provider.name, exchange.status, exchange.headers, body, key_hint=self._key_hint())
        )

    async def _request(self, body: bytes) -> Exchange:
        link = await self._reach()
        try:
            return await link.post(body)
        except LlmError as error:
            if error.code != "UNAVAILABLE" or self._provider.connect is None:
                raise
        # The server that was started for us is gone; have it started anew, once.
        if self._link is link:
            self._link = None
            await link.aclose()
        return await (await self._reach()).post(body)

    def _key_hint(self) -> str:
        variable = self._provider.key_env
        if variable is None:
            return "name the variable that holds its key with key_env" if self._key is None else "its key is wrong"
        return f"check {variable}" if self._key else f"set {variable}"

    def masked(self, error: LlmError) -> LlmError:
        """`error` without the key, should a service repeat it, or a header's value."""
        text = error.message
        for secret in (self._key, *self._provider.headers.values()):
            if secret and len(secret) >= 8:
                text = text.replace(secret, "***")
        error.message = text
        error.args = (text,)
        return error

    async def _reach(self) -> Link:
        if self._link is not None:
            return self._link
        async with self._connecting:
            if self._link is None:
                url, key = await self._address()
                # Takes a while, and many a command sends nothing.
                from dsh_chat.link import Link

                self._key = key
                self._link = Link(self._provider, url, key, self._transport)
            return self._link

    async def _address(self) -> tuple[str, str | None]:
        """Base URL and key."""
        provider = self._provider
        if provider.connect is None:
            assert provider.base_url is not None
            return provider.base_url, provider.api_key
        try:
            url, key = await provider.connect()
        except DshError:
            raise
        except OSError as error:
            raise LlmError(f"{provider.name} cannot be started: {error}", code="UNAVAILABLE") from error
        if key is not None:
            key, problem = check_key(f"the key of {provider.name}", key)
            if problem is not None:
                raise LlmError(problem, code="AUTH")
        return url, key
