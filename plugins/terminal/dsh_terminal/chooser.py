"""A list to choose from: arrow keys, or letters that narrow it; Enter takes one, Esc none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import trio
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.containers import Window
from prompt_toolkit.layout.controls import FormattedTextControl

from .cells import fitted, shown
from .ports import window

__all__ = ["Chooser"]

LINES = 12


class Chooser:
    """One choice.

    Args:
        choices: the things, a line each.
    """

    def __init__(self, question: str, choices: Sequence[str], *, colour: bool = True) -> None:
        self._question = question
        self._choices = [shown(choice) for choice in choices]
        self._colour = colour
        self._wanted = ""
        self._at = 0
        self._app: Application[int | None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gone = False

    async def run(self) -> int | None:
        """Let the person choose; the index, or None for none.  Cancelling takes the list away."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_cancelled)
            chosen = await trio.to_thread.run_sync(self._thread)
            nursery.cancel_scope.cancel()
        return chosen

    async def _until_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._gone = True
            if self._loop is not None:
                with suppress(RuntimeError):  # it has ended
                    self._loop.call_soon_threadsafe(self._exit)

    # -- in the thread

    def _thread(self) -> int | None:
        try:
            # a session of its own: the one of the conversation has another loop
            with create_app_session():
                return asyncio.run(self._main())
        except (EOFError, KeyboardInterrupt, OSError):
            return None

    async def _main(self) -> int | None:
        self._loop = asyncio.get_running_loop()
        self._app = Application(
            layout=Layout(Window(FormattedTextControl(self._text, focusable=True), wrap_lines=False)),
            key_bindings=self._keys(),
            erase_when_done=True,
            output=window(),
        )
        self._app.ttimeoutlen = 0.05
        if self._gone:
            return None
        return await self._app.run_async(handle_sigint=False, set_exception_handler=False)

    def _exit(self) -> None:
        if self._app is not None and self._app.is_running:
            with suppress(Exception):  # it is ending already
                self._app.exit(result=None)

    def _found(self) -> list[int]:
        words = self._wanted.lower().split()
        return [n for n, choice in enumerate(self._choices) if all(word in choice.lower() for word in words)]

    def _text(self) -> Any:
        size = self._app.output.get_size() if self._app is not None else None
        width = (size.columns if size is not None else 80) - 1
        room = max(3, min(LINES, (size.rows if size is not None else 24) - 3))
        found = self._found()
        self._at = max(0, min(self._at, len(found) - 1))
        first = max(0, min(self._at - room // 2, len(found) - room))
        head = f"{self._question} {self._wanted}" if self._wanted else f"{self._question} (arrows, letters; Esc: none)"
        lines: list[tuple[str, str]] = [("bold" if self._colour else "", fitted(head, width) + "\n")]
        for place in range(first, min(first + room, len(found))):
            mark = "> " if place == self._at else "  "
            style = "reverse" if place == self._at and self._colour else ""
            lines.append((style, fitted(mark + self._choices[found[place]], width) + "\n"))
        if len(found) > room:
            lines.append(("", f"  {self._at + 1} of {len(found)}\n"))
        if not found:
            lines.append(("", "  none of them\n"))
        return lines

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def moves(by: int) -> Any:
            def move(event: KeyPressEvent) -> None:
                self._at = max(0, min(self._at + by, len(self._found()) - 1))

            return move

        for names, by in ((("up", "c-p"), -1), (("down", "c-n", "tab"), 1), (("pageup",), -10), (("pagedown",), 10)):
            for name in names:
                keys.add(name)(moves(by))

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            found = self._found()
            if found:
                event.app.exit(result=found[self._at])

        @keys.add("escape", eager=True)
        @keys.add("c-c")
        @keys.add("c-d")
        def _(event: KeyPressEvent) -> None:
            event.app.exit(result=None)

        @keys.add("backspace")
        def _(event: KeyPressEvent) -> None:
            self._wanted, self._at = self._wanted[:-1], 0

        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                self._wanted, self._at = self._wanted + event.data, 0

        return keys
