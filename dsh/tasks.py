"""Tasks with an owner: whoever starts them ends them, and waits until they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from .errors import PROBLEMS, survivable

__all__ = ["Tasks", "parted", "single"]


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
        except BaseException as exc:
            error, rest = parted(exc)
            if error is not None:
                self._on_error(error)
            if rest is not None:
                raise rest from None
        finally:
            self._scopes.discard(scope)
            if self._closed and not self._scopes:
                self._gone.set()

    def cancel(self) -> None:
        """Cancel all tasks, and take no more."""
        self._closed = True
        for scope in self._scopes:
            scope.cancel()

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended.  Cancelling the wait leaves them cancelled."""
        self.cancel()
        if self._scopes:
            await self._gone.wait()


def single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The only exception in `group`, however deep, with the notes of the groups around it.

    Where there are several, the innermost group that holds them all.
    """
    error: BaseException = group
    notes: list[str] = []
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        notes += getattr(error, "__notes__", ())
        error = error.exceptions[0]
    for note in notes:
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return error


def parted(error: BaseException) -> tuple[Exception | None, BaseException | None]:
    """The errors of `error`, and the cancellation or interrupt that it is or that came with them.

    A task that fails while the program around it is cancelled leaves by a group of both.  A plugin's wish to
    end the program is an error like others.
    """
    if not isinstance(error, BaseExceptionGroup):
        return (survivable(error), None) if isinstance(error, PROBLEMS) else (None, error)
    errors, rest = error.split((Exception, SystemExit))
    failed = None if errors is None else survivable(single(errors))
    return failed, None if rest is None else single(rest)
