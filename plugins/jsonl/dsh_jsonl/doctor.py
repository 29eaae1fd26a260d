"""What ``dsh doctor`` says of the sessions' files: cheaply, so only the ends of each are looked at."""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio

from dsh import CorruptSession
from dsh.checks import Checks, may_write
from dsh.session import SessionQuery
from dsh.session.codec import Codec

from .listing import LONGEST_HEADER, candidates

__all__ = ["check"]

ORDER = 35
SETTLED = 10.0
"""Seconds since the last write, after which nobody is in the middle of a line."""


async def check(root: Path, codec: Codec, checks: Checks) -> None:
    """Say whether sessions can be written, how many there are, and which are damaged at their beginning or end."""
    if not may_write(root):
        advice = "mend the folder's rights, or set [jsonl] root to another one"
        checks.error("sessions", f"{root} cannot be written, so no session can be stored", advice, order=ORDER)
        return
    try:
        count, size, damaged, cut = await trio.to_thread.run_sync(_look, root, codec, abandon_on_cancel=True)
    except OSError as error:
        checks.error("sessions", f"{root} cannot be read: {error.strerror}", "mend the folder's rights", order=ORDER)
        return
    checks.ok("sessions", f"{count} in {root}, {size / (1 << 20):.1f} MiB", order=ORDER)
    if damaged:
        text = f"{_named(damaged)} cannot be read at all"
        checks.warning("sessions", text, "look at them, or delete them: they are not in `dsh sessions`", order=ORDER)
    if cut:
        text = f"{_named(cut)} end within a line, as after a crash"
        checks.note("sessions", text, "going on with one mends it, and so does `dsh sessions repair ID`", order=ORDER)


def _named(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _look(root: Path, codec: Codec) -> tuple[int, int, list[str], list[str]]:
    """How many files there are, how large together, which hold no session, and which end within a line."""
    count, total = 0, 0
    damaged: list[str] = []
    cut: list[str] = []
    for written, path, size in candidates(root, SessionQuery()):
        count, total = count + 1, total + size
        try:
            with open(path, "rb") as stream:
                codec.decode_header(stream.readline(LONGEST_HEADER))
                stream.seek(-1, os.SEEK_END)
                whole = stream.read(1) == b"\n"
        except (OSError, CorruptSession):
            damaged.append(path)
            continue
        if not whole and time.time() - written / 1e9 > SETTLED:
            cut.append(path)
    return count, total, damaged, cut
