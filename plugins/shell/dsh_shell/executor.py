"""Runs commands and looks after what they leave running.

The executor needs no harness: who calls it says who owns a command (`Owner`) and how its process
is prepared.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Final, Literal, TypeAlias

import trio
from attrs import define, field, frozen

from dsh.groups import MARK, marked, signal_marked
from dsh.process import Process
from dsh.watchdog import Watchdog
from dsh_shell.command import AFTER_KILL, Command, spawn
from dsh_shell.config import ShellConfig
from dsh_shell.errors import ShellError
from dsh_shell.spill import Outputs, remove_abandoned
from dsh_shell.window import Piece

__all__ = ["Executor", "Outcome", "Owner", "Prepare", "Spec", "Task", "hint_for", "refusal"]

Prepare: TypeAlias = Callable[[Process], Awaitable[Process]]
_IDLE_POLL: Final = 2.0
"""How often to look, in seconds at most, whether silent processes of a task have ended."""
_FIXED: Final = {"NO_COLOR": "1", "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


@frozen
class Spec:
    """A command to run.

    Attributes:
        cwd: its working directory, absolute.
        env: its whole environment, but for what the executor adds.
        timeout_ms: how long it may take; None is the configured default, and the configured maximum holds.
    """

    command: str
    cwd: str
    env: dict[str, str]
    timeout_ms: float | None = None


@frozen(eq=False)
class Owner:
    """Who owns tasks.

    Attributes:
        id: the session's id; None for commands that belong to no agent.
        start_soon: runs a task that is cancelled, and waited for, when the owner ends.
        notify: told of a background task's end; not when the owner ends.
    """

    id: str | None
    start_soon: Callable[..., None]
    notify: Callable[[Task], None] | None = None


@frozen
class Outcome:
    """What a foreground command came to.  Each field is a fact of its own.

    Attributes:
        timeout_ms: the time it had.
        timed_out: it was stopped for taking longer, whatever its exit code says.
        hint: what around the command may have failed it.
        left: the task that its remaining processes became.
        stopped_rest: processes remained, and were stopped because nobody owns them.
    """

    exit_code: int | None
    signal: str | None
    timed_out: bool
    timeout_ms: float
    duration_ms: int
    stdout: Piece
    stderr: Piece
    hint: str | None = None
    left: Task | None = None
    stopped_rest: bool = False


@define(eq=False)
class Task:
    """A command in the background, or what a foreground command left running."""

    id: str
    command: str
    owner: Owner
    child: Command
    status: Literal["running", "completed", "killed"] = "running"
    done: trio.Event = field(factory=trio.Event)
    scope: trio.CancelScope = field(factory=trio.CancelScope)

    @property
    def exit_code(self) -> int | None:
        return self.child.exit_code

    @property
    def signal(self) -> str | None:
        return self.child.signal_name

    def read(self) -> tuple[Piece, Piece]:
        """What both streams brought since the last call."""
        return self.child.stdout.read(), self.child.stderr.read()


class Executor:
    """Runs the commands of one harness.

    Args:
        config: the limits.
        shell: the path of the shell.
        outputs: where long outputs go.
    """

    def __init__(self, config: ShellConfig, shell: str, outputs: Outputs | None = None) -> None:
        self.config = config
        self.shell = shell
        self._mark = secrets.token_hex(8) + "."
        self._watchdog = Watchdog(self._mark)
        self.outputs = outputs or Outputs()
        self._cleaned = False
        self._tasks: dict[str, Task] = {}
        self._live: dict[Command, None] = {}
        self._owners: dict[str | None, int] = {}
        self._owner_numbers, self._task_numbers, self._serial = count(1), count(1), count(1)
        self._closed = False

    # -- commands

    async def run(self, spec: Spec, owner: Owner | None, prepare: Prepare) -> Outcome:
        """Run a command to its end, or until its time is up.

        Processes that the shell leaves behind become a task of `owner`; without one they are stopped.
        Cancelling stops all of the command, in the grace and two seconds at most, before it goes on.

        Raises:
            ShellError: it was not started.
        """
        began = time.monotonic()
        command = await self._spawn(spec, owner, prepare)
        timeout_ms = min(spec.timeout_ms or self.config.timeout_ms, self.config.max_timeout_ms)
        task, stopped = None, False
        try:
            timed_out = await self._foreground(command, timeout_ms / 1000)
            if not timed_out and not await command.settled():
                if owner is None:
                    stopped = True
                    await command.end(self._grace)
                else:
                    task = self._background(spec.command, owner, command)
        except BaseException:
            with trio.CancelScope(shield=True):
                await command.end(self._grace)
            self._release(command)
            raise
        if task is None:
            self._release(command)
        if command.refused is not None:
            raise refusal(command)
        return Outcome(
            exit_code=command.exit_code,
            signal=command.signal_name,
            timed_out=timed_out,
            timeout_ms=timeout_ms,
            duration_ms=round((time.monotonic() - began) * 1000),
            stdout=command.stdout.read(),
            stderr=command.stderr.read(),
            hint=hint_for(command),
            left=task,
            stopped_rest=stopped,
        )

    async def start(self, spec: Spec, owner: Owner, prepare: Prepare) -> Task:
        """Start a command in the background; it has no time limit.

        Cancelling, which is possible while it is prepared, leaves nothing started.

        Raises:
            ShellError: it was not started.
            AgentError: the owner has ended.
        """
        command = await self._spawn(spec, owner, prepare)
        try:
            return self._background(spec.command, owner, command)
        except BaseException:
            with trio.CancelScope(shield=True):
                await command.end(self._grace)
            self._release(command)
            raise

    async def _foreground(self, command: Command, seconds: float) -> bool:
        """Read and wait until the shell has exited; True if it had to be stopped."""
        timed_out = False
        async with trio.open_nursery() as nursery:
            command.pump(nursery)
            with trio.move_on_after(seconds) as limit:
                await command.wait()
            if limit.cancelled_caught and command.running():
                timed_out = True
                await command.end(self._grace)
            await command.drain()
            nursery.cancel_scope.cancel()
        return timed_out

    async def _spawn(self, spec: Spec, owner: Owner | None, prepare: Prepare) -> Command:
        if not self._cleaned:
            self._cleaned = True
            await trio.to_thread.run_sync(remove_abandoned, abandon_on_cancel=True)
        mark = f"{self._mark}{self._owner_number(owner)}.{next(self._serial)}."
        process = await prepare(
            Process(
                argv=(self.shell, "-c", spec.command),
                env={**spec.env, **_FIXED, "PWD": spec.cwd, MARK: mark},
                cwd=spec.cwd,
                purpose="bash",
                readable=self.outputs.temp.folders,
                managed=True,
            )
        )
        try:
            if self._closed:
                raise ShellError("no command can be started: the program is closing", code="CLOSED")
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            if process.confinement is not None:
                process.confinement.close()
            raise
        self._watchdog.start()
        command = spawn(process, mark, self.config.limits, self.outputs, None if owner is None else owner.id)
        self._watchdog.add(command.group)
        self._live[command] = None
        return command

    def _release(self, command: Command) -> None:
        command.close()
        self._live.pop(command, None)
        if not command.alive():
            self._watchdog.drop(command.group)

    @property
    def _grace(self) -> float:
        return self.config.grace_ms / 1000

    # -- tasks

    def get(self, task_id: str) -> Task | None:
        """The task with that id, running or over."""
        return self._tasks.get(task_id)

    def running(self, owner_id: str) -> list[Task]:
        """The tasks of an owner that run."""
        return [task for task in self._tasks.values() if task.owner.id == owner_id and task.status == "running"]

    async def kill(self, task: Task) -> bool:
        """Stop a task; False if it was over.

        Takes the grace and a few seconds at most; cancelling waits for that.
        """
        if task.status != "running":
            return False
        task.status = "killed"
        with trio.CancelScope(shield=True):
            await task.child.end(self._grace)
            with trio.move_on_after(AFTER_KILL):
                await task.child.drain()
                # A process that kept the pipe and hid from the kill must not keep the task.
                task.scope.cancel()
                await task.done.wait()
        return True

    def _background(self, text: str, owner: Owner, command: Command) -> Task:
        task = Task(f"bash-{next(self._task_numbers)}", text, owner, command)
        # What a foreground command left tells nobody of its end.
        owner.start_soon(self._tend, task, command.running(), name=f"shell {task.id}")
        self._tasks[task.id] = task
        return task

    async def _tend(self, task: Task, announce: bool) -> None:
        """Read a task's output until nothing of it runs; when cancelled, stop it."""
        command = task.child
        try:
            with task.scope:
                async with trio.open_nursery() as nursery:
                    command.pump(nursery)
                    await command.wait()
                    await command.closed.wait()
                    await command.gone(longest_pause=_IDLE_POLL)
        except BaseException:
            task.status = "killed"
            with trio.CancelScope(shield=True):
                await command.end(self._grace)
            self._finish(task)
            raise
        if task.status == "running":
            task.status = "completed"
        self._finish(task)
        if announce and task.owner.notify is not None and not self._closed:
            task.owner.notify(task)

    def _finish(self, task: Task) -> None:
        self._release(task.child)
        task.done.set()

    # -- owners

    def _owner_number(self, owner: Owner | None) -> int:
        key = None if owner is None else owner.id
        number = self._owners.get(key)
        if number is None:
            if self._closed:
                raise ShellError("no command can be started: the program is closing", code="CLOSED")
            number = next(self._owner_numbers)
            if owner is not None and owner.id is not None:
                owner.start_soon(self._keep, owner.id, number, name="shell keeper")
            self._owners[key] = number
        return number

    async def _keep(self, owner_id: str, number: int) -> None:
        """Wait for the owner's end; then stop also what left its group, and forget the owner's tasks."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                mine = [task for task in self._tasks.values() if task.owner.id == owner_id]
                with trio.move_on_after(self._grace + AFTER_KILL + 1):
                    for task in mine:
                        await task.done.wait()
                await self._sweep(f"{self._mark}{number}.")
            for task in mine:
                self._tasks.pop(task.id, None)
            self._owners.pop(owner_id, None)

    async def _sweep(self, mark: str) -> None:
        """Stop every process that carries `mark`: SIGTERM, the grace, SIGKILL."""
        if not signal_marked(mark, signal.SIGTERM):
            return
        pause = 0.005
        with trio.move_on_after(self._grace):
            while marked(mark):
                await trio.sleep(pause)
                pause = min(pause * 2, 0.1)
        signal_marked(mark, signal.SIGKILL)

    async def close(self) -> None:
        """Stop everything, and delete the files of long outputs.

        Takes the grace and a few seconds at most; cancelling waits for that.
        """
        self._closed = True
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for task in list(self._tasks.values()):
                    nursery.start_soon(self.kill, task)
                for command in list(self._live):
                    nursery.start_soon(command.end, self._grace)
            if self._owners:
                await self._sweep(self._mark)
            await self._watchdog.close()
        self._tasks.clear()
        self._owners.clear()
        self.outputs.temp.remove()


def refusal(command: Command) -> ShellError:
    """The error of a command that never ran, with what was said in its place."""
    said = command.stderr.text().strip()
    return ShellError(
        f"the command did not run, the sandbox could not be set up: {command.refused}" + (f"\n{said}" if said else ""),
        code="SANDBOX_FAILED",
    )


def hint_for(command: Command) -> str | None:
    """What around a command that failed may have failed it."""
    if command.confinement is None or command.exit_code == 0 or command.running():
        return None
    return command.confinement.hint(command.stdout.text() + command.stderr.text())
