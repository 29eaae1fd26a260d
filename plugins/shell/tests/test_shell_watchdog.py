"""Nothing outlives a program that was killed."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest
import trio

PROGRAM = """
import os, sys, trio
from dsh_shell.config import ShellConfig
from dsh_shell.executor import Executor, Owner, Spec

async def prepare(process):
    return process

async def main():
    executor = Executor(ShellConfig(), "/bin/sh")
    spec = lambda command: Spec(command, sys.argv[1], dict(os.environ))
    async with trio.open_nursery() as nursery:
        owner = Owner("s", nursery.start_soon)
        await executor.run(spec("true"), owner, prepare)
        await executor.run(spec("sleep 60 & echo $! > left"), owner, prepare)
        await executor.run(spec("(setsid sh -c 'echo $$ > away; exec sleep 60' >/dev/null 2>&1 &)"), owner, prepare)
        await executor.start(spec("echo $$ > background; sleep 60"), owner, prepare)
        await executor.start(spec("unset DSH_COMMAND_ID; sleep 60 & echo $! > unmarked; wait"), owner, prepare)
        await executor.run(spec("trap '' TERM; sleep 60 & echo $! > child; echo $$ > foreground; wait"), owner, prepare)

trio.run(main)
"""


async def test_commands_die_with_a_program_that_is_killed(bench: Any) -> None:
    program = await trio.lowlevel.open_process([sys.executable, "-c", PROGRAM, str(bench.folder)])
    try:
        names = ["left", "background", "unmarked", "child", "foreground"]
        if sys.platform == "linux":
            names.append("away")
        pids = [await bench.pid(name) for name in names]
        assert all(bench.runs(pid) for pid in pids)
    finally:
        program.send_signal(signal.SIGKILL)
        with trio.CancelScope(shield=True):
            await program.wait()

    await bench.until(lambda: not any(bench.runs(pid) for pid in pids))


KILLED_AT_ONCE = """
import os, signal, sys, trio
from dsh.watchdog import Watchdog
from dsh_shell.config import ShellConfig
from dsh_shell.executor import Executor, Owner, Spec

def killed(self, group):
    while not os.path.exists(os.path.join(sys.argv[1], "pid")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)

Watchdog.add = killed

async def prepare(process):
    return process

async def main():
    executor = Executor(ShellConfig(), "/bin/sh")
    async with trio.open_nursery() as nursery:
        spec = Spec("echo $$ > pid.new; mv pid.new pid; sleep 60", sys.argv[1], dict(os.environ))
        await executor.run(spec, Owner("s", nursery.start_soon), prepare)

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="such a process is found in /proc")
async def test_the_first_command_dies_with_a_program_that_is_killed_before_it_noted_it(bench: Any) -> None:
    program = await trio.lowlevel.open_process([sys.executable, "-c", KILLED_AT_ONCE, str(bench.folder)])
    with trio.fail_after(30):
        assert await program.wait() == -signal.SIGKILL
    pid = await bench.pid("pid")

    await bench.until(lambda: not bench.runs(pid))


async def test_the_watchdog_ends_with_the_executor(bench: Any) -> None:
    await bench.run("true")
    watchdog = bench.executor._watchdog.pid

    assert bench.runs(watchdog)
    assert os.getsid(watchdog) == watchdog
    await bench.executor.close()
    assert bench.executor._watchdog.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(watchdog, 0)


async def test_there_is_no_watchdog_before_the_first_command(bench: Any) -> None:
    assert bench.executor._watchdog.pid is None


async def test_a_watchdog_that_was_killed_is_replaced(bench: Any) -> None:
    await bench.run("true")
    first = bench.executor._watchdog.pid
    os.kill(first, signal.SIGKILL)
    await bench.until(lambda: not bench.runs(first))
    await bench.run("true")
    await bench.run("true")

    assert bench.executor._watchdog.pid != first
    assert bench.runs(bench.executor._watchdog.pid)


async def test_a_watchdog_outlives_signals_that_end_programs(bench: Any) -> None:
    await bench.run("true")
    watchdog = bench.executor._watchdog.pid
    await trio.sleep(0.1)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(watchdog, number)
    await bench.run("true")
    await trio.sleep(0.1)

    assert bench.executor._watchdog.pid == watchdog
    assert bench.runs(watchdog)


async def test_groups_that_ended_are_forgotten(bench: Any) -> None:
    await bench.run("true")
    task = await bench.start("sleep 60")

    assert list(bench.executor._watchdog._groups) == [task.child.group]
    await bench.executor.kill(task)
    assert not bench.executor._watchdog._groups
