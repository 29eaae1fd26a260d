"""One running command: its process group, its two streams, its end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from typing import Final

import trio
from attrs import define, field

from dsh.groups import group_alive, signal_group, signal_marked
from dsh.process import Confinement, Process
from dsh_shell.errors import ShellError
from dsh_shell.spill import Outputs
from dsh_shell.window import Limits, Window

__all__ = ["Command", "spawn"]

SILENCE: Final = 0.2
"""After the shell's exit, a pipe that others hold is given up when it was silent for so many seconds,"""
DRAIN: Final = 2.0
"""or after so many at the latest."""
AFTER_KILL: Final = 2.0
"""How long to wait for processes that got SIGKILL; one inside a broken file system may never go."""
_CHUNK: Final = 65536


@define(eq=False)
class Command:
    """A started command.

    Attributes:
        group: its process group, which is the shell's process id.
        mark: what its processes carry in their environment.
        confinement: what stands around it.
        refused: why that failed, once the shell's place has exited: the command never ran then.
        closed: set when both streams have ended: no process holds them any more.
    """

    popen: subprocess.Popen[bytes]
    mark: str
    stdout: Window
    stderr: Window
    _pipes: tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]
    _pidfd: int | None
    confinement: Confinement | None = None
    refused: str | None = None
    closed: trio.Event = field(factory=trio.Event)
    _ended: int = 0
    _heard: float = 0.0
    _lock: trio.Lock = field(factory=trio.Lock)
    _asked: bool = False

    @property
    def group(self) -> int:
        return self.popen.pid

    @property
    def exit_code(self) -> int | None:
        """The shell's exit code; None while it runs and when a signal killed it."""
        code = self.popen.returncode
        return None if code is None or code < 0 else code

    @property
    def signal_name(self) -> str | None:
        """The signal that killed the shell, as in ``SIGTERM``."""
        code = self.popen.returncode
        if code is None or code >= 0:
            return None
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"

    def running(self) -> bool:
        """Whether the shell has not exited."""
        return self.popen.poll() is None

    def alive(self) -> bool:
        """Whether the shell or another process of its group runs."""
        return self.running() or group_alive(self.group)

    async def wait(self) -> None:
        """Wait for the shell's exit and reap it.  Cancelling the wait leaves it running."""
        async with self._lock:
            if self.popen.poll() is None:
                if self._pidfd is None:
                    await trio.to_thread.run_sync(self.popen.wait, abandon_on_cancel=True)
                else:
                    await trio.lowlevel.wait_readable(self._pidfd)
                    self.popen.wait()
            self._ask_confinement()

    def _ask_confinement(self) -> None:
        if self.confinement is not None and not self._asked:
            self._asked = True
            self.refused = self.confinement.ended(self.exit_code)

    def pump(self, nursery: trio.Nursery) -> None:
        """Read both streams, in two tasks of `nursery`, until they end.  Cancelling loses nothing that was read."""
        if not self.closed.is_set():
            nursery.start_soon(self._pump, self._pipes[0], self.stdout)
            nursery.start_soon(self._pump, self._pipes[1], self.stderr)

    async def _pump(self, pipe: trio.lowlevel.FdStream, window: Window) -> None:
        try:
            while data := await pipe.receive_some(_CHUNK):
                window.feed(data)
                self._heard = trio.current_time()
        except trio.ClosedResourceError:
            return  # It had ended when an earlier task read it.
        pipe.close()
        self._ended += 1
        if self._ended == 2:
            self.closed.set()

    async def drain(self) -> None:
        """Once the shell has exited, wait for the streams' end, but not for a process that keeps them open."""
        began = trio.current_time()
        while not self.closed.is_set():
            patience = min(max(began, self._heard) + SILENCE, began + DRAIN)
            if trio.current_time() >= patience:
                return
            with trio.move_on_at(patience):
                await self.closed.wait()

    async def settled(self) -> bool:
        """Whether nothing is left of the command; processes on their way out get a tenth of a second."""
        if not self.closed.is_set():
            return False
        for pause in (0.001, 0.004, 0.015, 0.08):
            if not self.alive():
                return True
            await trio.sleep(pause)
        return not self.alive()

    async def gone(self, *, longest_pause: float = 0.05) -> None:
        """Wait until nothing of the group runs."""
        await self.wait()
        pause = 0.002
        while self.alive():
            await trio.sleep(pause)
            pause = min(pause * 2, longest_pause)

    async def end(self, grace: float) -> None:
        """Stop everything that the command started: SIGTERM, `grace` seconds, SIGKILL.

        Takes `grace` and two seconds at most.  Who may be cancelled calls it shielded.
        """
        signal_group(self.group if self.alive() else 0, signal.SIGTERM)
        with trio.move_on_after(grace):
            await self.gone()
        signal_group(self.group if self.alive() else 0, signal.SIGKILL)
        signal_marked(self.mark)
        with trio.move_on_after(AFTER_KILL):
            await self.gone()

    def close(self) -> None:
        """Give up the streams and complete their files."""
        for pipe in self._pipes:
            pipe.close()
        self.stdout.close()
        self.stderr.close()
        if self.confinement is not None:
            self.confinement.close()
        fd, self._pidfd = self._pidfd, None
        if fd is not None:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


