"""A conversation on lines: for pipes, dumb terminals and screen readers."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TextIO

import trio

from .cells import shown
from .paint import Look
from .screen import Cancel, Input, Leave, Line, Live

__all__ = ["PlainScreen"]

TWICE = 1.5
"""Seconds in which a second Ctrl-C means: leave."""
PROMPT = "> "
CALM = 0.1
"""Seconds without anything new after which the person is told that they may write."""


class PlainScreen:
    """Reads lines, and prints what is finished; nothing moves.

    A line that begins with ``>>`` is for the next turn; one that ends with a backslash goes on in the next;
    ``/cancel`` stops the turn.

    What does not come from a terminal is taken a line at a time: the next one when the last is done with.

    Attributes:
        settled: waits until nothing goes on.

    Args:
        out: where it prints.
        source: the descriptor it reads.
    """

    def __init__(self, look: Look, out: TextIO | None = None, source: int = 0) -> None:
        self.look = look
        self.unsent = ""
        self.settled: Callable[[], Awaitable[None]] | None = None
        self._out = out or sys.stdout
        self._source = source
        self._left = trio.Event()
        self._reading: trio.CancelScope | None = None
        self._free = trio.Event()
        self._free.set()
        self._rest = b""
        self._answer: trio.MemorySendChannel[str] | None = None
        self._told: Callable[[Input], None] = lambda said: None
        self._interrupted = -TWICE
        self._running = False
        self._prompted = False
        self._shown = 0
        self._may_prompt = trio.Event()
        self.interactive = _isatty(source)
        self._prompts = self.interactive and self._out.isatty()

    @property
    def running(self) -> bool:
        """Whether a turn goes on; where none does, a sign says that the person may write."""
        return self._running

    @running.setter
    def running(self, running: bool) -> None:
        self._running = running
        self._prompt()

    @property
    def columns(self) -> int:
        """Cells in a line, now."""
        return shutil.get_terminal_size().columns if self.interactive else self.look.width

    def show(self, text: str) -> None:
        """Print it."""
        if not text:
            return
        if self._prompted:
            self._prompted = False
            text = f"\n{text}"
        self._print(text if text.endswith("\n") else f"{text}\n")
        self._prompt()

    def _prompt(self) -> None:
        """Soon say that the person may write, unless more is shown until then."""
        self._shown += 1
        self._may_prompt.set()

    async def _prompting(self) -> None:
        while True:
            await self._may_prompt.wait()
            before = self._shown
            await trio.sleep(CALM)
            if before != self._shown:
                continue
            self._may_prompt = trio.Event()
            if self._prompts and not self._running and not self._prompted and self._free.is_set():
                self._prompted = True
                self._print(PROMPT)

    def _print(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads it
            self._out.write(text)
            self._out.flush()

    def live(self, parts: Live) -> None:
        """Nothing moves here."""

    def status(self, text: str) -> None:
        """Nothing stands here."""

    def bell(self, words: str = "") -> None:
        """Ring, on a terminal."""
        if self._prompts:
            self._print("\a")

    def put_back(self, text: str) -> None:
        """Say what was not sent."""
        self.show(f"not sent: {shown(text)}")

    def interrupt(self) -> None:
        """Ctrl-C: takes a list away, or cancels what runs; twice leaves, and so does one that has nothing to cancel."""
        if self._answer is not None:
            with suppress(trio.WouldBlock):
                self._answer.send_nowait("")
            return
        now = time.monotonic()
        if not self._running or now - self._interrupted < TWICE:
            self._told(Leave("interrupted"))
            return
        self._interrupted = now
        self._told(Cancel())

    @asynccontextmanager
    async def borrow(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Read nothing until the block ends."""
        self._free = trio.Event()
        if self._reading is not None:
            self._reading.cancel()
        if self._prompted:
            self._prompted = False
            self._print("\n")
        try:
            yield
        finally:
            self._free.set()
            self._prompt()

    async def choose(self, question: str, choices: Sequence[str]) -> int | None:
        """Print a numbered list; the next line is the answer."""
        width = len(str(len(choices)))
        lines = [f"{number:>{width}}  {shown(choice)}" for number, choice in enumerate(choices, 1)]
        self.show("\n".join([question, *lines, "Enter a number, or nothing for none."]))
        while True:
            self._answer, answers = trio.open_memory_channel[str](1)
            try:
                text = (await answers.receive()).strip()
            finally:
                self._answer = None
            if not text:
                return None
            if text.isdecimal() and 1 <= int(text) <= len(choices):
                return int(text) - 1
            self.show(f"a number from 1 to {len(choices)}, please, or nothing")

    async def run(self, told: Callable[[Input], None], started: Callable[[], None]) -> None:
        """Read lines until there are no more, or `leave` is called."""
        self._told = told
        started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, told)
            nursery.start_soon(self._prompting)
            await self._left.wait()
            nursery.cancel_scope.cancel()
        if self._prompted:
            self._print("\n")

    def leave(self) -> None:
        """Read no more."""
        self._left.set()

    async def line(self) -> str | None:
        """A line of input, without what ends it; None at the end.

        Cancelling keeps what was typed for the next one.
        """
        while b"\n" not in self._rest:
            data = await self._bytes()
            if data == b"":
                last, self._rest = self._rest, b""
                return last.decode("utf-8", "replace") if last else None
            self._rest += data or b""
        line, _, self._rest = self._rest.partition(b"\n")
        self._prompted = False
        return line.decode("utf-8", "replace").rstrip("\r")

    async def _read(self, told: Callable[[Input], None]) -> None:
        parts: list[str] = []
        while (line := await self.line()) is not None:
            if self._left.is_set():
                return  # what came before this line was the last thing to do
            if self._answer is not None:
                with suppress(trio.WouldBlock):
                    self._answer.send_nowait(line)
                continue
            if line.endswith("\\"):
                parts.append(line[:-1])
                continue
            text = "\n".join([*parts, line])
            parts.clear()
            if text.strip() == "/cancel":
                told(Cancel())
            elif text.strip():
                told(Line(text.removeprefix(">>"), text.startswith(">>")))
            if self.settled is not None and not self.interactive:
                await self.settled()
            self._prompt()
        if self.settled is not None and not self.interactive:
            await self.settled()  # what was asked for on the command line is done, too
        told(Leave("end of input"))

    async def _bytes(self) -> bytes | None:
        """What there is to read; nothing at the end, None if somebody else was to read in between."""
        await self._free.wait()
        with trio.CancelScope() as scope:
            self._reading = scope
            try:
                await trio.lowlevel.wait_readable(self._source)
            except OSError:  # a file: it never keeps anybody waiting
                await trio.lowlevel.checkpoint()
        self._reading = None
        if scope.cancelled_caught:
            return None
        try:
            return os.read(self._source, 65536)
        except OSError:
            return b""  # the terminal is gone


def _isatty(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
