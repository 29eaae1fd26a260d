"""The table ``[shell]`` of the configuration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from attrs import Attribute, field, frozen

if TYPE_CHECKING:
    from dsh_shell.window import Limits

__all__ = ["ShellConfig"]


def _positive(instance: object, attribute: Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{attribute.name} must be a positive, finite number, not {value!r}")


def _enough(instance: object, attribute: Attribute[Any], value: object) -> None:
    _positive(instance, attribute, value)
    if isinstance(value, int | float) and value < LEAST:
        raise ValueError(f"{attribute.name} must be {LEAST} or more, not {value!r}")


LEAST = 1000
"""Bytes in which a beginning, an end, and words about the rest have room."""


@frozen
class ShellConfig:
    """How commands are run.

    Attributes:
        timeout_ms: how long a command may take that does not say it itself, in milliseconds.
        max_timeout_ms: the most that it may ask for, in milliseconds.
        max_output_bytes, max_output_lines: what prints more than that is shown in part, and kept in a file.
        head_bytes, tail_bytes: how much of the beginning and the end of each stream is shown then, a quarter of
            `max_output_bytes` at most.
        max_file_bytes: how much of a stream is kept in a file.
        grace_ms: the time between SIGTERM and SIGKILL, in milliseconds.
        shell: the shell's name or path; None is ``bash``, or ``/bin/sh`` where there is none.
    """

    timeout_ms: float = field(default=120_000, validator=_positive)
    max_timeout_ms: float = field(default=600_000, validator=_positive)
    max_output_bytes: int = field(default=50 * 1024, validator=_enough)
    max_output_lines: int = field(default=2000, validator=_positive)
    head_bytes: int = field(default=8 * 1024, validator=_positive)
    tail_bytes: int = field(default=12 * 1024, validator=_positive)
    max_file_bytes: int = field(default=100_000_000, validator=_positive)
    grace_ms: float = field(default=3_000, validator=_positive)
    shell: str | None = None

    @property
    def limits(self) -> Limits:
        """What is shown of an output."""
        from dsh_shell.window import Limits

        return Limits(
            size=int(self.max_output_bytes),
            lines=int(self.max_output_lines),
            head=int(self.head_bytes),
            tail=int(self.tail_bytes),
        )