def spawn(process: Process, mark: str, limits: Limits, outputs: Outputs, owner: str | None = None) -> Command:
    """Start `process` in a session of its own, with nothing to read.

    It starts in this thread: Python holds its lock until the child runs the program anyway, and so
    there is no moment in which a child exists that nobody knows of.

    Raises:
        ShellError: it cannot be started; the message says why.
    """
    around = process.confinement
    try:
        ends = [*_pipe(), *_pipe()]
    except ShellError:
        _give_up(around)
        raise
    try:
        popen = subprocess.Popen(
            process.argv,
            stdin=subprocess.DEVNULL,
            stdout=ends[1],
            stderr=ends[3],
            start_new_session=True,
            cwd=process.cwd,
            env=process.env,
            pass_fds=() if around is None else around.fds,
        )
    except (OSError, ValueError) as error:
        _give_up(around)
        os.close(ends[0])
        os.close(ends[2])
        raise _not_started(process, error) from error
    finally:
        os.close(ends[1])
        os.close(ends[3])
    if around is not None:
        around.started()
    return Command(
        popen=popen,
        mark=mark,
        confinement=around,
        stdout=Window(limits, outputs, "stdout", owner),
        stderr=Window(limits, outputs, "stderr", owner),
        pipes=(trio.lowlevel.FdStream(ends[0]), trio.lowlevel.FdStream(ends[2])),
        pidfd=_open_pidfd(popen.pid),
    )


def _give_up(around: Confinement | None) -> None:
    if around is not None:
        around.close()


def _pipe() -> tuple[int, int]:
    try:
        return os.pipe()
    except OSError as error:
        raise ShellError(f"the command was not started: {error.strerror}", code="NOT_STARTED") from error


def _open_pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _not_started(process: Process, error: OSError | ValueError) -> ShellError:
    if isinstance(error, ValueError):
        return ShellError(f"the command was not started: {error}", code="NOT_STARTED")
    if error.errno == errno.E2BIG:
        size = sum(len(argument.encode("utf-8", "replace")) for argument in process.argv)
        return ShellError(
            f"the command was not started: with {size} bytes it is longer than this system allows; "
            "write the text to a file first and let a short command use the file",
            code="COMMAND_TOO_LONG",
        )
    if not os.path.isdir(process.cwd):
        return ShellError(
            f"the working directory {process.cwd} does not exist; name another one in workdir", code="NO_WORKDIR"
        )
    if isinstance(error, FileNotFoundError):
        return ShellError(
            f"the program {process.argv[0]} does not exist; `shell` in the [shell] table of the configuration names it",
            code="NO_SHELL",
        )
    return ShellError(
        f"the command was not started in {process.cwd}: {process.argv[0]}: {error.strerror}", code="NOT_STARTED"
    )
