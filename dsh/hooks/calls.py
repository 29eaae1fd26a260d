"""Calls: how the implementations of a hook are called, by its kind, and what stands around them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NoReturn

from pluggy import HookCallError, HookImpl

from ..errors import PROBLEMS, HookError, survivable
from .spec import Spec
from .step import (
    Call,
    Inner,
    Step,
    blame,
    milliseconds,
    mismatch,
    reason_of,
    refuse_answer,
    terminal,
    thousandths,
    together,
    verdict_of,
)
from .trace import SLOW, Act, Settings, altered

__all__ = ["called", "checkpoint", "decide", "echoed", "empty", "lifted", "outer", "run_in_frame", "settle"]


def _raise_together(spec: Spec, errors: list[Exception]) -> NoReturn:
    if len(errors) == 1:
        raise errors[0]
    raise ExceptionGroup(together(spec), errors)


# -- calls without implementations, and calls in the caller's frame


def empty(spec: Spec) -> Call:
    expected = frozenset(spec.arguments)

    def called(**kwargs: Any) -> None:
        if kwargs.keys() != expected:
            raise mismatch(spec, kwargs)

    async def awaited(*, default: Any = None, **kwargs: Any) -> Any:
        if kwargs.keys() != expected:
            raise mismatch(spec, kwargs)
        return None if default is None else await terminal(default)

    return awaited if spec.awaited else called


def called(spec: Spec, steps: Sequence[Step], settings: Settings) -> Call:
    """A notification, or a collection, in the caller's frame: everyone is called, even if one raises."""
    expected, collect = frozenset(spec.arguments), spec.collect
    hook = spec.name
    remember = settings.ring.append if settings.trace else None

    def call(**kwargs: Any) -> None:
        if kwargs.keys() != expected:
            raise mismatch(spec, kwargs)
        errors: list[Exception] | None = None
        collector = kwargs[collect] if collect is not None else None
        started = began = perf_counter()
        for function, pick, _, plugin, _, layer in steps:
            if collector is not None:
                kwargs[collect] = collector.view(plugin, layer)  # type: ignore[index]  # there is one, so it has a name
            try:
                answer = function(*pick(kwargs))
                if answer is not None and hasattr(answer, "__await__"):
                    _refuse_awaitable(answer)
            except PROBLEMS as problem:
                exc = survivable(problem)
                blame(exc, spec, plugin)
                errors = errors or []
                errors.append(exc)
                del exc
            now = perf_counter()
            if now - began > SLOW:
                settings.slow(plugin, hook, now - began)
            began = now
        if remember is not None:
            remember((hook, (began - started) * 1e3))
        if errors is not None:
            _raise_together(spec, errors)

    return call


def _refuse_awaitable(answer: Any) -> NoReturn:
    if inspect.iscoroutine(answer):
        answer.close()
    raise HookError("the hook is called, not awaited, and what its implementation returned would never run")


def lifted(call: Call) -> Inner:
    async def inner(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        return call(**kwargs)

    return inner


def run_in_frame(call: Call) -> Call:
    """Run a coroutine that awaits nothing to its end."""

    def run(**kwargs: Any) -> Any:
        coroutine = call(**kwargs)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        coroutine.close()
        raise HookCallError("a called hook awaited something")

    return run


# -- awaited calls


def outer(spec: Spec, inner: Inner, settings: Settings, *, empty: bool = False) -> Call:
    """The call as the relay offers it: checks the arguments, and hands out what was traced."""
    expected, decides, name = frozenset(spec.arguments), spec.decides, spec.name

    async def untraced(*, default: Any = None, **kwargs: Any) -> Any:
        if kwargs.keys() != expected:
            raise mismatch(spec, kwargs)
        return await inner(kwargs, default, [])

    async def traced(*, default: Any = None, **kwargs: Any) -> Any:
        if kwargs.keys() != expected:
            raise mismatch(spec, kwargs)
        started = perf_counter()
        acts: list[Act] = []
        try:
            return await inner(kwargs, default, acts)
        finally:
            if decides:
                settings.finish(name, kwargs, acts, started)
            else:
                settings.ring.append((name, (perf_counter() - started) * 1e3))

    return untraced if empty or not settings.trace else traced


def decide(spec: Spec, steps: Sequence[Step], settings: Settings) -> Inner:
    """The first answer wins; without one, the caller's default."""
    hook, types = spec.name, spec.answer_types()

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        now = perf_counter()
        for function, pick, awaited, plugin, _, _ in steps:
            began = now
            try:
                result = function(*pick(kwargs))
                if awaited or (result is not None and hasattr(result, "__await__")):
                    result = await result
                    now = perf_counter()
                else:
                    now = perf_counter()
                    if now - began > SLOW:
                        settings.slow(plugin, hook, now - began)
                if types and result is not None and not isinstance(result, types):
                    refuse_answer(spec, result)
            except PROBLEMS as problem:
                exc = survivable(problem)
                blame(exc, spec, plugin)
                acts.append(Act(plugin, "raised", reason_of(exc), None, milliseconds(began)))
                try:
                    raise exc from exc.__cause__
                finally:
                    del exc  # its traceback holds this frame
            if result is not None:
                note = getattr(result, "reason", None)
                acts.append(Act(plugin, verdict_of(result), note, altered(result, kwargs), thousandths(now - began)))
                return result
        return None if default is None else await terminal(default)

    return call


def settle(spec: Spec, steps: Sequence[Step], settings: Settings) -> Inner:
    """One after another, each of them, even if one raises."""

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> None:
        errors: list[Exception] = []
        for step in steps:
            try:
                await _await(spec, step, kwargs, settings)
            except PROBLEMS as problem:
                exc = survivable(problem)
                blame(exc, spec, step.plugin)
                errors.append(exc)
                del exc
        if errors:
            _raise_together(spec, errors)

    return call


def checkpoint(spec: Spec, steps: Sequence[Step], settings: Settings) -> Inner:
    """One after another; the first error stops.  A collection is discarded by its error."""
    collect = spec.collect

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> None:
        for step in steps:
            given = kwargs if collect is None else {**kwargs, collect: kwargs[collect].view(step.plugin, step.layer)}
            try:
                await _await(spec, step, given, settings)
            except PROBLEMS as problem:
                exc = survivable(problem)
                blame(exc, spec, step.plugin)
                try:
                    raise exc from exc.__cause__
                finally:
                    del exc  # its traceback holds this frame

    return call


async def _await(spec: Spec, step: Step, kwargs: Mapping[str, Any], settings: Settings) -> None:
    started = perf_counter()
    result = step.function(*step.pick(kwargs))
    if step.awaited or (result is not None and hasattr(result, "__await__")):
        await result
    elif perf_counter() - started > SLOW:
        settings.slow(step.plugin, spec.name, perf_counter() - started)


def echoed(spec: Spec, impls: Sequence[HookImpl], settings: Settings, call: Call) -> Call:
    plugins = [impl.plugin_name for impl in impls]

    async def awaited(**kwargs: Any) -> Any:
        started = perf_counter()
        outcome: Any = None
        try:
            outcome = await call(**kwargs)
            return outcome
        except BaseException as exc:
            outcome = exc
            raise
        finally:
            settings.print_call(spec.name, plugins, milliseconds(started), outcome)

    def called(**kwargs: Any) -> None:
        started = perf_counter()
        outcome: Any = None
        try:
            call(**kwargs)
        except BaseException as exc:
            outcome = exc
            raise
        finally:
            settings.print_call(spec.name, plugins, milliseconds(started), outcome)

    return awaited if spec.awaited else called
