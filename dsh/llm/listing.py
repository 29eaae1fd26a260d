"""Which models a service says that it has, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import field, frozen

from ..errors import LlmError

if TYPE_CHECKING:
    from ..models import ModelFacts, Price
    from .service import LlmService

__all__ = ["FetchesModels", "ListedModel", "list_models", "read_models"]

_WINDOW = ("context_window", "context_length", "max_context_length", "max_model_len", "max_input_tokens", "n_ctx")
_OUTPUT = ("max_output", "max_output_tokens", "max_completion_tokens", "max_tokens", "output_token_limit")
_INSIDE = ("", "top_provider", "limits", "meta", "model_info", "capabilities")
"""Where services put such numbers, beside the model itself."""


@frozen
class ListedModel:
    """A model as its service describes it; `name` is without the provider's."""

    name: str
    facts: ModelFacts = field(repr=False)


@runtime_checkable
class FetchesModels(Protocol):
    """What an adapter may be, beside an `Adapter`: one that asks its service for its models."""

    async def fetch_models(self) -> Any:
        """What the service says: parsed JSON, as a rule ``{"data": [{"id": …}, …]}``.

        Failures are `LlmError`; being cancelled, it closes the connection.
        """
        ...


async def list_models(llm: LlmService, provider: str) -> Sequence[ListedModel] | None:
    """The models that the service of `provider` has; None if its adapter cannot ask that.

    Raises:
        LlmError: ``NO_ADAPTER``, or the service did not answer, or with something else.
    """
    adapter = llm.adapters.get(provider)
    if adapter is None:
        known = ", ".join(sorted(llm.adapters)) or "none"
        raise LlmError(f"there is no provider {provider!r}; there are: {known}", code="NO_ADAPTER")
    if not isinstance(adapter, FetchesModels):
        return None
    value = await adapter.fetch_models()
    found = read_models(value)
    if found is None and isinstance(value, Mapping) and value.get("error"):
        from .http.failures import stream_failure

        raise stream_failure(provider, value)
    if found is None:
        raise LlmError(f"{provider} answered with something that is no list of models", code="MALFORMED_RESPONSE")
    return found


def read_models(value: Any) -> list[ListedModel] | None:
    """The models in a service's answer, each once; None if it is no list of models."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("data", "models") if isinstance(value.get(name), Sequence)), None)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return None
    found: dict[str, ListedModel] = {}
    for item in value:
        name = item if isinstance(item, str) else _name(item)
        if name and name not in found:
            found[name] = ListedModel(name, _facts(item))
    return list(found.values()) if found or not value else None


def _name(item: Any) -> str | None:
    if not isinstance(item, Mapping):
        return None
    return next((item[key] for key in ("id", "name", "model") if isinstance(item.get(key), str)), None)


def _facts(item: Any) -> ModelFacts:
    from ..models import ModelFacts

    if not isinstance(item, Mapping):
        return ModelFacts()
    return ModelFacts(_count(item, _WINDOW), _count(item, _OUTPUT), _price(item.get("pricing")))


def _count(item: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for table in _tables(item):
        for name in names:
            value = table.get(name)
            if isinstance(value, str) and value.isdecimal() and len(value) < 16:
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _tables(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in _INSIDE:
        table = item.get(name) if name else item
        if isinstance(table, Mapping):
            yield table


def _price(pricing: Any) -> Price | None:
    """Prices as OpenRouter has them, dollars for one token, as text; those of others have units that nobody tells."""
    from ..models import Price

    if not isinstance(pricing, Mapping) or not isinstance(pricing.get("prompt"), str):
        return None
    names = ("prompt", "completion", "input_cache_read", "input_cache_write")
    into, out, read, written = (_dollars(pricing.get(name)) for name in names)
    return None if into is None or out is None else Price(into, out, read, written)


def _dollars(text: Any) -> float | None:
    try:
        value = float(text) * 1e6 if isinstance(text, str) else -1.0
    except ValueError:
        return None
    return round(value, 6) if 0 <= value < float("inf") else None  # less than 0 says that it varies
