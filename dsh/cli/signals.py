"""Ctrl-C and its relatives: once to stop in order, twice to stop at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import trio
from attrs import define

from ..terminal import leave_as_found

__all__ = ["Caught", "catching"]

_REASONS = {
    signal.SIGINT: "interrupted by the user",
    signal.SIGTERM: "terminated by a signal",
    signal.SIGHUP: "the terminal was closed",
}


@define
class Caught:
    """What arrived: the exit code of the first signal, None while there was none."""

    code: int | None = None


@contextmanager
def catching(stop: Callable[[str], None]) -> Iterator[Caught]:
    """Call `stop` in the Trio loop, with a reason, at the first signal; leave the program at the second.

    These are plain handlers, since a signal receiver of Trio would not hear the second signal
    while a plugin blocks the loop.  A hangup that is ignored (``nohup``) stays ignored.
    """
    caught = Caught()
    token = trio.lowlevel.current_trio_token()

    def handle(number: int, frame: FrameType | None) -> None:
        if caught.code is not None:
            _leave(caught.code)
        caught.code = 128 + number
        token.run_sync_soon(stop, _REASONS[signal.Signals(number)])

    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {number: signal.getsignal(number) for number in _REASONS}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        signal.signal(number, handle)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _leave(code: int) -> None:
    """End this process at once, and the children that lead process groups of their own with theirs."""
    leave_as_found()
    with suppress(OSError):
        for child in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
            with suppress(OSError):
                if os.getpgid(int(child)) == int(child):
                    os.killpg(int(child), signal.SIGKILL)
    os._exit(code)
