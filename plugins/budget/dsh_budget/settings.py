"""The tables ``[budget]`` and ``[models]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import Attribute, field, frozen

from dsh.durations import seconds_in

if TYPE_CHECKING:
    from dsh import Config

    from .prices import Prices

__all__ = ["BudgetConfig", "ModelConfig", "Price", "prices_of"]


def _above_zero(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{attribute.name} must be more than 0, got {value:g}")


def _not_negative(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 <= value < float("inf"):
        raise ValueError(f"{attribute.name} must not be less than 0, got {value:g}")


def _time(value: Any) -> float | None:
    if isinstance(value, str):
        return seconds_in(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise ValueError("timeout: expected a number of seconds, or text as in 10m")


@frozen
class BudgetConfig:
    """The table ``[budget]``: what a run may take, with all agents that it starts.  None is no limit.

    Attributes:
        max_requests: steps; a request that is sent again counts once.
        max_tokens: in and out, cached ones too.
        max_usd: dollars.
        timeout: seconds since the first turn began; also written as text, ``10m`` or ``1h30m``.
    """

    max_requests: int | None = field(default=None, validator=_above_zero)
    max_tokens: int | None = field(default=None, validator=_above_zero)
    max_usd: float | None = field(default=None, validator=_above_zero)
    timeout: Any = field(default=None, converter=_time, validator=_above_zero)


@frozen
class Price:
    """Dollars a million tokens.  Cached input costs as much as other input where nothing is said."""

    input: float = field(validator=_not_negative)
    output: float = field(validator=_not_negative)
    cache_read: float | None = field(default=None, validator=_not_negative)
    cache_write: float | None = field(default=None, validator=_not_negative)


@frozen
class ModelConfig:
    """One of ``[models."provider/model"]``.

    Attributes:
        context_window, max_output: tokens; for those who ask for them.
    """

    context_window: int | None = field(default=None, validator=_above_zero)
    max_output: int | None = field(default=None, validator=_above_zero)
    price: Price | None = None


def prices_of(config: Config) -> Prices:
    """The prices that the settings give, before those of the data set.

    Raises:
        ConfigError: the table ``[models]`` is wrong.
    """
    from .prices import Prices

    models: Mapping[str, ModelConfig] = config.section("models", dict[str, ModelConfig])
    return Prices({name: model.price for name, model in models.items() if model.price is not None})
