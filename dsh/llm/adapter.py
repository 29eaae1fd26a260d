"""What an adapter is: the bridge between a `Request` and one provider's protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from ..errors import PluginError
from ..hooks import Collector, refuse_other
from ..messages import Message, ToolSchema
from .chunks import ChunkStream

__all__ = ["Adapter", "Adapters", "Request"]


@frozen
class Request:
    """One model request.

    `messages` are the same objects as in the request before, as far as the conversation is the
    same; an adapter keeps what it derived from one in `Message.memo`.  `model` is
    ``provider/name`` as configured.
    """

    model: str
    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[ToolSchema, ...] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    reasoning_effort: str | None = None
    session_id: str | None = None


class Adapter(Protocol):
    """A provider's protocol."""

    models: Sequence[str]
    """Names that are known to work, for listings and did-you-means; others are passed on as well."""

    def stream(self, request: Request, model: str) -> ChunkStream:
        """Send `request` to `model`, the part of its name behind the provider's.

        Failures are `LlmError`, raised from the stream.  Cancellation closes the connection.
        """
        ...

    async def aclose(self) -> None:
        """Close connections and child processes.  Called once, when the harness closes."""
        ...


class Adapters(Collector[tuple[str, Adapter]]):
    """The collector of ``llm_adapters``."""

    def add(self, provider: str, adapter: Adapter) -> None:
        """Serve all models named ``provider/...``."""
        refuse_other("adapters.add", provider, str)
        if not callable(getattr(adapter, "stream", None)):
            raise PluginError(f"adapters.add takes an adapter, which has a method stream, not {adapter!r:.80}")
        self.collect((provider, adapter), 0)
