"""Which model a run asks, and ``dsh models``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..structure import did_you_mean

if TYPE_CHECKING:
    import argparse

__all__ = ["NO_MODEL", "choose_model", "run", "unmet_effort"]

LOCAL = "local"
NO_MODEL = (
    "no model is configured\n"
    "  to use a provider's: set its key, as in DEEPSEEK_API_KEY=..., or let dsh keep it: dsh auth set deepseek\n"
    "  to use a server of your own: name its model, as in -m ollama/MODEL\n"
    "  to use one on this machine, without any key: pip install 'dsh-harness[local]'"
)


def run(args: argparse.Namespace) -> int:
    """Print which models there are."""
    from .catalogue import run

    return run(args)


def choose_model(adapters: Mapping[str, Any], wanted: str, notice: Callable[[str], None]) -> str:
    """``provider/name`` for what the person said, or for the first provider that is configured.

    Args:
        adapters: by provider; an adapter may say that it is `configured`, and its `default_model`.
        wanted: ``provider/name``, ``provider``, a known model's bare name, or nothing.
        notice: told when the choice fell on the local model because there is no other.

    Raises:
        ConfigError: no such provider, a provider without a default model, one whose key cannot be used, or no
            provider is configured.
    """
    if wanted:
        return _named(adapters, wanted)
    for name, adapter in adapters.items():
        if broken := getattr(adapter, "broken", None):
            raise ConfigError(f"{name}: {broken}", code="AUTH")
    usable = [name for name, adapter in adapters.items() if getattr(adapter, "configured", False) and _default(adapter)]
    for provider in sorted(usable, key=lambda name: name == LOCAL):
        if provider == LOCAL:
            notice(f"no provider is configured; asking the model on this machine ({_default(adapters[provider])})")
        return f"{provider}/{_default(adapters[provider])}"
    raise ConfigError(NO_MODEL, code="NO_MODEL")


def unmet_effort(adapters: Mapping[str, Any], model: str, effort: str | None) -> str | None:
    """What becomes of an effort that `model` does not know, in words; None where nothing has to be said."""
    provider, _, name = model.partition("/")
    if effort is None or provider not in adapters:
        return None
    from ..llm.effort import unmet

    return unmet(adapters[provider], name, effort)


def _named(adapters: Mapping[str, Any], wanted: str) -> str:
    provider, slash, name = wanted.partition("/")
    if provider in adapters:
        if name:
            return wanted
        default = _default(adapters[provider])
        if default:
            return f"{provider}/{default}"
        models = ", ".join(list(getattr(adapters[provider], "models", ()))[:8])
        list_of = f"; known are: {models}" if models else ""
        raise ConfigError(f"{provider} has no default model: write {provider}/MODEL{list_of}", code="NO_MODEL")
    known = [f"{name}/{model}" for name, adapter in adapters.items() for model in getattr(adapter, "models", ())]
    if not slash:
        owners = [full for full in known if full.partition("/")[2] == wanted]
        if owners:
            return owners[0]
    hint = did_you_mean(wanted, known) if len(known) > 12 else ""
    hint = hint or did_you_mean(provider, adapters)
    raise ConfigError(
        f"no provider serves the model {wanted!r}{hint}; a model is written provider/name", code="NO_MODEL"
    )


def _default(adapter: Any) -> str | None:
    found = getattr(adapter, "default_model", None)
    return found if isinstance(found, str) and found else None
