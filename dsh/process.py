"""The description of a child process, as plugins hand it to ``process_prepare``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from attrs import field, frozen

__all__ = ["Process", "scrubbed_environment"]

_CREDENTIAL = re.compile("KEY|SECRET|TOKEN", re.IGNORECASE)


def _strings(argv: Iterable[str]) -> tuple[str, ...]:
    return tuple(argv)


@frozen
class Process:
    """A child process that is about to start.

    Attributes:
        argv: the program and its arguments; no shell is added.
        env: its whole environment.
        cwd: its working directory, absolute.
        purpose: what starts it, for people: ``bash``, ``local model``.
    """

    argv: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str]
    cwd: str
    purpose: str = ""


def scrubbed_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environ` (default: this process's) without the variables whose name holds KEY, SECRET or TOKEN."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if not _CREDENTIAL.search(name)}
