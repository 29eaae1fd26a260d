"""Wrappers: generators around a call, plain and async ones in one order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import trio

from ..errors import HookError, survivable
from .spec import Spec
from .step import Inner, Step, blame, reason_of, refuse_answer, thousandths, together
from .trace import SLOW, Act, Settings, changed_fields

__all__ = ["begin", "begin_async", "end", "end_async", "still_cancelled", "wrapped"]


def begin(generator: Any, step: Step) -> None:
    """Run the first half of a plain wrapper."""
    try:
        generator.send(None)
    except StopIteration:
        raise _broken(step, "did not yield") from None
    except (SystemExit, BaseExceptionGroup) as exc:
        if isinstance(exc, Exception):
            raise
        raise survivable(exc) from exc


async def begin_async(generator: Any, step: Step) -> None:
    """Run the first half of an async wrapper."""
    try:
        await generator.asend(None)
    except StopAsyncIteration:
        raise _broken(step, "did not yield") from None
    except (SystemExit, BaseExceptionGroup) as exc:
        if isinstance(exc, Exception):
            raise
        raise survivable(exc) from exc


def end(generator: Any, step: Step, result: Any, error: BaseException | None, deciding: bool) -> Any:
    """Run the second half of a plain wrapper, and return the result it hands back.

    Raises:
        HookError: it yielded too often, or lost the result of a deciding hook.
    """
    try:
        if error is None:
            generator.send(result)
        else:
            generator.throw(error)
    except StopIteration as stop:
        answer = stop.value
    except (SystemExit, BaseExceptionGroup) as exc:
        del error  # its traceback holds this frame
        if isinstance(exc, Exception):
            raise
        raise survivable(exc) from exc
    except BaseException:
        del error  # its traceback holds this frame
        raise
    else:
        generator.close()
        raise _broken(step, "yielded twice") from error
    if deciding and answer is None:
        _refuse_loss(step, result, error)
    return answer


async def end_async(generator: Any, step: Step, result: Any, error: BaseException | None, deciding: bool) -> Any:
    """Run the second half of an async wrapper; without a second ``yield`` the result stays as it was.

    Raises:
        HookError: it yielded too often, or lost the result of a deciding hook.
    """
    try:
        answer = await (generator.asend(result) if error is None else generator.athrow(error))
    except StopAsyncIteration:
        answer = result if error is None else None
    except (SystemExit, BaseExceptionGroup) as exc:
        del error  # its traceback holds this frame
        if isinstance(exc, Exception):
            raise
        raise survivable(exc) from exc
    except BaseException:
        del error  # its traceback holds this frame
        raise
    else:
        try:
            await generator.asend(None)
        except StopAsyncIteration:
            pass
        else:
            await generator.aclose()
            raise _broken(step, "yielded three times") from error
    if deciding and answer is None:
        _refuse_loss(step, result, error)
    return answer


def _refuse_loss(step: Step, result: Any, error: BaseException | None) -> None:
    if error is not None:
        raise _broken(step, "ended an error without a result") from error
    if result is not None:
        raise _broken(step, "lost the result: it must return it")


def _broken(step: Step, what: str) -> HookError:
    return HookError(f"the wrapper of the plugin {step.plugin} {what}")


def _both(spec: Spec, first: Exception, second: BaseException | None) -> BaseException:
    """Two errors of a hook that everyone hears, together; of a cancellation nothing takes the place."""
    if second is None:
        return first
    return ExceptionGroup(together(spec), [first, second]) if isinstance(second, Exception) else second


def still_cancelled(error: BaseException | None) -> bool:
    """Whether `error`, which a wrapper ended, is a cancellation from outside: that is not a wrapper's to end."""
    if error is None or isinstance(error, Exception) or not trio.lowlevel.in_trio_task():
        return False
    return trio.current_effective_deadline() == -math.inf


def wrapped(spec: Spec, wrappers: Sequence[Step], inner: Inner, settings: Settings) -> Inner:
    """Run `inner` inside generators, by pluggy's rules, plain and async ones in one order."""
    deciding, collect, types = spec.decides, spec.collect, spec.answer_types()
    everyone = spec.kind in ("notify", "settle")

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        running: list[tuple[Any, Step, float]] = []
        result: Any = None
        error: BaseException | None = None
        try:
            for step in wrappers:
                began = perf_counter()
                given = kwargs
                if collect is not None:
                    given = {**kwargs, collect: kwargs[collect].view(step.plugin, step.layer)}
                try:
                    generator = step.function(*step.pick(given))
                    if step.awaited:
                        await begin_async(generator, step)
                    else:
                        begin(generator, step)
                except Exception as exc:
                    blame(exc, spec, step.plugin)
                    acts.append(Act(step.plugin, "raised", reason_of(exc), None, thousandths(perf_counter() - began)))
                    if not everyone:
                        raise
                    # Those inside are told all the same; the error comes out where the second half would stand.
                    running.append((exc, step, 0.0))
                    continue
                running.append((generator, step, perf_counter() - began))
            result = await inner(kwargs, default, acts)
        except BaseException as exc:
            error = exc
        while running:
            generator, step, spent = running.pop()
            if isinstance(generator, Exception):
                error = _both(spec, generator, error)
                continue
            began = perf_counter() - spent
            before, failed = result, error is not None
            try:
                if step.awaited:
                    result = await end_async(generator, step, result, error, deciding)
                else:
                    result = end(generator, step, result, error, deciding)
                error = error if still_cancelled(error) else None
                # What a wrapper passes on is not its answer; and to look for a protocol takes longer than the call.
                if types and error is None and (result is not before or failed) and not isinstance(result, types):
                    refuse_answer(spec, result)
            except BaseException as exc:
                if exc is not error:
                    blame(exc, spec, step.plugin)
                    if isinstance(exc, Exception):
                        ms = thousandths(perf_counter() - began)
                        acts.append(Act(step.plugin, "raised", reason_of(exc), None, ms))
                if not isinstance(exc, Exception) or not still_cancelled(error):
                    error = exc
            spent = perf_counter() - began
            if spent > SLOW and not step.awaited:
                settings.slow(step.plugin, spec.name, spent)
            if deciding and error is None and (result is not before or failed):
                changed = () if failed else changed_fields(before, result)
                if changed is not None:
                    note = getattr(result, "reason", None)
                    acts.append(Act(step.plugin, "changed", note, changed, thousandths(spent)))
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    return call
