"""What a person may choose from, where nobody has said yet which model is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..errors import ConfigError
from ..terminal import person_present

if TYPE_CHECKING:
    from .start import Start

__all__ = ["Service", "Unsettled", "is_first", "services"]


@frozen
class Service:
    """What may be asked for answers.

    Attributes:
        name: the provider's.
        title: for people.
        variable: of its key; None where it takes none.
        needs_key: whether nothing can be asked without one.
        keys_at: the page on which one is made; empty where that is not known.
        model: the one that is asked if nobody names one; None where there is none.
        ready: whether it can be asked as it is.
    """

    name: str
    title: str
    variable: str | None
    needs_key: bool
    keys_at: str
    model: str | None
    ready: bool


class Unsettled(ConfigError):
    """No model can be asked, or only the small one of this machine, and nobody has said yet that this is meant.

    Attributes:
        services: what there is to choose from.
    """

    def __init__(self, message: str, found: Sequence[Service]) -> None:
        super().__init__(message, code="NO_MODEL")
        self.services = tuple(found)


def services(adapters: Mapping[str, Any]) -> list[Service]:
    """The adapters as choices for a person."""
    found = []
    for name, adapter in adapters.items():
        provider = getattr(adapter, "provider", None)
        place = getattr(provider, "place", provider)
        title = getattr(provider, "title", "") or name
        variable = getattr(place, "key_env", None)
        needs_key = bool(getattr(provider, "needs_key", False)) and bool(variable)
        keys_at = getattr(provider, "keys_at", "")
        model = getattr(adapter, "default_model", None)
        ready = bool(getattr(adapter, "configured", False))
        found.append(Service(name, title, variable, needs_key, keys_at, model, ready))
    return found


def is_first(start: Start) -> bool:
    """Whether a person is there who has not written any settings of their own."""
    return person_present() and not (start.home / "config.toml").exists()
