"""A conversation on a terminal: what is finished scrolls by, below it what is being written, a line of input that never
goes away, and a line of status.

prompt_toolkit has an event loop of its own; it runs in a thread.  What it shows, and what it is told, crosses
over by calls that do not wait, in both directions.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.styles import Style

from dsh.terminal import restoring

from .above import Above
from .cells import fitted, shown
from .chooser import Chooser
from .editor import Editor
from .entry import Entry
from .keys import keys_of
from .modes import restore_modes, switching_fast
from .paint import Look
from .ports import keyboard, window
from .screen import Cancel, Input, Leave, Line, Live
from .strays import Strays
from .unseen import Unseen
from .writer import FRAME, Writer

__all__ = ["LiveScreen"]

TWICE = 1.5
"""Seconds in which a second Ctrl-C means: leave."""
PAUSE = 0.8
"""Seconds without a key after which a question takes the keys of who was typing."""

COLOURS = {
    "bottom-toolbar": "noreverse",
    "bottom-toolbar.text": "ansibrightblack",
    "faint": "ansibrightblack",
    "call": "ansicyan",
}
NO_COLOURS = {"bottom-toolbar": "noreverse"}


class LiveScreen:
    """See the module.

    Args:
        history: the file that keeps what was entered; None keeps nothing.
        mask: takes secrets out of what is kept.
        vi: vi's keys in place of emacs'.

    Attributes:
        entry: the line of input.
        unsent: what stood in it at the end.
    """

    interactive = True

    def __init__(
        self, look: Look, *, history: Path | None = None, mask: Callable[[str], str] = str, vi: bool = False
    ) -> None:
        self.look = look
        self.entry = Entry(history, mask)
        self.unsent = ""
        self._running = False
        self._completer: Completer | None = None
        self._vi = vi
        self._writer = Writer()
        self._above = Above()
        self._editor = Editor()
        self._live: Live = ()
        self._status = ""
        self._hint = ""
        self._interrupted = 0.0
        self._told: Callable[[Input], None] = lambda said: None
        self._started: Callable[[], None] = lambda: None
        self._token: trio.lowlevel.TrioToken | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: PromptSession[str] | None = None
        self._leaving = False
        self._drawing = False
        self._failure: BaseException | None = None
        self._strays = Strays(self.show)

    def propose(self, completer: Completer) -> None:
        """Take proposals from `completer`; before `run`."""
        self._completer = completer

    # -- in Trio's thread

    @property
    def running(self) -> bool:
        """Whether a turn goes on."""
        return self._running

    @running.setter
    def running(self, running: bool) -> None:
        self._running = running
        self._redraw_soon()

    @property
    def columns(self) -> int:
        """Cells in a line, now."""
        try:
            return os.get_terminal_size(sys.__stdout__.fileno()).columns or self.look.width  # type: ignore[union-attr]
        except (OSError, ValueError, AttributeError):
            return self.look.width

    def show(self, text: str) -> None:
        """Write it above the line of input."""
        if text:
            self._writer.add(text)
            self._call(self._write_soon)

    def live(self, parts: Live) -> None:
        """Write it directly above the line of input, its last lines where it is long."""
        if parts != self._live:
            self._live = parts
            self._redraw_soon()

    def status(self, text: str) -> None:
        """Write it below the line of input."""
        if text != self._status:
            self._status = text
            self._redraw_soon()

    def bell(self, words: str = "") -> None:
        """Ring, and notify."""
        plain = shown(words).replace("\n", " ")
        self._writer.add(f"\x1b]9;{plain}\x1b\\\a" if words else "\a")
        self._call(self._write_soon)

    def put_back(self, text: str) -> None:
        """Into the line, before what stands there."""
        self._call(lambda: self.entry.put_back(text))

    def interrupt(self) -> None:
        """As if Ctrl-C was pressed."""
        self._call(self.interrupted)

    @asynccontextmanager
    async def borrow(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Take the line of input away until the block ends; what is shown meanwhile waits."""
        if patient:
            await self._until_paused()
        loop, token = self._loop, self._token
        if loop is None or token is None or self._session is None:
            yield
            return
        entered, done, release = trio.Event(), trio.Event(), asyncio.Event()

        async def hold() -> None:
            try:
                async with in_terminal():
                    self._writer.rest()  # what was said before stands before what is asked
                    self._tell_trio(token, entered.set)
                    await release.wait()
                self._take_over_keys()
            finally:
                self._tell_trio(token, entered.set)
                self._tell_trio(token, done.set)

        held = False
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lambda: asyncio.ensure_future(hold()))
            held = True
        if not held:
            yield
            return
        try:
            await entered.wait()
            with self._strays.lent():
                yield
        finally:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(release.set)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2):
                await done.wait()

    def _take_over_keys(self) -> None:
        """Keys that were pressed as a list went away are meant for the line."""
        if self._session is not None:
            keys = self._session.app.key_processor
            keys.feed_multiple(get_typeahead(self._session.app.input))
            keys.process_keys()

    async def _until_paused(self) -> None:
        """Wait until the person has not typed for a moment: their next key is meant for the line.

        There is no deadline, as they see that something waits for them.
        """
        try:
            while self._loop is not None and (seconds := self.entry.rest(PAUSE)):
                self._hint = "a question waits until you stop typing"
                self._redraw_soon()
                await trio.sleep(seconds)
        finally:
            self._hint = ""
            self._redraw_soon()

    async def choose(self, question: str, choices: Sequence[str]) -> int | None:
        """Show a list to choose from with the arrow keys."""
        async with self.borrow():
            return await Chooser(question, choices, colour=self.look.colour).run()

    async def run(self, told: Callable[[Input], None], started: Callable[[], None]) -> None:
        """Run prompt_toolkit in a thread until the person leaves."""
        self._told, self._started = told, started
        self._token = trio.lowlevel.current_trio_token()
        try:
            with restoring(restore_modes()), switching_fast():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._until_cancelled)
                    with self._strays.caught():
                        await trio.to_thread.run_sync(self._thread)
                    nursery.cancel_scope.cancel()
        finally:
            self._token = None
            self._writer.rest()

    async def _until_cancelled(self) -> None:
        """A thread cannot be cancelled: it is told to end."""
        try:
            await trio.sleep_forever()
        finally:
            self.leave()

    def leave(self) -> None:
        """End the input."""
        self._leaving = True
        self._call(self._exit)

    def _call(self, function: Callable[[], object]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(function)

    def _redraw_soon(self) -> None:
        if not self._drawing and self._loop is not None:
            self._drawing = True
            self._call(self._redraw_later)

    # -- in the thread of prompt_toolkit

    def _thread(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            self._loop = None
            self._writer.rest()
        if self._failure is not None:
            raise self._failure

    async def _main(self) -> None:
        session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            history=self.entry.history(),
            completer=self._completer,
            complete_while_typing=True,
            complete_in_thread=True,
            enable_history_search=False,
            enable_open_in_editor=True,
            key_bindings=keys_of(self),
            bottom_toolbar=self._toolbar,
            prompt_continuation=lambda width, number, wrap: "  ",
            editing_mode=EditingMode.VI if self._vi else EditingMode.EMACS,
            erase_when_done=True,
            style=Style.from_dict(COLOURS if self.look.colour else NO_COLOURS),
            reserve_space_for_menu=6,
            input_processors=[Unseen()],
            input=keyboard(),
            output=window(),
        )
        session.app.ttimeoutlen = 0.05  # so that Esc acts at once
        session.app.timeoutlen = 0.1
        self._session = session
        self.entry.use(session.default_buffer)
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._failed)
        token = self._token
        if token is not None:
            token.run_sync_soon(self._started)
        self._write_soon()
        try:
            if not self._leaving:
                await session.prompt_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, KeyboardInterrupt):
            self.tell(Leave("end of input"))
        except OSError:
            self.tell(Leave("the terminal is gone"))
        finally:
            self.unsent = self.entry.drop()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something failed behind prompt_toolkit's back, as drawing on a terminal that is gone."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self.tell(Leave("the terminal is gone"))
        elif error is not None:
            self._failure = self._failure or error
            self._exit()

    def tell(self, said: Input) -> None:
        """Tell whoever holds the conversation."""
        token = self._token
        if token is not None:
            self._tell_trio(token, self._told, said)

    @staticmethod
    def _tell_trio(token: trio.lowlevel.TrioToken, function: Callable[..., object], *args: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(function, *args)

    def _redraw_later(self) -> None:
        # prompt_toolkit's own limit goes by the time of day, which may be set back
        if self._loop is not None:
            self._loop.call_later(FRAME, self._redraw)

    def _redraw(self) -> None:
        self._drawing = False
        if self._session is not None:
            self._session.app.invalidate()

    def _exit(self) -> None:
        session = self._session
        if session is not None and session.app.is_running:
            self._editor.stop()
            with suppress(Exception):  # it is ending already
                session.app.exit(result="")

    def _write_soon(self) -> None:
        self._writer.soon(self._loop, self._session.app if self._session is not None else None)

    # -- what it looks like

    def _message(self) -> Any:
        if self._session is None:
            return "> "
        size = self._session.app.output.get_size()
        lines = self._above.lines(self._live, size.columns, size.rows)
        faint = "class:faint" if self.running else ""
        return [*lines, (faint, "… " if self.running else "> ")]

    def _toolbar(self) -> Any:
        return fitted(self._hint or self._status, max(20, self.columns) - 1)

    # -- what keys do

    def interrupted(self) -> None:
        """Ctrl-C: once cancels what runs, or empties the line; twice leaves."""
        now = time.monotonic()
        if now - self._interrupted < TWICE:
            self.tell(Leave("interrupted"))
            return
        self._interrupted = now
        if self.running:
            self.tell(Cancel())
        else:
            self.entry.drop()
        self._hint = "Ctrl-C again leaves"
        self._redraw()
        if self._loop is not None:
            self._loop.call_later(TWICE, self._unhint)

    def _unhint(self) -> None:
        self._hint = ""
        self._redraw()

    def edit(self) -> None:
        """Open the line in the person's editor."""
        if self._session is not None:
            self._session.app.create_background_task(self._editor.edit(self.entry, self.show))

    def entered(self, *, queued: bool) -> None:
        """Enter, or Tab."""
        text = self.entry.take()
        if text.strip():
            self.tell(Line(text, queued))
