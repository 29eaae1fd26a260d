"""Process groups, and the processes that left theirs.

A command leads a session and a group of its own.  A process that made itself another session is
found by a variable in its environment, where the system has ``/proc``.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Final

__all__ = ["MARK", "group_alive", "marked", "signal_group", "signal_marked"]

MARK: Final = "DSH_COMMAND_ID"
"""The variable that the processes of a child carry; its owner chooses the value, as ``<harness>.<owner>.<command>``."""

_PROC: Final = "/proc"


def signal_group(group: int, number: int) -> None:
    """Send a signal to a whole group.  Nothing happens where nobody is left, or may not be signalled."""
    if group <= 1:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def group_alive(group: int) -> bool:
    """Whether anything runs in a group whose leader was reaped.  Zombies do not count where ``/proc`` shows them."""
    if group <= 1:
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS answers so for a group of zombies, Linux for one of another user's processes.
        return _member_runs(group) is True
    if _exists(group):
        return False  # The number belongs to a new process, so the old group had ended before.
    return _member_runs(group) is not False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _member_runs(group: int) -> bool | None:
    """Whether a process of the group is no zombie; None if the system does not tell."""
    pids = _pids()
    if not pids:
        return None
    for pid in pids:
        try:
            with open(f"{_PROC}/{pid}/stat", "rb") as file:
                stat = file.read()
        except OSError:
            continue
        # The name of the program, in parentheses, may hold blanks and parentheses itself.
        state, _, pgrp = stat[stat.rfind(b")") + 2 :].split(None, 3)[:3]
        if int(pgrp) == group and state not in (b"Z", b"X"):
            return True
    return False


def _pids() -> list[str]:
    try:
        return [name for name in os.listdir(_PROC) if name.isdecimal()]
    except OSError:
        return []


def marked(prefix: str) -> list[int]:
    """The processes whose mark begins with `prefix`; none where there is no ``/proc``."""
    wanted = b"\0" + f"{MARK}={prefix}".encode()
    found = []
    for pid in _pids():
        try:
            with open(f"{_PROC}/{pid}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            continue
        if wanted in b"\0" + environ:
            found.append(int(pid))
    return found


def signal_marked(prefix: str, number: int = signal.SIGKILL) -> list[int]:
    """Send a signal to every process whose mark begins with `prefix`; returns those that there were."""
    pids = marked(prefix)
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return pids
