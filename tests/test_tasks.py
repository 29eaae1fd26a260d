"""Tasks with an owner, and what a group of errors is about."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from dsh.errors import HookError
from dsh.tasks import Tasks, parted, single


async def test_tasks_are_cancelled_and_waited_for() -> None:
    ended: list[str] = []

    async def task(name: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            ended.append(name)

    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery, lambda error: None)
        tasks.start_soon(task, "a")
        tasks.start_soon(task, "b")
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 2
        await tasks.close()
        assert sorted(ended) == ["a", "b"]
        await tasks.close()
        with pytest.raises(RuntimeError, match="owner is closing"):
            tasks.start_soon(task, "c", name="c")


async def test_an_error_is_told_and_touches_nobody() -> None:
    told: list[Exception] = []

    async def dies() -> None:
        raise ValueError("mine")

    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery, told.append)
        tasks.start_soon(dies)
        await trio.testing.wait_all_tasks_blocked()
        assert [str(error) for error in told] == ["mine"]
        await tasks.close()


async def test_a_task_may_close_its_owner_from_within_the_nursery() -> None:
    """It is cancelled while it waits for itself."""
    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery, lambda error: None)
        tasks.start_soon(tasks.close)
        await trio.testing.wait_all_tasks_blocked()
        assert len(tasks) == 0


def test_the_only_error_of_a_group_is_what_it_is_about() -> None:
    inner = ValueError("x")
    assert single(ExceptionGroup("a", [ExceptionGroup("b", [inner])])) is inner
    several = ExceptionGroup("b", [inner, KeyError("y")])
    assert single(ExceptionGroup("a", [several])) is several


async def test_errors_are_told_apart_from_the_cancellation_they_came_with() -> None:
    error = ValueError("x")
    assert parted(error) == (error, None)
    stop = KeyboardInterrupt()
    assert parted(stop) == (None, stop)
    assert parted(BaseExceptionGroup("both", [error, stop])) == (error, stop)
    assert parted(ExceptionGroup("errors", [error])) == (error, None)
    assert parted(BaseExceptionGroup("stops", [stop])) == (None, stop)


async def test_a_wish_to_end_the_program_is_an_error_beside_others() -> None:
    wish, error, stop = SystemExit(3), ValueError("x"), KeyboardInterrupt()
    for raised in (wish, BaseExceptionGroup("exits", [wish]), BaseExceptionGroup("both", [error, wish])):
        failed, rest = parted(raised)
        assert rest is None
        assert str(failed) == "it wants to end the program (SystemExit: 3), which is not its to end"
    failed, rest = parted(BaseExceptionGroup("all", [error, wish, stop]))
    assert isinstance(failed, HookError)
    assert rest is stop
