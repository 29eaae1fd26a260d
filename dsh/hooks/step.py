"""Steps: implementations ready to be called, and the small things every call needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from operator import itemgetter
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, TypeAlias

from pluggy import HookCallError, HookImpl

from ..errors import HookError
from .markers import impl_options
from .spec import Spec
from .trace import Act, Settings

__all__ = [
    "ASYNC_WRAPPER",
    "Call",
    "Inner",
    "Step",
    "blame",
    "milliseconds",
    "mismatch",
    "reason_of",
    "refuse_answer",
    "terminal",
    "thousandths",
    "together",
    "verdict_of",
    "wraps",
]

ASYNC_WRAPPER = "async_wrapper"
Call: TypeAlias = Callable[..., Any]
Inner: TypeAlias = Callable[[Mapping[str, Any], Any, list[Act]], Any]
"""A call inside wrappers: arguments, default, and the list that acts are added to."""


def wraps(impl: HookImpl) -> bool:
    """Whether an implementation is a wrapper, plain or async."""
    return impl.wrapper or ASYNC_WRAPPER in impl.opts


class Step(NamedTuple):
    """One implementation, ready to be called."""

    function: Call
    pick: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    awaited: bool
    plugin: str
    deadline: float | None
    layer: int

    @classmethod
    def of(cls, impl: HookImpl, layer: int, spec: Spec, settings: Settings) -> Step:
        """The step of an implementation, with the deadline that holds for it."""
        names = impl.argnames + tuple(name for name in impl.kwargnames if name in spec.arguments)
        pick: Any
        if len(names) > 1:
            pick = itemgetter(*names)
        elif names:
            pick = lambda kwargs, name=names[0]: (kwargs[name],)  # noqa: E731
        else:
            pick = lambda kwargs: ()  # noqa: E731
        awaited = inspect.iscoroutinefunction(impl.function) or ASYNC_WRAPPER in impl.opts
        named = impl_options(impl.function).deadline
        deadline = settings.deadline if isinstance(named, type) else named
        return cls(impl.function, pick, awaited, impl.plugin_name, deadline, layer)


def mismatch(spec: Spec, kwargs: Mapping[str, Any]) -> HookCallError:
    """The error of a call with other arguments than the spec's."""
    return HookCallError(f"{spec.name} takes {sorted(spec.arguments)}, was given {sorted(kwargs)}")


def blame(exc: BaseException, spec: Spec, plugin: str) -> None:
    """Name the plugin in the traceback."""
    if isinstance(exc, Exception):
        exc.add_note(f"raised by {spec.name} of the plugin {plugin!r}")


def refuse_answer(spec: Spec, answer: object) -> NoReturn:
    """Raise the error of an answer that the hook cannot be given."""
    wanted = " or ".join(name.rpartition(".")[2] for name in spec.answers)
    raise HookError(f"{spec.name} is answered with {wanted}, not with {answer!r:.80}")


def together(spec: Spec) -> str:
    """What is said of several plugins' errors in one call."""
    return f"{spec.name} failed in several plugins"


async def terminal(default: Any) -> Any:
    """The answer of the caller's default."""
    if default is None:
        return None
    result = default()
    return await result if hasattr(result, "__await__") else result


def milliseconds(started: float) -> float:
    """Milliseconds since `started` (`time.perf_counter`)."""
    return thousandths(perf_counter() - started)


def thousandths(seconds: float) -> float:
    """Seconds as milliseconds, to the microsecond."""
    return round(seconds * 1e3, 3)


def reason_of(exc: BaseException) -> str:
    """How a trace tells of an error."""
    return f"{type(exc).__name__}: {exc}"


def verdict_of(result: object) -> str:
    """What a trace calls an answer: a decision's class in lower case, ``answered`` for any other value."""
    return type(result).__name__.lower() if type(result).__module__ == "dsh.decisions" else "answered"
