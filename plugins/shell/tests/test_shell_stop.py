"""Timeouts, cancellation, and processes that would rather stay."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
from dsh_shell.executor import Outcome
from dsh_shell.report import foreground_text

from dsh.process import Process

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to find processes that left their group")


async def unchanged(process: Process) -> Process:
    return process


async def test_a_timeout_stops_the_whole_group(bench: Any) -> None:
    outcome: Outcome = await bench.run(
        "mkfifo p; (echo $BASHPID > child; while true; do echo child; sleep 0.05; done) > p & cat p", 400
    )

    text = foreground_text(outcome)
    assert text.startswith("child\n")
    assert text.endswith("[timed out after 400 ms; the command was stopped]\n[killed by SIGTERM]")
    assert not bench.runs(await bench.pid("child"))


async def test_who_ignores_sigterm_is_killed(bench: Any) -> None:
    outcome = await bench.run("trap '' TERM; echo $$ > shell; while :; do sleep 0.05; done", 200)

    assert (outcome.timed_out, outcome.signal) == (True, "SIGKILL")
    assert not bench.runs(await bench.pid("shell"))


async def test_a_grandchild_that_ignores_sigterm_is_killed(bench: Any) -> None:
    outcome = await bench.run(
        "unset DSH_COMMAND_ID; (exec sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done') & wait", 400
    )

    assert (outcome.timed_out, outcome.signal) == (True, "SIGTERM")
    assert not bench.runs(await bench.pid("child"))


async def test_who_tidies_up_after_sigterm_is_still_timed_out(bench: Any) -> None:
    outcome = await bench.run("trap 'echo bye; exit 0' TERM; sleep 30 & wait", 200)

    assert (outcome.exit_code, outcome.signal, outcome.timed_out) == (0, None, True)
    assert foreground_text(outcome) == "bye\n[timed out after 200 ms; the command was stopped]"


async def test_output_of_a_trap_does_not_block_on_a_full_pipe(bench: Any) -> None:
    outcome = await bench.run("trap 'head -c 300000 /dev/zero; exit 4' TERM; sleep 30 & wait", 200)

    assert (outcome.exit_code, outcome.stdout.total) == (4, 300_000)


@on_linux
async def test_a_timeout_reaches_another_session_too(bench: Any) -> None:
    outcome = await bench.run("setsid sh -c 'echo $$ > away; exec sleep 60' & sleep 60", 400)

    assert outcome.timed_out
    assert not bench.runs(await bench.pid("away"))


async def test_no_command_may_take_longer_than_the_maximum(bench: Any) -> None:
    bench.executor.config = type(bench.executor.config)(timeout_ms=100, max_timeout_ms=200, grace_ms=300)

    assert (await bench.run("sleep 30", 60_000)).timeout_ms == 200
    assert (await bench.run("sleep 30")).timeout_ms == 100


async def test_a_cancelled_command_leaves_nothing(bench: Any) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.run, "echo $$ > shell; sleep 60 & echo $! > child; wait")
            child = await bench.pid("child")
            assert bench.runs(child)
            scope.cancel()

    assert scope.cancelled_caught
    assert not bench.runs(await bench.pid("shell"))
    assert not bench.runs(child)


async def test_cancelling_waits_for_the_one_that_ignores_sigterm(bench: Any) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.run, "trap '' TERM; echo $$ > shell; while :; do sleep 0.05; done")
            shell = await bench.pid("shell")
            scope.cancel()

    assert not bench.runs(shell)


async def test_in_a_cancelled_scope_nothing_starts(bench: Any) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await bench.run("touch started; sleep 60")
    await trio.sleep(0.1)

    assert scope.cancelled_caught
    assert not (bench.folder / "started").exists()


async def test_a_child_that_keeps_the_pipe_becomes_a_task(bench: Any) -> None:
    with trio.fail_after(15):
        outcome: Outcome = await bench.run("(echo $BASHPID > child; sleep 60; echo late) & echo started")

    assert outcome.left is not None
    first, note = foreground_text(outcome).splitlines()
    assert first == "started"
    assert outcome.left.id in note
    assert "run_in_background" in note
    child = await bench.pid("child")
    assert bench.runs(child)
    await bench.dispose()
    assert not bench.runs(child)
    assert bench.notices == []


async def test_a_silent_child_becomes_a_task(bench: Any) -> None:
    outcome = await bench.run("sleep 60 </dev/null >/dev/null 2>&1 & echo $! > child")

    assert outcome.left is not None
    child = await bench.pid("child")
    await bench.executor.kill(outcome.left)
    assert outcome.left.status == "killed"
    assert not bench.runs(child)


async def test_a_child_left_behind_may_go_on_printing(bench: Any) -> None:
    outcome = await bench.run("(sleep 0.6; echo more; echo done > done; echo late >&2; sleep 60) & echo started")

    assert outcome.left is not None
    await bench.until((bench.folder / "done").exists)
    await bench.until(lambda: outcome.left.child.stderr.total > 0)
    out, err = outcome.left.read()
    assert (out.text, err.text) == ("more\n", "late\n")


async def test_without_an_owner_the_rest_is_stopped(bench: Any) -> None:
    outcome = await bench.executor.run(bench.spec("sleep 60 & echo $! > child"), None, unchanged)

    assert outcome.stopped_rest
    assert "were stopped" in foreground_text(outcome)
    assert not bench.runs(await bench.pid("child"))


@on_linux
async def test_a_child_in_another_session_ends_with_its_owner(bench: Any) -> None:
    command = "setsid sh -c 'echo $$ > away; exec sleep 60' >/dev/null 2>&1 & while [ ! -s away ]; do sleep 0.01; done"
    outcome = await bench.run(command)
    away = await bench.pid("away")

    assert outcome.left is None
    assert bench.runs(away)
    await bench.dispose()
    assert not bench.runs(away)


async def test_closing_stops_a_command_in_flight(bench: Any) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.run, "echo $$ > shell; sleep 60")
        shell = await bench.pid("shell")
        await bench.executor.close()
        assert not bench.runs(shell)
