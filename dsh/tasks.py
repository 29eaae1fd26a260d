"""Tasks with an owner: whoever starts them ends them, and waits until they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

__all__ = ["Tasks", "single"]


class Tasks:
    """The tasks of one owner, run in somebody else's nursery.

    Args:
        nursery: where they run.
        on_error: told what a task raised; nobody else is touched by it.
    """

    def __init__(self, nursery: trio.Nursery, on_error: Callable[[Exception], None]) -> None:
        self._nursery = nursery
        self._on_error = on_error
        self._scopes: set[trio.CancelScope] = set()
        self._gone = trio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._scopes)

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> None:
        """Start a task.

        Raises:
            RuntimeError: the owner is closing.
        """
        if self._closed:
            raise RuntimeError(f"cannot start {name or function}: its owner is closing")
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._nursery.start_soon(self._run, scope, function, args, name=name or getattr(function, "__name__", None))

    async def _run(
        self, scope: trio.CancelScope, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        try:
            with scope:
                await function(*args)
        except Exception as exc:
            self._on_error(exc)
        finally:
            self._scopes.discard(scope)
            if self._closed and not self._scopes:
                self._gone.set()

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended.  Cancelling the wait leaves them cancelled."""
        self._closed = True
        if not self._scopes:
            return
        for scope in self._scopes:
            scope.cancel()
        await self._gone.wait()


def single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in `group`, however deep; `group` itself where there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return group if isinstance(error, BaseExceptionGroup) else error
