"""The halves of a gate's wrapper, and the time that they may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import trio

from .spec import Spec
from .step import Step
from .trace import SLOW, Settings
from .wrappers import begin, begin_async, end, end_async

__all__ = ["Half", "Late"]


class Late(Exception):
    """An implementation missed its deadline of so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"missed its deadline of {seconds:g} s")


class Half:
    """A wrapper on its way through a gate: its generator, and its own time.

    An async one has a cancel scope of its own.  It stands around everything from the first half to
    the end of the second, as a ``with`` block would, so that the wrapper may hold scopes of its own
    across its ``yield``; while the inner call runs, its deadline is put off.

    Attributes:
        spent: seconds in both halves.
        limit: seconds after which the wrapper is late.

    Its methods raise what the wrapper raises, `Late`, or a cancellation from outside.
    """

    __slots__ = ("generator", "left", "limit", "scope", "settings", "since", "spec", "spent", "step")

    def __init__(self, step: Step, spec: Spec, settings: Settings) -> None:
        self.step = step
        self.spec = spec
        self.settings = settings
        self.left = self.limit = math.inf if step.deadline is None else step.deadline
        self.spent = 0.0
        self.scope: trio.CancelScope | None = None

    # -- plain wrappers: they cannot be interrupted, but are late all the same

    def first(self, kwargs: Mapping[str, Any]) -> None:
        """Run the first half of a plain wrapper."""
        step = self.step
        started = perf_counter()
        try:
            self.generator: Any = step.function(*step.pick(kwargs))
            begin(self.generator, step)
        finally:
            self.spent = seconds = perf_counter() - started
        if seconds > SLOW:
            self.settings.slow(step.plugin, self.spec.name, seconds)
        if seconds > self.limit:
            self.generator.close()
            raise Late(self.limit)

    def second(self, verdict: Any, error: BaseException | None) -> Any:
        """Run the second half of a plain wrapper; return its verdict."""
        step = self.step
        started = perf_counter()
        try:
            answer = end(self.generator, step, verdict, error, True)
        finally:
            del error  # its traceback holds this frame
            seconds = perf_counter() - started
            self.spent += seconds
        if seconds > SLOW:
            self.settings.slow(step.plugin, self.spec.name, seconds)
        if self.spent > self.limit:
            raise Late(self.limit)
        return answer

    # -- async wrappers

    async def first_async(self, kwargs: Mapping[str, Any]) -> None:
        """Run the first half of an async wrapper."""
        if self.step.deadline is not None:
            self.scope = trio.CancelScope()
            self.scope.__enter__()
        started = self._start()
        try:
            self.generator = self.step.function(*self.step.pick(kwargs))
            await begin_async(self.generator, self.step)
        except BaseException as exc:
            self._stop(started)
            rest = self._leave(exc)
            try:
                if rest is exc:
                    raise
                raise rest or Late(self.limit) from None
            finally:
                del rest  # its traceback holds this frame
        if self._stop(started):
            await self._drop()
            raise Late(self.limit)

    async def second_async(self, verdict: Any, error: BaseException | None) -> Any:
        """Run the second half of an async wrapper; return its verdict."""
        started = self._start()
        try:
            answer = await end_async(self.generator, self.step, verdict, error, True)
        except BaseException as exc:
            self._stop(started)
            rest = self._leave(exc)
            try:
                if rest is exc:
                    raise
                raise rest or Late(self.limit) from None
            finally:
                del rest, error  # its traceback holds this frame
        late = self._stop(started)
        self._leave(None)
        if late:
            raise Late(self.limit)
        return answer

    def _start(self) -> float:
        """Let the time run; return the clock for `_stop`."""
        if self.scope is not None:
            self.since = trio.current_time()
            self.scope.deadline = self.since + self.left
        return perf_counter()

    def _stop(self, started: float) -> bool:
        """Stop the time; whether there is none left."""
        seconds = perf_counter() - started
        self.spent += seconds
        if self.scope is None:
            return False
        if self.scope.cancel_called:  # also when the deadline is just being met
            return True
        self.left -= trio.current_time() - self.since
        self.scope.deadline = math.inf
        return False

    def _leave(self, exc: BaseException | None) -> BaseException | None:
        """Close the scope; return what is left of `exc` without the scope's own cancellation."""
        scope, self.scope = self.scope, None
        if scope is None:
            return exc
        try:
            ended = scope.__exit__(type(exc) if exc else None, exc, exc.__traceback__ if exc else None)
        except BaseException as rest:
            return rest
        return None if ended else exc

    async def _drop(self) -> None:
        """Finish a generator whose first half was late; only a cancellation from outside is raised."""
        rest: BaseException | None = None
        try:
            await self.generator.aclose()
        except BaseException as exc:
            rest = exc
        rest = self._leave(rest)
        if rest is not None and not isinstance(rest, Exception):
            raise rest
