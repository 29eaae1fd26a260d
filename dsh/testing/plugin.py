"""The pytest plugin that comes with dsh."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["no_leftovers"]

PATIENCE = 5.0
"""Seconds that a child process has to disappear after a test."""
ROUNDS = 20
"""How often the Trio loop turns after a test before a task that is still there counts as left behind."""
_SKIPPED = pytest.StashKey[str]()
"""Why an asynchronous test skipped itself."""
_LINE = pytest.StashKey[int]()
"""Where it stands in its file."""


@pytest.fixture
def no_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves Trio tasks or child processes behind."""
    from . import child_processes

    _watch_tasks(request.node)
    before = set(child_processes())
    yield
    deadline = time.monotonic() + PATIENCE
    while (left := set(child_processes()) - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        pytest.fail(f"the test left child processes behind: {sorted(left)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say why an asynchronous test was skipped; pytest-trio 0.8 says only that it was."""
    report = yield
    reason = item.stash.get(_SKIPPED, "")
    if reason and report.when == "call" and report.skipped:
        report.longrepr = (str(item.path), item.stash[_LINE], f"Skipped: {reason}")
    return report


def _watch_tasks(item: Any) -> None:
    """Have the test's function look for tasks when it is through; only inside of the loop can they be seen."""
    function: Any = getattr(item, "obj", None)
    if hasattr(function, "hypothesis"):
        function.hypothesis.inner_test = _watched(function.hypothesis.inner_test, item)
    elif inspect.iscoroutinefunction(function):
        item.obj = _watched(function, item)


def _watched(function: Callable[..., Any], item: pytest.Item) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(function) or getattr(function, "_trio_test_runner_wrapped", False):
        return function
    awaited: Callable[..., Awaitable[object]] = function

    @functools.wraps(function)
    async def watched(*args: Any, **kwargs: Any) -> None:
        import trio

        before = set(_tasks())
        try:
            await awaited(*args, **kwargs)
        except pytest.skip.Exception as skipped:
            item.stash[_SKIPPED] = skipped.msg or ""
            item.stash[_LINE] = inspect.unwrap(function).__code__.co_firstlineno
            raise
        for _ in range(ROUNDS):
            left = _started_since(before)
            if not left:
                return
            await trio.lowlevel.cancel_shielded_checkpoint()
        raise AssertionError(f"the test left tasks behind: {', '.join(sorted(task.name for task in left))}")

    return watched


def _tasks() -> Iterator[Task]:
    """All tasks of the loop, parents first."""
    import trio

    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        yield task
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]


def _started_since(before: set[Task]) -> list[Task]:
    """The tasks that are new, but for those in the nursery of a fixture, which ends them."""
    import trio

    root, left = trio.lowlevel.current_root_task(), list[Any]()
    for task in _tasks():
        parent = None if task.parent_nursery is None else task.parent_nursery.parent_task
        if task not in before and (parent is root or parent in left):
            left.append(task)
    return left
