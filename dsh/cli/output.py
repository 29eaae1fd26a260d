"""stdout: the answer, one document, or a record a line, and nothing else."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from attrs import define, field

from ..errors import DshError
from ..jsonvalue import dumps

__all__ = ["Output"]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@define
class Output:
    """Writes what a run came to.

    Attributes:
        format: ``text``, ``json`` or ``stream-json``.
        stream: the stdout of the process, which stays what it is when `sys.stdout` is turned elsewhere.
        on_closed: called once when the reader is gone.
        closed: the reader is gone; what is written is dropped.
    """

    format: str
    stream: TextIO | None = field(factory=lambda: sys.stdout)
    on_closed: Callable[[], None] | None = None
    closed: bool = field(default=False, init=False)

    @property
    def streams(self) -> bool:
        """Whether records are written as things happen."""
        return self.format == "stream-json"

    def record(self, value: Mapping[str, Any]) -> None:
        """Write a record of ``stream-json``."""
        self.line(dumps(value))

    def line(self, data: bytes) -> None:
        """Write a record that is encoded already.  Never raises because the reader is gone.

        Raises:
            DshError: stdout cannot be written for another reason, as when the disk is full.
        """
        if self.streams:
            self._write(data + b"\n")

    def finish(self, text: str, result: Mapping[str, Any]) -> None:
        """Write the answer, in the format's way.

        Raises:
            DshError: as `line`.
        """
        if self.closed or self.stream is None:
            return
        if self.format != "text":
            self._write(dumps(result) + b"\n")
        elif text:
            self._write(_encoded(text if text.endswith("\n") else f"{text}\n", self.stream))

    def _write(self, data: bytes) -> None:
        if self.closed or self.stream is None:
            return
        try:
            self.stream.buffer.write(data)
            self.stream.flush()
        except BrokenPipeError:
            self._give_up()
            if self.on_closed is not None:
                self.on_closed()
        except (OSError, ValueError) as error:
            self._give_up()
            reason = getattr(error, "strerror", None) or error
            raise DshError(f"cannot write to stdout: {reason}", code="STDOUT") from None

    def _give_up(self) -> None:
        """Send what is still buffered nowhere, or the interpreter would complain about it when it exits."""
        from . import _abandon_stdout

        self.closed = True
        _abandon_stdout(self.stream)


def _encoded(text: str, stream: TextIO) -> bytes:
    """UTF-8 for files and pipes; a terminal gets its own encoding, and no control sequences."""
    try:
        terminal = os.isatty(stream.fileno())
    except (OSError, ValueError):
        terminal = False
    if not terminal:
        return text.encode("utf-8", "replace")
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text).encode(stream.encoding or "utf-8", "replace")
