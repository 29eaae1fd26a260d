"""The task: from the command line, from stdin, or from both."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence

from ..errors import ConfigError

__all__ = ["read_prompt"]

PATIENCE = 3.0
"""Seconds that a pipe has to bring its first byte, where the task is already known without it."""


def read_prompt(words: Sequence[str], notice: Callable[[str], None]) -> str:
    """The words of the command line, then what stdin brings.

    A terminal is read only when asked with ``-``.  Many programs start others with a pipe as
    stdin that they never write to nor close; where there are words, such a pipe is not waited for.

    Raises:
        ConfigError: there is nothing to do.
    """
    said = " ".join(word for word in words if word != "-").strip()
    asked = "-" in words
    piped = _stdin(asked or not said, asked, notice)
    text = "\n\n".join(part for part in (said, piped.strip("\r\n")) if part.strip())
    if not text:
        raise ConfigError('there is no task: give it as an argument, as in dsh -p "task", or on stdin', code="USAGE")
    return text


def _stdin(needed: bool, asked: bool, notice: Callable[[str], None]) -> str:
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):
        return ""  # closed, or no file at all
    if os.isatty(descriptor) and not asked:
        return ""
    if not needed and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        if not ready:
            notice(f"nothing came from stdin in {PATIENCE:g} s; going on without it (`-` waits for it)")
            return ""
    try:
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            return stream.read().decode("utf-8-sig", "replace")
    except OSError as error:
        if needed:
            raise ConfigError(f"stdin cannot be read: {error.strerror or error}", code="USAGE") from None
        return ""
