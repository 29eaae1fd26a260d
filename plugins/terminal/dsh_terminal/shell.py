"""``!command``: a command of the person's own, run as they would run it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio
from attrs import frozen

__all__ = ["Done", "run_program", "run_shell"]

SECONDS = 600.0
REST = 0.3
"""Seconds for the last of the output, once the command has ended."""
LIMIT = 1 << 20
"""Bytes of output that are kept."""


@frozen
class Done:
    """What a command came to."""

    code: int
    output: str


async def run_shell(command: str, cwd: Path) -> Done:
    """Run a command in the person's shell, as `run_program` does."""
    return await run_program([os.environ.get("SHELL") or "/bin/sh", "-c", command], cwd)


async def run_program(argv: Sequence[str], cwd: Path) -> Done:
    """Run a program, without input; one that cannot be started has the code 127.

    It runs in a process group of its own, which ends when it has ended, when it has taken too long, or when this is
    cancelled.
    """
    try:
        process = await trio.lowlevel.open_process(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Done(127, f"{argv[0]}: {error.strerror or error}")
    kept = bytearray()
    left_out = 0
    stream = process.stdout
    assert stream is not None

    async def read() -> None:
        nonlocal left_out
        async for data in stream:
            room = LIMIT - len(kept)
            kept.extend(data[:room])
            left_out += max(0, len(data) - room)
        nursery.cancel_scope.cancel()

    try:
        with trio.move_on_after(SECONDS):
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(read)
                await process.wait()
                # What it left in the background may hold the pipe for ever.
                await trio.sleep(REST)
                nursery.cancel_scope.cancel()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await process.wait()
    text = kept.decode("utf-8", "replace")
    if left_out:
        text += f"\n({left_out} more bytes)"
    return Done(process.returncode if process.returncode is not None else -1, text)
