"""The adapter of one service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dsh.llm.adapter import Request
from dsh.llm.http.service import Service
from dsh_anthropic.settings import Provider

if TYPE_CHECKING:
    import httpx

    from dsh_anthropic.encode import Encoder
    from dsh_anthropic.stream import MessageStream

__all__ = ["AnthropicAdapter"]

_PAGES = 20
"""How many further pages of models are asked for."""


class AnthropicAdapter:
    """Speaks the Messages API with one `Provider`.

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
        self._encoder: Encoder | None = None
        self._service = Service(provider.place, transport)
        self.models: Sequence[str] = provider.models
        self.configured = provider.configured
        self.broken = provider.broken
        self.default_model = provider.settings.default_model or (provider.models[0] if provider.models else None)

    def __repr__(self) -> str:
        return f"AnthropicAdapter({self._provider!r})"

    @property
    def provider(self) -> Provider:
        return self._provider

    def stream(self, request: Request, model: str) -> MessageStream:
        """The answer to `request`; nothing is sent before its first chunk is asked for."""
        # Imported here, as every program has this adapter and few speak with the service.
        from dsh_anthropic.encode import Encoder
        from dsh_anthropic.stream import MessageStream

        if self._encoder is None:
            self._encoder = Encoder(self._provider.name, self._provider.settings)
        return MessageStream(self._service, self._encoder, request, model, self._provider.settings.pauses)

    def efforts(self, model: str) -> Sequence[str] | None:
        """The levels of effort that `model` takes; None if nobody knows."""
        from dsh_anthropic.effort import efforts_of

        return efforts_of(model)

    async def fetch_models(self) -> Any:
        """What the service says of its models: ``{"data": [{"id": …}, …]}``.

        Raises:
            LlmError: it cannot be reached, refuses, or gives something else.
        """
        path = self._provider.models_path
        found = page = await self._service.fetch(path)
        for _ in range(_PAGES):
            last = page.get("last_id") if isinstance(page, dict) and page.get("has_more") is True else None
            if not isinstance(last, str) or not isinstance(page.get("data"), list):
                break
            page = await self._service.fetch(f"{path}{'&' if '?' in path else '?'}after_id={quote(last, safe='')}")
            if isinstance(page, dict) and isinstance(page.get("data"), list):
                found = {**page, "data": [*found["data"], *page["data"]]}
        return found

    async def aclose(self) -> None:
        """Close the connections that are kept.  Streams that are open go on and close their own."""
        await self._service.aclose()
