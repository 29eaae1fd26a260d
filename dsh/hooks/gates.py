"""Gates: hooks that decide whether something may happen, composed so that a guard that fails denies.

- Nobody stops the others but a final answer (`Deny`, `Block`); the verdict is the most severe one.
- An implementation, or a half of a wrapper, that raises, loses the result or is late counts as a
  denial that names the plugin.  In a gate whose errors reach the caller, such an error is as final.
- After each wrapper a denial that it changed is put back.
- An `Ask` that nobody answered is a denial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, get_args

import attrs
import trio

from ..decisions import Accept, Allow, Ask, Block, Deny
from ..errors import PROBLEMS, HookError, survivable
from ..messages import Block as ContentBlock
from ..messages import HookContext, PluginSource
from .half import Half, Late
from .spec import Spec
from .step import Inner, Step, blame, reason_of, thousandths, verdict_of
from .trace import SLOW, Act, Settings, changed_fields
from .wrappers import still_cancelled

__all__ = ["gate_core", "gate_wrapped"]

_ANSWERS: dict[str | None, tuple[type[Any], ...]] = {
    "deny": (Allow, Ask, Deny),
    "block": (Allow, Block),
    "raise": (Accept, Block),
}
_CONTENT = get_args(ContentBlock)


def gate_core(spec: Spec, steps: Sequence[Step], settings: Settings, *, last: bool) -> Inner:
    """Ask everyone until one denies; the verdict is the most severe answer, with the contexts of all.

    Args:
        last: there are no wrappers around it, who could answer an `Ask`.
    """
    nothing = Accept() if spec.on_error == "raise" else Allow()
    answers, raises = _ANSWERS[spec.on_error], spec.on_error == "raise"
    # An implementation that is called is looked at when it took long enough to be reported, or to be late.
    timed = tuple((*step[:4], *_limits(step.deadline)) for step in steps)

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        verdict: Any = None
        contexts: list[HookContext] = []
        content: Any = None
        now = perf_counter()
        for function, pick, awaited, plugin, limit, notable in timed:
            began = now
            try:
                answer = function(*pick(kwargs))
                if awaited or (answer is not None and hasattr(answer, "__await__")):
                    answer = await _within(answer, limit, 0.0 if awaited else perf_counter() - began)
                    now = perf_counter()
                else:
                    now = perf_counter()
                    if now - began > notable:
                        _look_at(spec, plugin, now - began, limit, settings)
                if answer is None:
                    continue
                if type(answer) not in answers:
                    raise _wrong(spec, answer)
                added = answer.context if hasattr(answer, "context") else ()
                if added != ():
                    contexts.extend(_contexts(added, plugin))
            except PROBLEMS as problem:
                exc = survivable(problem)
                blame(exc, spec, plugin)
                acts.append(_failure(plugin, exc, perf_counter() - began))
                try:
                    if raises:
                        raise exc from exc.__cause__
                    verdict = _denial(spec, plugin, exc)
                finally:
                    del exc  # its traceback holds this frame
                break
            note = getattr(answer, "reason", None)
            brought: tuple[str, ...] = ("context",) if added != () else ()
            if getattr(answer, "content", None) is not None:
                if content is None:
                    content = answer.content
                    brought = ("content", *brought)
                else:
                    note = "its content is not used: another plugin's was there first"
            acts.append(Act(plugin, verdict_of(answer), note, brought or None, thousandths(now - began)))
            if verdict is None or answer.severity > verdict.severity:
                verdict = answer
            if answer.final:
                break
        if verdict is None:
            return nothing
        if last and verdict.open_question:
            return _unanswered(verdict)
        return _with(verdict, content, contexts)

    return call


def _unanswered(verdict: Ask) -> Deny:
    """What becomes of a question that nobody answered."""
    why = f": {verdict.reason}" if verdict.reason else ""
    return Deny(f"this needs a person's approval, and nobody is here to give it{why}", unanswered=True)


def _limits(deadline: float | None) -> tuple[float, float]:
    limit = math.inf if deadline is None else deadline
    return limit, min(limit, SLOW)


async def _within(answer: Any, limit: float, spent: float) -> Any:
    """Await an answer on which so many seconds are `spent` already."""
    if limit == math.inf:
        return await answer
    scope = trio.CancelScope(deadline=trio.current_time() + limit - spent)
    with scope:
        answer = await answer
        if scope.cancel_called:  # it was interrupted, or should have been, and answered all the same
            raise Late(limit)
    if scope.cancelled_caught:
        raise Late(limit)
    return answer


def _look_at(spec: Spec, plugin: str, took: float, limit: float, settings: Settings) -> None:
    if took > SLOW:
        settings.slow(plugin, spec.name, took)
    if took > limit:
        raise Late(limit)


def gate_wrapped(spec: Spec, wrappers: Sequence[Step], inner: Inner, settings: Settings) -> Inner:
    """Run a gate inside wrappers; what they get and give are verdicts.

    A failure is a verdict, too, but in a gate whose errors reach the caller.
    """

    async def call(kwargs: Mapping[str, Any], default: Any, acts: list[Act]) -> Any:
        state = _State(spec, acts)
        running: list[Half] = []
        try:
            for step in wrappers:
                half = Half(step, spec, settings)
                try:
                    if step.awaited:
                        await half.first_async(kwargs)
                    else:
                        half.first(kwargs)
                except Exception as exc:
                    state.failed(half, exc)
                    break
                running.append(half)
            else:
                state.verdict = await inner(kwargs, default, acts)
        except BaseException as exc:
            state.error = exc
        while running:
            half = running.pop()
            try:
                if half.step.awaited:
                    answer = await half.second_async(state.verdict, state.error)
                else:
                    answer = half.second(state.verdict, state.error)
                if answer is not state.verdict or state.error is not None:
                    state.judge(half, answer)
            except Exception as exc:
                state.failed(half, exc)
            except BaseException as exc:
                state.error = exc
        return state.outcome()

    return call


class _State:
    """What stands between two wrappers: a verdict, or the error in place of one."""

    __slots__ = ("acts", "answers", "error", "raises", "spec", "verdict")

    def __init__(self, spec: Spec, acts: list[Act]) -> None:
        self.spec = spec
        self.acts = acts
        self.answers = _ANSWERS[spec.on_error]
        self.raises = spec.on_error == "raise"
        self.verdict: Any = None
        self.error: BaseException | None = None
        """A cancellation, or what such a gate raises."""

    def outcome(self) -> Any:
        """The verdict; or raise the error."""
        if self.error is None:
            return _unanswered(self.verdict) if self.verdict.open_question else self.verdict
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def failed(self, half: Half, exc: Exception) -> None:
        """A half of a wrapper raised, lost the result, or was late."""
        if exc is self.error:
            return
        plugin = half.step.plugin
        blame(exc, self.spec, plugin)
        self.acts.append(_failure(plugin, exc, half.spent))
        if still_cancelled(self.error):
            return
        if self.raises:
            self.error = exc
            return
        self.error = None
        if self.verdict is None or not self.verdict.final:
            self.verdict = _denial(self.spec, plugin, exc)

    def judge(self, half: Half, answer: Any) -> None:
        """Take a wrapper's verdict, unless it changed a denial, or ended an error that stands.

        Raises:
            HookError: it is no verdict.
        """
        if type(answer) not in self.answers:
            raise _wrong(self.spec, answer)
        before, plugin = self.verdict, half.step.plugin
        added = getattr(answer, "context", ())
        if added != () and added != getattr(before, "context", ()):
            answer = attrs.evolve(answer, context=_contexts(added, plugin))
        if still_cancelled(self.error):
            return
        if isinstance(self.error, Exception) and not answer.final:
            self._restored(half, f"tried to turn an error into {verdict_of(answer)}; an error is final", ())
            return
        self.error = None
        changed = changed_fields(before, answer)
        if changed is None:
            return
        if before is not None and before.final:
            note = f"tried to turn {verdict_of(before)} into {verdict_of(answer)}; a denial is final"
            self._restored(half, note, changed)
            return
        self.verdict = answer
        verdict = "changed" if type(answer) is type(before) else verdict_of(answer)
        self.acts.append(Act(plugin, verdict, getattr(answer, "reason", None), changed, thousandths(half.spent)))

    def _restored(self, half: Half, note: str, changed: tuple[str, ...]) -> None:
        self.acts.append(Act(half.step.plugin, "restored", note, changed, thousandths(half.spent)))


def _with(verdict: Any, content: Any, contexts: list[HookContext]) -> Any:
    """The verdict with the content and contexts that were gathered."""
    if isinstance(verdict, Ask | Deny):
        return verdict
    if isinstance(verdict, Block):
        return attrs.evolve(verdict, context=tuple(contexts)) if contexts else verdict
    if content is None and not contexts and verdict.context == ():
        return verdict
    return attrs.evolve(verdict, content=content, context=tuple(contexts))


def _contexts(context: Any, plugin: str) -> tuple[HookContext, ...]:
    """Contexts with a source; `plugin` is that of content which names none.

    Raises:
        HookError: it is no content.
    """
    source = PluginSource(plugin)
    items = (context,) if isinstance(context, (str, HookContext, *_CONTENT)) else tuple(context)
    if items and not any(isinstance(item, HookContext) for item in items):
        items = (HookContext(context if isinstance(context, str) else items, source),)
    found = tuple(item if isinstance(item, HookContext) else HookContext(item, source) for item in items)
    for item in found:
        for block in item.content:
            if not isinstance(block, _CONTENT):
                raise HookError(f"a context is text or content blocks, not {block!r:.80}")
    return found


def _wrong(spec: Spec, answer: object) -> HookError:
    expected = " or ".join(kind.__name__ for kind in _ANSWERS[spec.on_error])
    return HookError(f"{spec.name} is answered with {expected}, not with {answer!r:.80}")


def _failure(plugin: str, exc: Exception, spent: float) -> Act:
    late = isinstance(exc, Late)
    return Act(plugin, "late" if late else "raised", str(exc) if late else reason_of(exc), None, thousandths(spent))


def _denial(spec: Spec, plugin: str, exc: Exception) -> Deny | Block:
    text = str(exc) if isinstance(exc, Late) else f"failed ({reason_of(exc)})"
    reason = f"the plugin {plugin} {text}, and a guard that fails denies"
    return Block(reason) if spec.on_error == "block" else Deny(reason)
