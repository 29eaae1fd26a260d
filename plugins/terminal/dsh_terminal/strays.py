"""What plugins print while the terminal is drawn on: it is shown above the line of input, not in the middle of it."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

from .cells import shown

__all__ = ["Strays"]

STDERR = 2


class _Stray(io.TextIOBase):
    """A stream whose lines are shown."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._rest = ""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Show whole lines, without what steers the terminal."""
        *lines, self._rest = (self._rest + text).split("\n")
        if lines:
            self._show("".join(f"{shown(line)}\n" for line in lines))
        return len(text)

    def rest(self) -> None:
        """Show what was printed without the end of a line."""
        if self._rest:
            self.write("\n")


class Strays:
    """Catches what is written to Python's streams, and to the descriptor of stderr, which loggers and children have.

    Args:
        show: called with whole lines; in any thread.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._stream = _Stray(show)
        self._below = _Stray(show)
        self._saved: int | None = None
        self._writer: int | None = None

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch it until the block ends."""
        reader = self._catch_descriptor()
        try:
            with redirect_stdout(self._stream), redirect_stderr(self._stream):
                yield
        finally:
            self._stream.rest()
            self._release(reader)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let everything through until the block ends: somebody talks with the person."""
        if self._saved is None or self._writer is None:
            yield
            return
        os.dup2(self._saved, STDERR)
        try:
            with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
                yield
        finally:
            if self._writer is not None:
                os.dup2(self._writer, STDERR)

    def _catch_descriptor(self) -> threading.Thread | None:
        try:
            if not os.isatty(STDERR):
                return None  # it goes elsewhere anyway
            self._saved = os.dup(STDERR)
            source, self._writer = os.pipe()
            os.dup2(self._writer, STDERR)
        except OSError:
            return None
        reader = threading.Thread(target=self._read, args=(source,), name="dsh stray output", daemon=True)
        reader.start()
        return reader

    def _read(self, source: int) -> None:
        # a thread, so that whoever fills the pipe in Trio's thread is not waited for by it
        with open(source, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._below.write(line)
        self._below.rest()

    def _release(self, reader: threading.Thread | None) -> None:
        if self._saved is None or self._writer is None or reader is None:
            return
        with suppress(OSError):
            os.dup2(self._saved, STDERR)
        os.close(self._saved)
        os.close(self._writer)
        self._saved = self._writer = None
        reader.join(0.5)  # a child that was left behind may hold the pipe
