"""The approver at the terminal: asks whoever sits there, one question at a time."""

from __future__ import annotations

import os
import termios
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from dsh import hookimpl
from dsh.approval import AllowOnce, AllowProject, AllowSession, Answer, Refuse
from dsh.terminal import TTY, restoring, visible

from .project import CannotWrite, plan
from .question import body, choices, flowed

if TYPE_CHECKING:
    from dsh import Agent, Harness
    from dsh.approval import PermissionRequest

    from .guard import Guard

__all__ = ["PERSON", "TerminalApprover"]

PERSON = "person"
USUAL, NARROWEST = 80, 20
"""Cells in a line: where the terminal does not say, and the fewest that are reckoned with."""


class TerminalApprover:
    """Answers for the person at this process's terminal."""

    def __init__(self, harness: Harness, guard: Guard) -> None:
        self._harness = harness
        self._guard = guard
        self._turn = trio.Lock()

    @hookimpl(trylast=True)
    async def permission_ask(self, agent: Agent, request: PermissionRequest) -> Answer | None:
        """Ask the person.  Cancelling takes the question back and leaves the terminal as it was."""
        async with self._turn:
            if self._is_settled(request):
                return AllowOnce(PERSON)
            # a conversation that is held on the terminal makes room for the question
            async with await agent.hook.terminal_borrow(agent=agent, default=nullcontext):
                try:
                    tty = Tty()
                except (OSError, termios.error):
                    return None  # the terminal is gone
                with restoring(tty.close):
                    try:
                        return await self._ask(tty, request)
                    except (OSError, EOFError, termios.error):
                        return None

    def _is_settled(self, request: PermissionRequest) -> bool:
        """Whether an answer that was given while this question waited its turn settles it, too."""
        if request.verdict is None:
            return False
        verdict = self._guard.judge(request.agent, request.call)
        return verdict is not None and verdict.kind == "allow"

    async def _ask(self, tty: Tty, request: PermissionRequest) -> Answer | None:
        await self._put(tty, request)
        always = bool(request.rules) or request.verdict is None
        keys = f"y{'a' if always else ''}{'p' if request.rules else ''}ne"
        while True:
            match await tty.key(f"[{'/'.join(keys)}] "):
                case "y":
                    return AllowOnce(PERSON)
                case "a" if always:
                    return AllowSession(request.rules, PERSON)
                case "p" if request.rules:
                    if await self._confirmed(tty, request):
                        return AllowProject(request.rules, PERSON)
                case "n":
                    return Refuse(None, PERSON)
                case "e":
                    return Refuse(await tty.line("  reason: ") or None, PERSON)
                case "v":
                    await self._put(tty, request, whole=True)
                case _:
                    await tty.write([f"  press one of {', '.join(keys)}; v shows all of a long call"])

    async def _put(self, tty: Tty, request: PermissionRequest, *, whole: bool = False) -> None:
        width = tty.width
        lines = body(request, width=width, colour=tty.colour, whole=whole)
        await tty.write([*lines, *choices(request, width=width)])

    async def _confirmed(self, tty: Tty, request: PermissionRequest) -> bool:
        """Show what will be written where, and ask for a yes."""
        cwd = Path(request.agent.session.header.cwd or os.getcwd())
        try:
            planned = await trio.to_thread.run_sync(plan, request.rules, cwd, self._harness.home)
        except CannotWrite as error:
            await tty.write(flowed(f"  that cannot be: {visible(str(error), keep='')}", tty.width))
            return False
        note = f" ({planned.note})" if planned.note else ""
        lines = [f"  {visible(str(planned.path), keep='')}{visible(note, keep='')} will allow, from now on:"]
        lines += [f"    {visible(rule, keep='')}" for rule in request.rules]
        await tty.write([piece for line in lines for piece in flowed(line, tty.width)])
        return await tty.key("  write that? [y/n] ") == "y"


class Tty:
    """The terminal, read a key or a line at a time without keeping anybody else waiting.

    Raises:
        OSError: there is none, or not any more; so do its methods.
    """

    def __init__(self) -> None:
        # opened anew, so that not waiting for it concerns nobody else who has it open
        self._file = os.open(TTY, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._before = termios.tcgetattr(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self._is_open_line = False

    @property
    def width(self) -> int:
        """Cells in a line, now; as many as is usual where the terminal does not say."""
        try:
            columns = os.get_terminal_size(self._file).columns
        except OSError:
            columns = 0
        return max(NARROWEST, columns or USUAL)

    @property
    def colour(self) -> bool:
        """Whether colours are understood and wanted; ``NO_COLOR`` is of no-color.org."""
        known = os.isatty(self._file) and os.environ.get("TERM", "") not in ("", "dumb")
        return known and not os.environ.get("NO_COLOR")

    def close(self) -> None:
        """Leave the terminal as it was found."""
        with suppress(OSError, termios.error):
            termios.tcsetattr(self._file, termios.TCSANOW, self._before)
        if self._is_open_line:
            with suppress(OSError):
                os.write(self._file, b"\n")
        os.close(self._file)

    async def write(self, lines: list[str]) -> None:
        """Print lines."""
        await self._put("".join(f"{line}\n" for line in lines))

    async def key(self, prompt: str) -> str:
        """The next key that is pressed, in lower case; what was typed before the prompt does not count.

        Raises:
            EOFError: nobody will press one.
        """
        self._mode(cooked=False)
        await self._put(prompt)
        self._is_open_line = True
        while True:
            typed = (await self._get()).decode("utf-8", "replace").strip("\r\n\t ")
            if typed:
                break
        key = "" if typed.startswith("\x1b") else typed[:1].lower()
        self._is_open_line = False
        await self._put(f"{visible(typed[:1], keep='') if key else ''}\n")
        return "n" if key == "\x04" else key

    async def line(self, prompt: str) -> str:
        """A line that is typed, with the terminal's own editing."""
        self._mode(cooked=True)
        await self._put(prompt)
        self._is_open_line = True
        line = b""
        while not line.endswith(b"\n"):
            piece = await self._get(may_end=True)
            if not piece:
                break
            line += piece
        self._is_open_line = False
        return " ".join(line.decode("utf-8", "replace").split())

    def _mode(self, *, cooked: bool) -> None:
        """Lines with echo, or keys without; Ctrl-C stays what it is.  What is typed ahead is dropped."""
        mode = termios.tcgetattr(self._file)
        wanted = termios.ICANON | termios.ECHO
        mode[0] |= termios.ICRNL
        mode[3] = mode[3] | wanted | termios.ISIG if cooked else (mode[3] | termios.ISIG) & ~wanted
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        if cooked:
            for index in (termios.VMIN, termios.VTIME):
                mode[6][index] = self._before[6][index]
        termios.tcsetattr(self._file, termios.TCSANOW, mode)
        termios.tcflush(self._file, termios.TCIFLUSH)

    async def _get(self, *, may_end: bool = False) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._file)
            with suppress(BlockingIOError):
                read = os.read(self._file, 1024)
                if not read and not may_end:
                    raise EOFError
                return read

    async def _put(self, text: str) -> None:
        left = text.encode("utf-8", "replace")
        while left:
            try:
                left = left[os.write(self._file, left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._file)
