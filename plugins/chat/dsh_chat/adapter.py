"""The adapter of one service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen

from dsh.llm.adapter import Request
from dsh.llm.http.service import Place, Service
from dsh.llm.http.stream import AnswerStream
from dsh_chat.dialect import Dialect
from dsh_chat.encode import Encoder
from dsh_chat.providers import Provider
from dsh_chat.responses import ResponsesEncoder
from dsh_chat.responses_translate import ResponsesTranslator
from dsh_chat.translate import Translator

if TYPE_CHECKING:
    import httpx

__all__ = ["ChatAdapter"]

_Translators: TypeAlias = Callable[[str, str, Dialect], Translator | ResponsesTranslator]
_PROTOCOLS: Mapping[str, tuple[str, type[Encoder], _Translators]] = {
    "chat": ("/chat/completions", Encoder, Translator),
    "responses": ("/responses", ResponsesEncoder, ResponsesTranslator),
}
"""For each protocol: the path of requests, what writes them, and what reads answers."""


@frozen(eq=False)
class _Way:
    """How some of a service's models are spoken to."""

    dialect: Dialect
    encoder: Encoder
    translator: _Translators
    service: Service


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
        self._transport = transport
        self._ways: dict[str | None, _Way] = {}
        self._services: dict[str, Service] = {}
        self.models: Sequence[str] = provider.models
        self.configured = provider.configured
        self.broken = provider.problem if provider.broken else None
        self.default_model = provider.default_model or (provider.models[0] if provider.models else None)

    def __repr__(self) -> str:
        return f"ChatAdapter({self._provider!r})"

    @property
    def provider(self) -> Provider:
        """The service, as data: its name, address, the variables of its key, and where it lists its models."""
        return self._provider

    def stream(self, request: Request, model: str) -> AnswerStream:
        """The answer to `request`; nothing is sent before its first chunk is asked for."""
        way = self._way(model)
        translator = way.translator(self._provider.name, request.model, way.dialect)
        return AnswerStream(way.service, lambda: way.encoder.body(request, model), translator)

    def efforts(self, model: str) -> Sequence[str] | None:
        """The levels of effort that `model` takes; None if nobody knows."""
        return self._provider.dialect.of(model).levels()

    async def fetch_models(self) -> Any:
        """What the service says at its `models_path`: mostly ``{"data": [{"id": …}, …]}``.

        Raises:
            LlmError: it cannot be reached, refuses, or gives something else.
        """
        return await self._service(self._provider.dialect).fetch(self._provider.models_path)

    async def aclose(self) -> None:
        """Close the connections that are kept.  Streams that are open go on and close their own."""
        for service in self._services.values():
            await service.aclose()

    def _way(self, model: str) -> _Way:
        pattern = self._provider.dialect.pattern(model)
        way = self._ways.get(pattern)
        if way is None:
            dialect = self._provider.dialect.of(model)
            _, encoder, translator = _PROTOCOLS[dialect.dialect]
            way = self._ways[pattern] = _Way(dialect, encoder(dialect), translator, self._service(dialect))
        return way

    def _service(self, dialect: Dialect) -> Service:
        service = self._services.get(dialect.dialect)
        if service is None:
            place = _place(self._provider, dialect)
            service = self._services[dialect.dialect] = Service(place, self._transport)
        return service


def _place(provider: Provider, dialect: Dialect) -> Place:
    return Place(
        provider.name,
        _PROTOCOLS[dialect.dialect][0],
        provider.base_url,
        provider.api_key,
        provider.key_env,
        headers=provider.headers,
        connect=provider.connect,
        connect_timeout=provider.connect_timeout,
        first_byte=dialect.first_byte,
        between=dialect.between,
        max_answer_bytes=dialect.max_answer_bytes,
        problem=provider.problem,
        ca_bundle=provider.ca_bundle,
        absent=provider.absent,
    )
