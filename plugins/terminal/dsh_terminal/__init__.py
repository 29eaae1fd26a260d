"""Conversations in the terminal: what the model writes scrolls by, and the line of input is always there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trio import TaskStatus

    from dsh import Harness
    from dsh.conversation import Conversation

    from .config import TerminalConfig
    from .screen import Screen
    from .talk import Talk

_configs: WeakKeyDictionary[Harness, TerminalConfig] = WeakKeyDictionary()


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[terminal]``."""
    from .config import TerminalConfig

    _configs[harness] = harness.config.section("terminal", TerminalConfig)


@hookimpl(trylast=True)
async def dsh_conversation(harness: Harness, conversation: Conversation) -> int:
    """Hold the conversation on the terminal, or on lines where there is none."""
    import trio

    from .talk import Talk

    screen = _screen(harness, conversation.cwd)
    talk = Talk(conversation, screen, _configs[harness])
    _bind(talk, screen)
    async with trio.open_nursery() as nursery:
        await nursery.start(_signals, talk)
        code = await talk.main()
        nursery.cancel_scope.cancel()
    for line in await talk.farewell():
        from .modes import say_last

        say_last(f"dsh: {line}")
    return code


@hookimpl(trylast=True)
async def person_choose(harness: Harness, question: str, choices: Sequence[str]) -> int | None:
    """Show a list at the terminal, if there is one."""
    import trio

    screen = _screen(harness, None)
    if not screen.interactive:
        return None
    if not screen.look.plain:
        chosen = await screen.choose(question, choices)
        return -1 if chosen is None else chosen
    from .plain import PlainScreen

    assert isinstance(screen, PlainScreen)
    chosen = -1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.run, lambda said: nursery.cancel_scope.cancel(), lambda: None)
        found = await screen.choose(question, choices)
        chosen = -1 if found is None else found
        nursery.cancel_scope.cancel()
    return chosen


async def _signals(talk: Talk, task_status: TaskStatus[None]) -> None:
    """Ctrl-C while the terminal is lent, and the wishes of others."""
    import signal

    import trio

    codes = {signal.SIGTERM: 143, signal.SIGHUP: 129}
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTSTP, *codes) as received:
        task_status.started()
        async for number in received:
            if number == signal.SIGINT:
                talk.screen.interrupt()
            elif number == signal.SIGTSTP:
                await talk.suspend()
            else:
                talk.leave("a signal ended dsh", codes[signal.Signals(number)])


def _screen(harness: Harness, cwd: Path | None) -> Screen:
    """The screen for a conversation in `cwd`, or for a question alone."""
    import os
    import shutil
    import sys

    from .paint import Look

    config = _configs[harness]
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    look = Look.of(os.environ, tty=tty and not config.plain, width=shutil.get_terminal_size().columns)
    if look.plain:
        from .plain import PlainScreen

        return PlainScreen(look)
    from .entry import history_file
    from .live import LiveScreen

    history = history_file(harness.home, str(cwd)) if config.history and cwd is not None else None
    return LiveScreen(look, history=history, mask=harness.secrets.mask_output, vi=config.vi)


def _bind(talk: Talk, screen: Screen) -> None:
    """Give a screen what it needs of the conversation."""
    from .plain import PlainScreen

    if isinstance(screen, PlainScreen):
        screen.settled = talk.settled
        return
    from .complete import Proposals
    from .live import LiveScreen

    if isinstance(screen, LiveScreen):
        book = talk.book
        screen.propose(Proposals(book.names, lambda name: book.values(talk, name), lambda: talk.conversation.cwd))
