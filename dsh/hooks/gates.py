"""Gates: hooks that decide whether something may happen, composed so that a guard that fails denies.

- Nobody stops the others but a final answer (`Deny`, `Block`); the verdict is the most severe one.
- An implementation, or a half of a wrapper, that raises, loses the result or is late counts as a
  denial that names the plugin.
- After each wrapper a denial that it changed is put back.
- An `Ask` that nobody answered is a denial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

import attrs
import trio

from ..decisions import Accept, Allow, Ask, Block, Deny
from ..errors import HookError
from ..messages import HookContext, PluginSource
from .spec import Spec
from .step import Inner, Step, blame, milliseconds, reason_of, verdict_of
from .trace import SLOW, Act, Settings, changed_fields
from .wrappers import finish, start

__all__ = ["closing", "gate_core", "gate_wrapped"]

_ANSWERS: dict[str | None, tuple[type[Any], ...]] = {
    "deny": (Allow, Ask, Deny),
    "block": (Allow, Block),
    "raise": (Accept, Block),
}


class _Late(Exception):
    """An implementation missed its deadline."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"missed its deadline of {seconds:g} s")


def gate_core(spec: Spec, steps: Sequence[Step], settings: Settings) -> Inner:
    """Ask everyone until one denies; the verdict is the most severe answer, with the contexts of all."""
    nothing = Accept() if spec.on_error == "raise" else Allow()
    answers, raises = _ANSWERS[spec.on_error], spec.on_error == "raise"

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        verdict: Any = None
        contexts: list[HookContext] = []
        content: Any = None
        for step in steps:
            began = perf_counter()
            try:
                answer = await _ask(spec, step, kwargs, settings)
                if answer is None:
                    continue
                if type(answer) not in answers:
                    raise _wrong(spec, answer)
            except Exception as exc:
                blame(exc, spec, step.plugin)
                acts.append(_failure(step, exc, began))
                if raises:
                    raise
                verdict = _denial(spec, step.plugin, exc)
                break
            note = getattr(answer, "reason", None)
            context = getattr(answer, "context", ())
            if context != ():
                contexts.extend(_contexts(context, step.plugin))
            if getattr(answer, "content", None) is not None:
                if content is None:
                    content = answer.content
                else:
                    note = "its content is not used: another plugin's was there first"
            acts.append(Act(step.plugin, verdict_of(answer), note, None, milliseconds(began)))
            if verdict is None or answer.severity > verdict.severity:
                verdict = answer
            if answer.final:
                break
        if verdict is None:
            return nothing
        return _with(verdict, content, contexts)

    return call


def closing(inner: Inner) -> Inner:
    """Turn a question that nobody answered into a denial."""

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        verdict = await inner(kwargs, default, acts)
        if verdict.open_question:
            why = f": {verdict.reason}" if verdict.reason else ""
            return Deny(f"this needs a person's approval, and nobody is here to give it{why}", unanswered=True)
        return verdict

    return call


async def _ask(spec: Spec, step: Step, kwargs: Mapping[str, Any], settings: Settings) -> Any:
    """One implementation's answer, within its deadline."""
    limit = step.deadline
    if not step.awaited:
        began = perf_counter()
        answer = step.function(*step.pick(kwargs))
        if answer is None or not hasattr(answer, "__await__"):
            took = perf_counter() - began
            if took > SLOW:
                settings.slow(step.plugin, spec.name, took)
            if limit is not None and took > limit:
                raise _Late(limit)
            return answer
    else:
        answer = step.function(*step.pick(kwargs))
    if limit is None:
        return await answer
    end = trio.current_time() + limit
    with trio.CancelScope(deadline=end) as scope:
        answer = await answer
    if scope.cancelled_caught or trio.current_time() > end:
        raise _Late(limit)
    return answer


def gate_wrapped(spec: Spec, wrappers: Sequence[Step], inner: Inner, settings: Settings) -> Inner:
    """Run a gate inside wrappers; what they get and give are verdicts.

    A failure is a verdict, too, but in a gate whose errors reach the caller.
    """
    answers, raises = _ANSWERS[spec.on_error], spec.on_error == "raise"

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        running: list[_Half] = []
        verdict: Any = None
        error: BaseException | None = None  # a cancellation, or what such a gate raises

        def failed(half: _Half, exc: Exception) -> None:
            nonlocal verdict, error
            if exc is error:
                return
            blame(exc, spec, half.step.plugin)
            acts.append(_failure(half.step, exc, half.began))
            if raises:
                error = exc
            elif verdict is None or not verdict.final:
                verdict = _denial(spec, half.step.plugin, exc)

        try:
            for step in wrappers:
                half = _Half(step)
                problem = await half.first(kwargs)
                if problem is not None:
                    failed(half, problem)
                    break
                running.append(half)
            else:
                verdict = await inner(kwargs, default, acts)
        except BaseException as exc:
            error = exc
        while running:
            half = running.pop()
            try:
                answer = await half.second(verdict, error)
                if type(answer) not in answers:
                    raise _wrong(spec, answer)
            except Exception as exc:
                failed(half, exc)
            except BaseException as exc:
                error = exc
            else:
                error = None
                verdict = _judged(verdict, answer, half, acts)
        if error is None:
            return verdict
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    return call


