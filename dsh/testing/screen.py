"""A pseudo-terminal that a test sits at, for programs that ask a person."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

__all__ = ["Screen"]

PATIENCE = 60.0
LEADER = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


@define
class Screen:
    """A program at a terminal: what it shows, and what is typed.

    Attributes:
        started: as `Popen` has it; its stdout is a pipe.
        before: how the terminal was set when it started.
        shown: everything that it wrote to the terminal so far.
    """

    started: subprocess.Popen[str]
    before: object
    _master: int
    _slave: int
    shown: str = ""
    _seen: int = field(default=0)

    @classmethod
    @contextmanager
    def of(cls, words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Iterator[Screen]:
        """Run a program whose terminal this is, as its stdin and stderr, too; kill it in the end if it still runs."""
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        started = subprocess.Popen(
            [sys.executable, "-c", LEADER, *words],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            cwd=cwd,
            env=env,
            text=True,
            start_new_session=True,
        )
        screen = cls(started, before, master, slave)
        try:
            yield screen
        finally:
            screen.close()

    def until(self, text: str) -> str:
        """Wait until `text` is shown, behind what was waited for before; what was shown up to its end."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < deadline, f"waited in vain for {text!r}:\n{self.shown}"
            self._read(0.1)
            if self.started.poll() is not None and not self._read(0):
                assert text in self.shown[self._seen :], f"it ended without {text!r}:\n{self.shown}"
        end = self.shown.index(text, self._seen) + len(text)
        part, self._seen = self.shown[self._seen : end], end
        return part

    def resize(self, columns: int, lines: int = 24) -> None:
        """Make the terminal as large as that."""
        termios.tcsetwinsize(self._slave, (lines, columns))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the program's end; its exit code, and its stdout, of at most what a pipe holds."""
        deadline = time.monotonic() + PATIENCE
        while self.started.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.shown}"
            self._read(0.05)
        while self._read(0):
            pass
        assert self.started.stdout is not None
        return self.started.returncode, self.started.stdout.read()

    @property
    def mode(self) -> object:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        """Take the terminal away; kills the program if it still runs."""
        if self.started.poll() is None:
            self.started.kill()
        self.started.wait()
        if self.started.stdout is not None:
            self.started.stdout.close()
        os.close(self._master)
        os.close(self._slave)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            self.shown += os.read(self._master, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
        except OSError:
            return False
        return True
