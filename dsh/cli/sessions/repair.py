"""``dsh sessions repair``: close what a crash left open, and say what that took."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...errors import SessionError, SessionNotFound
from ...session import events as ev
from ...session.fork import lines_of
from ...session.lines import parse_log
from ..progress import one_line
from ..start import Start, opened
from ..stored import find, plugins_aside

if TYPE_CHECKING:
    from ...harness import Harness
    from ...session.store import StoredSession

__all__ = ["BACKUP", "run"]

BACKUP = ".before-repair"
"""What is put behind the name of a file for the copy of it."""


async def run(args: argparse.Namespace, start: Start) -> int:
    """Repair a session as opening it does.  Where bytes are dropped the file's copy stays beside it."""
    async with opened(start) as harness:
        info = await find(harness, args.target)
        with plugins_aside():
            before: StoredSession | None = await harness.hook.session_read(session_id=info.id)
        if before is None:
            await _open(harness, info.id)
            print(f"{info.id}: repaired, if there was anything to repair; its store does not tell")
            return 0
        text = b"\n".join((harness.codec.encode_header(before.header), *lines_of(before, harness.codec), b""))
        parsed = parse_log(text, harness.codec, info.path or f"session {info.id}")
        kept, dropped = len(parsed.events), len(text) - parsed.size + before.rest
        line_count = text[: parsed.size].count(b"\n")
        copy = None
        if dropped and info.path is not None:
            copy = await trio.to_thread.run_sync(_copy, Path(info.path))
        try:
            after = await _open(harness, info.id)
        except BaseException:
            if copy is not None:
                copy.unlink(missing_ok=True)
            raise
        closers = after.events[kept:]
    if not dropped and not closers:
        print(f"{info.id}: nothing to repair")
        return 0
    print(f"{info.id}: repaired")
    if dropped:
        print(f"  cut off: {dropped} bytes from line {line_count + 1} on, which were never completely written")
    for text_ in _described(closers):
        print(f"  added: {text_}")
    if copy is not None:
        print(f"  as it was: {copy}")
    return 0


async def _open(harness: Harness, session_id: str) -> StoredSession:
    with plugins_aside():
        stored = await harness.hook.session_open(session_id=session_id)
    if stored is None:
        raise SessionNotFound(f"the session {session_id} is gone")
    return stored


def _copy(path: Path) -> Path:
    """Copy a file beside itself, under a name that is not taken."""
    number = 1
    while True:
        copy = path.with_name(f"{path.name}{BACKUP}{'' if number == 1 else f'-{number}'}")
        try:
            fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise SessionError(f"cannot write a copy of the session to {copy}: {error.strerror}") from error
        try:
            with open(fd, "wb") as target, open(path, "rb") as source:
                shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
        except OSError as error:
            copy.unlink(missing_ok=True)
            raise SessionError(f"cannot write a copy of the session to {copy}: {error.strerror}") from error
        return copy


def _described(closers: Sequence[ev.Event]) -> list[str]:
    found = []
    for event in closers:
        data = event.data
        if isinstance(data, ev.ToolResult):
            code = data.error.code if data.error is not None else "an error"
            found.append(f"a result of the call {one_line(data.call_id)}: {code}")
        elif isinstance(data, ev.StepEnd):
            found.append(f"the end of step {data.step}")
        elif isinstance(data, ev.TurnEnd):
            found.append(f"the end of turn {data.turn}: {data.reason.kind}")
        else:
            found.append(event.type)
    return found