def _judged(before: Any, after: Any, half: _Half, acts: list[Act]) -> Any:
    """What stands after a wrapper: its verdict, unless it changed a denial."""
    changed = changed_fields(before, after)
    if changed is None:
        return before
    plugin = half.step.plugin
    if before is not None and before.final:
        note = f"tried to turn {verdict_of(before)} into {verdict_of(after)}; a denial is final"
        acts.append(Act(plugin, "restored", note, changed, milliseconds(half.began)))
        return before
    if getattr(after, "context", ()) != ():
        after = attrs.evolve(after, context=tuple(_contexts(after.context, plugin)))
    verdict = "changed" if type(after) is type(before) else verdict_of(after)
    acts.append(Act(plugin, verdict, getattr(after, "reason", None), changed, milliseconds(half.began)))
    return after


class _Half:
    """A wrapper on its way: its generator, its own time, and the scope that holds its deadline.

    The scope stands around everything from the first half to the end of the second, as a ``with``
    block would, so that the wrapper may hold scopes of its own across its ``yield``; while the
    inner call runs, its deadline is put off.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.began = perf_counter()
        self.left = math.inf if step.deadline is None else step.deadline
        self.scope: trio.CancelScope | None = None
        self.generator: Any = None

    async def first(self, kwargs: Mapping[str, Any]) -> Exception | None:
        """Run the first half; return how it failed, or None."""
        step = self.step
        started = trio.current_time()
        if step.awaited and step.deadline is not None:
            self.scope = trio.CancelScope(deadline=started + self.left)
            self.scope.__enter__()
        try:
            self.generator = step.function(*step.pick(kwargs))
            await start(self.generator, step)
        except BaseException as exc:
            late = self._leave(exc)
            if late:
                return _Late(step.deadline or 0.0)
            if isinstance(exc, Exception):
                return exc
            raise
        self._spend(started)
        if self.left < 0:
            await self._drop()
            return _Late(step.deadline or 0.0)
        if self.scope is not None:
            self.scope.deadline = math.inf
        return None

    async def second(self, verdict: Any, error: BaseException | None) -> Any:
        """Run the second half; return its verdict, or raise how it failed."""
        step = self.step
        started = trio.current_time()
        if self.scope is not None:
            self.scope.deadline = started + self.left
        try:
            answer = await finish(self.generator, step, verdict, error, True)
        except BaseException as exc:
            late = self._leave(exc)
            if late:
                raise _Late(step.deadline or 0.0) from None
            raise
        self._spend(started)
        self._leave(None)
        if self.left < 0:
            raise _Late(step.deadline or 0.0)
        return answer

    def _spend(self, started: float) -> None:
        self.left -= trio.current_time() - started

    def _leave(self, exc: BaseException | None) -> bool:
        """Close the scope; whether `exc` was its own cancellation."""
        if self.scope is None:
            return False
        scope, self.scope = self.scope, None
        return scope.__exit__(type(exc) if exc else None, exc, exc.__traceback__ if exc else None) is True

    async def _drop(self) -> None:
        """Finish a generator whose first half was late."""
        if self.step.awaited:
            await self.generator.aclose()
        else:
            self.generator.close()
        self._leave(None)


def _with(verdict: Any, content: Any, contexts: list[HookContext]) -> Any:
    """The verdict with the content and contexts that were gathered."""
    if isinstance(verdict, Ask | Deny):
        return verdict
    if isinstance(verdict, Block):
        return attrs.evolve(verdict, context=tuple(contexts)) if contexts else verdict
    if content is None and not contexts:
        return verdict
    return attrs.evolve(verdict, content=content, context=tuple(contexts))


def _contexts(context: Any, plugin: str) -> Iterable[HookContext]:
    """Contexts with a source; `plugin` is that of content which names none."""
    if isinstance(context, HookContext):
        return (context,)
    if isinstance(context, tuple | list) and all(isinstance(item, HookContext) for item in context):
        return tuple(context)
    return (HookContext(context, PluginSource(plugin)),)


def _wrong(spec: Spec, answer: object) -> HookError:
    expected = " or ".join(kind.__name__ for kind in _ANSWERS[spec.on_error])
    return HookError(f"{spec.name} is answered with {expected}, not with {answer!r:.80}")


def _failure(step: Step, exc: Exception, began: float) -> Act:
    if isinstance(exc, _Late):
        return Act(step.plugin, "late", str(exc), None, milliseconds(began))
    return Act(step.plugin, "raised", reason_of(exc), None, milliseconds(began))


def _denial(spec: Spec, plugin: str, exc: Exception) -> Deny | Block:
    text = str(exc) if isinstance(exc, _Late) else f"failed ({reason_of(exc)})"
    reason = f"the plugin {plugin} {text}, and a guard that fails denies"
    return Block(reason) if spec.on_error == "block" else Deny(reason)
