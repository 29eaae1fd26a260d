from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio
from attrs import define, field
from dsh_shell.config import ShellConfig
from dsh_shell.executor import Executor, Outcome, Owner, Spec, Task

from dsh.process import Process


async def unchanged(process: Process) -> Process:
    return process


@define
class Bench:
    """An executor with one owner whose tasks live in a nursery of their own."""

    executor: Executor
    owner: Owner
    nursery: trio.Nursery
    folder: Path
    notices: list[Task] = field(factory=list)

    def spec(self, command: str, timeout_ms: float | None = None) -> Spec:
        return Spec(command, str(self.folder), dict(os.environ), timeout_ms)

    async def run(self, command: str, timeout_ms: float | None = None) -> Outcome:
        return await self.executor.run(self.spec(command, timeout_ms), self.owner, unchanged)

    async def start(self, command: str) -> Task:
        return await self.executor.start(self.spec(command), self.owner, unchanged)

    async def dispose(self) -> None:
        """End the owner, as disposing an agent does."""
        self.nursery.cancel_scope.cancel()
        await self.until(lambda: not self.nursery.child_tasks)

    @staticmethod
    def runs(pid: int) -> bool:
        """Whether a process exists and is no zombie."""
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return bool(found.stdout.strip()) and not found.stdout.strip().startswith("Z")

    @staticmethod
    async def until(condition: Callable[[], bool]) -> None:
        """Wait for something that happens soon."""
        with trio.fail_after(20):
            while not condition():  # noqa: ASYNC110  # what happens in other processes sets no event
                await trio.sleep(0.01)

    async def pid(self, name: str) -> int:
        """The process id that a command wrote, or writes soon, into a file."""
        path = self.folder / name
        await self.until(lambda: path.exists() and path.read_text().endswith("\n"))
        return int(path.read_text())


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    return Bench.until


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bash = shutil.which("bash")
    assert bash is not None
    executor = Executor(ShellConfig(grace_ms=300), bash)
    notices: list[Task] = []
    async with trio.open_nursery() as outer:
        started: list[trio.Nursery] = []

        async def owner() -> None:
            async with trio.open_nursery() as nursery:
                started.append(nursery)
                nursery.start_soon(trio.sleep_forever)

        outer.start_soon(owner)
        await Bench.until(lambda: bool(started))
        yield Bench(executor, Owner("session-1", started[0].start_soon, notices.append), started[0], tmp_path, notices)
        started[0].cancel_scope.cancel()
    await executor.close()
