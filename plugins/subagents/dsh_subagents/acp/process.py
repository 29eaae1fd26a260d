"""The process of such an agent: its start, its pipes, and its end, whatever it does."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from attrs import define, evolve, field

from dsh.groups import MARK, group_alive, signal_marked
from dsh.process import Confinement, Process, scrubbed_environment
from dsh.watchdog import Watchdog

from ..provider import SubagentError
from .settings import AcpConfig

__all__ = ["AgentProcess", "start"]

AFTER_KILL = 2.0
"""Seconds to wait for what got SIGKILL; a process inside a broken file system may never go."""
REST = 1.0
"""Seconds that the rest of a group has when its leader has exited by itself."""
TAIL = 2000
"""Bytes of stderr that are kept."""


@define(eq=False)
class AgentProcess:
    """A started agent.

    Attributes:
        stdin, stdout: its pipes.
        group: its process group, which is its process id.
    """

    popen: subprocess.Popen[bytes]
    mark: str
    stdin: trio.lowlevel.FdStream
    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream
    confinement: Confinement | None
    watchdog: Watchdog
    refused: str | None = None
    _pidfd: int | None = None
    _tail: bytearray = field(factory=bytearray)
    _lock: trio.Lock = field(factory=trio.Lock)
    _asked: bool = False

    @property
    def group(self) -> int:
        return self.popen.pid

    async def wait(self) -> None:
        """Wait for its exit, and reap it.  Cancelling the wait leaves it running."""
        async with self._lock:
            if self.popen.poll() is None:
                if self._pidfd is None:
                    await trio.to_thread.run_sync(self.popen.wait, abandon_on_cancel=True)
                else:
                    await trio.lowlevel.wait_readable(self._pidfd)
                    self.popen.wait()
        if self.confinement is not None and not self._asked:
            self._asked = True
            self.refused = self.confinement.ended(self.popen.returncode)

    def how(self) -> str:
        """How it ended, for people, with its last words."""
        code = self.popen.poll()
        if self.refused is not None:
            said = f"never ran, the sandbox could not be set up: {self.refused}"
        elif code is None:
            said = "closed its output"
        elif code < 0:
            with suppress(ValueError):
                code = signal.Signals(-code).name  # type: ignore[assignment]  # shown in either form
            said = f"was killed by {code}"
        else:
            said = f"exited with code {code}"
        words = bytes(self._tail).decode("utf-8", "replace").strip()
        return f"{said}; its last words: {words}" if words else said

    async def listen(self) -> None:
        """Read its stderr and keep the end of it, until it ends."""
        with suppress(OSError, trio.ClosedResourceError):
            while data := await self.stderr.receive_some(65536):
                self._tail += data
                del self._tail[:-TAIL]

    async def end(self, eof_grace: float, term_grace: float) -> None:
        """End it, and all that it started: close its stdin, SIGTERM, SIGKILL; and reap it.

        Whoever may be cancelled calls it shielded.  Takes both graces and a few seconds at most.
        """
        self.stdin.close()
        with trio.move_on_after(eof_grace):
            await self.wait()
        if self.popen.poll() is None:
            self._signal(signal.SIGTERM)
            with trio.move_on_after(term_grace):
                await self.wait()
        elif group_alive(self.group):
            self._signal(signal.SIGTERM)
            pause = 0.002
            with trio.move_on_after(min(REST, term_grace)):
                while group_alive(self.group):
                    await trio.sleep(pause)
                    pause = min(pause * 2, 0.05)
        if self.popen.poll() is None or group_alive(self.group):
            self._signal(signal.SIGKILL)
        signal_marked(self.mark)
        with trio.move_on_after(AFTER_KILL):
            await self.wait()
        await self.watchdog.close()
        self._close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()
        if self.confinement is not None:
            self.confinement.close()
        fd, self._pidfd = self._pidfd, None
        if fd is not None:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


async def start(config: AcpConfig, cwd: str, prepare: Callable[[Process], Awaitable[Process]]) -> AgentProcess:
    """Start the agent of `config`, working in `cwd`, absolute, in a session and a group of its own.

    Cancelling, which is possible while it is prepared, leaves nothing started.

    Raises:
        SubagentError: it cannot be started; the message says why.
        Exception: what `prepare` raised.
    """
    mark = secrets.token_hex(12)
    wanted = Process(
        argv=(config.command, *config.args),
        env={**scrubbed_environment(), **config.env, "PWD": cwd},
        cwd=cwd,
        purpose="subagent",
        keep=frozenset(config.env),
        managed=True,
    )
    process = await prepare(wanted)
    around = process.confinement
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
        return _spawn(evolve(process, env={**process.env, MARK: mark}), mark)
    except BaseException:
        if around is not None:
            around.close()
        raise


def _spawn(process: Process, mark: str) -> AgentProcess:
    # In this thread: what a sandbox ties to the life of its parent, it ties to the thread that starts it.
    around = process.confinement
    watchdog = Watchdog(mark)
    watchdog.start()
    try:
        popen = subprocess.Popen(
            process.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            cwd=process.cwd,
            env=process.env,
            pass_fds=() if around is None else around.fds,
        )
    except (OSError, ValueError) as error:
        watchdog.dismiss()
        raise SubagentError(_why(process, error), code="SUBAGENT_NOT_STARTED") from error
    watchdog.add(popen.pid)
    if around is not None:
        around.started()
    pipes = [_stream(pipe) for pipe in (popen.stdin, popen.stdout, popen.stderr)]
    pidfd = None
    with suppress(OSError, AttributeError):
        pidfd = os.pidfd_open(popen.pid)
    return AgentProcess(popen, mark, pipes[0], pipes[1], pipes[2], around, watchdog, pidfd=pidfd)


def _stream(pipe: object) -> trio.lowlevel.FdStream:
    """A stream of a descriptor of its own, so that both may be closed."""
    assert hasattr(pipe, "fileno")
    assert hasattr(pipe, "close")
    stream = trio.lowlevel.FdStream(os.dup(pipe.fileno()))
    pipe.close()
    return stream


def _why(process: Process, error: OSError | ValueError) -> str:
    program = process.argv[0]
    if isinstance(error, ValueError):
        return f"{program} was not started: {error}"
    if not os.path.isdir(process.cwd):
        return f"{program} was not started: the directory {process.cwd} does not exist"
    if isinstance(error, FileNotFoundError):
        return f"{program} was not started: there is no such program; `command` in [subagents.acp] names it"
    return f"{program} was not started: {error.strerror}"
