"""The adapter of one service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh.llm.adapter import Request
from dsh.llm.http.service import Place, Service
from dsh.llm.http.stream import AnswerStream
from dsh_chat.encode import Encoder
from dsh_chat.providers import Provider
from dsh_chat.responses import ResponsesEncoder
from dsh_chat.responses_translate import ResponsesTranslator
from dsh_chat.translate import Translator

if TYPE_CHECKING:
    import httpx

__all__ = ["ChatAdapter"]


class ChatAdapter:
    """Speaks chat completions, or Responses, with one `Provider`.

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
        self._responses = provider.dialect.dialect == "responses"
        self._encoder = (ResponsesEncoder if self._responses else Encoder)(provider.dialect)
        self._service = Service(_place(provider), transport)
        self.models: Sequence[str] = provider.models
        self.configured = provider.configured
        self.broken = provider.problem if provider.broken else None
        self.default_model = provider.default_model or (provider.models[0] if provider.models else None)

    def __repr__(self) -> str:
        return f"ChatAdapter({self._provider!r})"

    @property
    def provider(self) -> Provider:
        return self._provider

    def stream(self, request: Request, model: str) -> AnswerStream:
        """The answer to `request`; nothing is sent before its first chunk is asked for."""
        translate = ResponsesTranslator if self._responses else Translator
        translator = translate(self._provider.name, request.model)
        return AnswerStream(self._service, lambda: self._encoder.body(request, model), translator)

    async def aclose(self) -> None:
        """Close the connections that are kept.  Streams that are open go on and close their own."""
        await self._service.aclose()


def _place(provider: Provider) -> Place:
    return Place(
        provider.name,
        "/responses" if provider.dialect.dialect == "responses" else "/chat/completions",
        provider.base_url,
        provider.api_key,
        provider.key_env,
        headers=provider.headers,
        connect=provider.connect,
        connect_timeout=provider.connect_timeout,
        first_byte=provider.dialect.first_byte,
        between=provider.dialect.between,
        max_answer_bytes=provider.dialect.max_answer_bytes,
        problem=provider.problem,
    )
