"""The model service: which adapter serves a model, and the one way to ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import LlmError
from ..hooks.spec import did_you_mean
from .adapter import Adapter, Adapters, Request
from .chunks import ChunkStream

if TYPE_CHECKING:
    from ..agents import Agent
    from ..hookspecs import Hooks

__all__ = ["LlmService"]


class LlmService:
    """The adapters of a harness, by provider."""

    def __init__(self, hook: Hooks, adapters: Adapters) -> None:
        """Raises: LlmError: two plugins serve one provider."""
        self._hook = hook
        found: dict[str, Adapter] = {}
        owners: dict[str, str] = {}
        for plugin, (provider, adapter) in adapters.attributed():
            if provider in found:
                raise LlmError(
                    f"the provider {provider!r} is served by two plugins: {owners[provider]} and {plugin}",
                    code="DUPLICATE_ADAPTER",
                )
            found[provider], owners[provider] = adapter, plugin
        self._adapters, self._owners = found, owners

    @property
    def adapters(self) -> Mapping[str, Adapter]:
        """The adapters, by provider."""
        return self._adapters

    async def drop(self, plugin: str) -> None:
        """Close the adapters of a plugin; nobody serves their providers any more.

        Raises:
            Exception: closing one failed; the others of that plugin are dropped unclosed.
        """
        dropped = [self._adapters.pop(provider) for provider, owner in self._owners.items() if owner == plugin]
        self._owners = {provider: owner for provider, owner in self._owners.items() if owner != plugin}
        for adapter in dropped:
            await adapter.aclose()

    def models(self) -> list[str]:
        """The models that are known by name, as ``provider/name``."""
        return [f"{provider}/{name}" for provider, adapter in self.adapters.items() for name in adapter.models]

    def resolve(self, model: str) -> tuple[Adapter, str]:
        """The adapter of ``provider/name``, and the name; a bare name is looked up among the known models.

        Raises:
            LlmError: ``NO_ADAPTER``; the message says what there is.
        """
        provider, slash, name = model.partition("/")
        if slash and provider in self.adapters:
            return self.adapters[provider], name
        if not slash:
            for adapter in self.adapters.values():
                if model in adapter.models:
                    return adapter, model
        hint = did_you_mean(model, self.models()) or did_you_mean(provider, self.adapters)
        known = ", ".join(sorted(self.adapters)) or "none"
        raise LlmError(
            f"no provider serves the model {model!r}{hint} "
            f"(a model is written provider/name; the providers are: {known})",
            code="NO_ADAPTER",
        )

    async def stream(self, request: Request, agent: Agent | None = None) -> ChunkStream:
        """Ask for an answer; iterate it under ``contextlib.aclosing``.

        Raises:
            LlmError: no adapter serves the model, or the request could not be sent.
        """
        hook = self._hook if agent is None else agent.hook

        def adapter_stream() -> ChunkStream:
            adapter, name = self.resolve(request.model)
            return adapter.stream(request, name)

        return await hook.llm_stream(agent=agent, request=request, default=adapter_stream)
