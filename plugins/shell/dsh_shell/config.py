"""The table ``[shell]`` of the configuration."""

from __future__ import annotations

import math
from typing import Any

from attrs import Attribute, field, frozen

__all__ = ["ShellConfig"]


def _positive(instance: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{attribute.name} must be a positive, finite number, not {value!r}")


@frozen
class ShellConfig:
    """How commands are run.

    Attributes:
        timeout_ms: how long a command may take that does not say it itself, in milliseconds.
        max_timeout_ms: the most that it may ask for, in milliseconds.
        max_output_bytes: how much of the end of each stream is kept in memory and shown.
        grace_ms: the time between SIGTERM and SIGKILL, in milliseconds.
        shell: the shell's name or path; None is ``bash``, or ``/bin/sh`` where there is none.
    """

    timeout_ms: float = field(default=120_000, validator=_positive)
    max_timeout_ms: float = field(default=600_000, validator=_positive)
    max_output_bytes: int = field(default=64_000, validator=_positive)
    grace_ms: float = field(default=3_000, validator=_positive)
    shell: str | None = None
