"""The line of input in the person's editor: ``$VISUAL``, ``$EDITOR``, or one that there is."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import in_terminal

from .cells import shown
from .entry import Entry

__all__ = ["Editor"]

COMMON = ("editor", "nano", "vi", "emacs")
SECONDS = 2.0
"""Seconds that an editor has to end once it is told to."""


class Editor:
    """Runs an editor on the terminal; in the thread of prompt_toolkit."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    async def edit(self, entry: Entry, show: Callable[[str], None]) -> None:
        """Let the person edit the line; it stays as it was where there is no editor, or it ends badly."""
        try:
            entry.replace(await self._edited(entry.whole()))
        except OSError as error:
            show(f"{shown(str(error))}\n")

    async def _edited(self, text: str) -> str:
        with tempfile.TemporaryDirectory(prefix="dsh-") as folder:
            file = Path(folder) / "prompt.md"
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            async with in_terminal():
                process = self._start(file)
                try:
                    code = await asyncio.get_running_loop().run_in_executor(None, process.wait)
                finally:
                    self._process = None
            return text if code else file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")

    def _start(self, file: Path) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen([*_command(), str(file)], stderr=_terminal())
        return self._process

    def stop(self) -> None:
        """End the editor that runs, if one does."""
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _command() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        with suppress(ValueError):
            words = shlex.split(os.environ.get(name, ""))
            if words and shutil.which(words[0]):
                return words
    found = next((path for path in map(shutil.which, COMMON) if path is not None), None)
    if found is None:
        raise FileNotFoundError("there is no editor: set EDITOR")
    return [found]


def _terminal() -> int | None:
    """For its stderr, as ours is caught: what its stdout is."""
    return 1 if os.isatty(1) else None
