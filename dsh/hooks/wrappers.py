"""Wrappers: generators around a call, plain and async ones in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from ..errors import HookError
from .spec import Spec
from .step import Inner, Step, blame, milliseconds, reason_of
from .trace import Act, Settings, changed_fields

__all__ = ["finish", "start", "wrapped"]


async def start(generator: Any, step: Step) -> None:
    """Run the first half of a wrapper."""
    try:
        if step.awaited:
            await generator.asend(None)
        else:
            generator.send(None)
    except (StopIteration, StopAsyncIteration):
        raise HookError("the wrapper did not yield") from None


async def finish(generator: Any, step: Step, result: Any, error: BaseException | None, deciding: bool) -> Any:
    """Run the second half of a wrapper, and return the result it hands back.

    Raises:
        HookError: it yielded too often, or ended an error of a deciding hook without a result.
    """
    if not step.awaited:
        try:
            generator.send(result) if error is None else generator.throw(error)
        except StopIteration as stop:
            answer = stop.value
        else:
            generator.close()
            raise HookError("the wrapper yielded twice") from error
    else:
        try:
            answer = await (generator.asend(result) if error is None else generator.athrow(error))
        except StopAsyncIteration:
            answer = result if error is None else None
        else:
            try:
                await generator.asend(None)
            except StopAsyncIteration:
                pass
            else:
                await generator.aclose()
                raise HookError("the wrapper yielded three times") from error
    if deciding and answer is None:
        if error is not None:
            raise HookError("the wrapper ended an error without a result") from error
        if result is not None:
            raise HookError("the wrapper lost the result: it must return it")
    return answer


def wrapped(spec: Spec, wrappers: Sequence[Step], inner: Inner, settings: Settings) -> Inner:
    """Run `inner` inside generators, by pluggy's rules, plain and async ones in one order."""
    deciding = spec.decides

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        running: list[tuple[Any, Step, float]] = []
        result: Any = None
        error: BaseException | None = None
        try:
            for step in wrappers:
                began = perf_counter()
                try:
                    generator = step.function(*step.pick(kwargs))
                    await start(generator, step)
                except Exception as exc:
                    blame(exc, spec, step.plugin)
                    acts.append(Act(step.plugin, "raised", reason_of(exc), None, milliseconds(began)))
                    raise
                running.append((generator, step, perf_counter() - began))
            result = await inner(kwargs, default, acts)
        except BaseException as exc:
            error = exc
        while running:
            generator, step, spent = running.pop()
            began = perf_counter() - spent
            before, failed = result, error
            try:
                result = await finish(generator, step, result, error, deciding)
                error = None
            except BaseException as exc:
                if exc is not error:
                    blame(exc, spec, step.plugin)
                    if isinstance(exc, Exception):
                        acts.append(Act(step.plugin, "raised", reason_of(exc), None, milliseconds(began)))
                error = exc
            if deciding and error is None:
                changed = () if failed is not None else changed_fields(before, result)
                if changed is not None:
                    acts.append(
                        Act(step.plugin, "changed", getattr(result, "reason", None), changed, milliseconds(began))
                    )
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    return call
