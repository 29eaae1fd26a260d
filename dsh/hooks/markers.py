"""Markers: `hookspec`, `hookimpl`, `gate`.

Each applies pluggy's marker and puts dsh's own options beside it, as an attribute of the
function.  A plain ``pluggy.HookimplMarker("dsh")`` marks implementations as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

import pluggy
from attrs import frozen

__all__ = [
    "PROJECT",
    "GateKind",
    "ImplOptions",
    "SpecOptions",
    "gate",
    "hookimpl",
    "hookspec",
    "impl_options",
    "spec_options",
]

PROJECT: Final = "dsh"

F = TypeVar("F", bound=Callable[..., Any])
GateKind: TypeAlias = Literal["deny", "block", "raise"]

_spec = pluggy.HookspecMarker(PROJECT)
_impl = pluggy.HookimplMarker(PROJECT)
_SPEC_OPTIONS = "__dsh_spec_options__"
_IMPL_OPTIONS = "__dsh_impl_options__"


class _Unset:
    """No deadline was named; the configured one holds."""


@frozen
class SpecOptions:
    """What dsh needs to know of a spec beyond pluggy's options."""

    settle: bool = False
    collect: str | None = None
    gate: GateKind | None = None
    answers: tuple[str, ...] = ()


@frozen
class ImplOptions:
    """What dsh needs to know of an implementation beyond pluggy's options."""

    deadline: float | type[_Unset] | None = _Unset
    canaries: tuple[Any, ...] = ()

    @property
    def deadline_named(self) -> bool:
        """The implementation names a deadline of its own, or that it has none."""
        return not isinstance(self.deadline, type)


def spec_options(function: object) -> SpecOptions:
    """dsh's options of a marked spec."""
    found: SpecOptions = getattr(function, _SPEC_OPTIONS, SpecOptions())
    return found


def impl_options(function: object) -> ImplOptions:
    """dsh's options of a marked implementation."""
    found: ImplOptions = getattr(function, _IMPL_OPTIONS, ImplOptions())
    return found


@overload
def hookspec(function: F) -> F: ...
@overload
def hookspec(
    *,
    firstresult: bool = False,
    historic: bool = False,
    settle: bool = False,
    collect: str | None = None,
    answers: Sequence[str] = (),
) -> Callable[[F], F]: ...
def hookspec(
    function: F | None = None,
    *,
    firstresult: bool = False,
    historic: bool = False,
    settle: bool = False,
    collect: str | None = None,
    answers: Sequence[str] = (),
) -> F | Callable[[F], F]:
    """Mark a function as the specification of a hook.

    Args:
        firstresult: the hook decides; the first answer that is not None wins.
        historic: calls made with ``manager.hook.NAME.call_historic(kwargs=...)`` also reach implementations that
            the program's layer gets later (called hooks only).
        settle: every implementation is awaited, also when one raises.
        collect: the name of the argument that implementations add to.
        answers: the classes that a deciding hook may be answered with, as ``module.Class``; anything
            else is an error of the implementation.  They are imported when the hook is first called.
    """

    def mark(function: F) -> F:
        setattr(function, _SPEC_OPTIONS, SpecOptions(settle, collect, answers=tuple(answers)))
        return _spec(function, firstresult=firstresult, historic=historic)

    return mark if function is None else mark(function)


@overload
def gate(function: F) -> F: ...
@overload
def gate(*, on_error: GateKind = "deny") -> Callable[[F], F]: ...
def gate(function: F | None = None, *, on_error: GateKind = "deny") -> F | Callable[[F], F]:
    """Mark a function as the specification of a gate: a hook that decides whether something may happen.

    Args:
        on_error: what an implementation that raises or is late counts as: ``deny`` (`Deny`),
            ``block`` (`Block`), or ``raise``: the error reaches the caller.
    """

    def mark(function: F) -> F:
        setattr(function, _SPEC_OPTIONS, SpecOptions(gate=on_error))
        return _spec(function, firstresult=True)

    return mark if function is None else mark(function)


@overload
def hookimpl(function: F) -> F: ...
@overload
def hookimpl(
    *,
    wrapper: bool = False,
    tryfirst: bool = False,
    trylast: bool = False,
    optionalhook: bool = False,
    specname: str | None = None,
    deadline: float | type[_Unset] | None = _Unset,
    canaries: Sequence[Any] = (),
) -> Callable[[F], F]: ...
def hookimpl(
    function: F | None = None,
    *,
    wrapper: bool = False,
    tryfirst: bool = False,
    trylast: bool = False,
    optionalhook: bool = False,
    specname: str | None = None,
    deadline: float | type[_Unset] | None = _Unset,
    canaries: Sequence[Any] = (),
) -> F | Callable[[F], F]:
    """Mark a function as an implementation of the hook that has its name.

    Args:
        wrapper: the function is a generator around the other implementations: ``result = yield``,
            then ``return`` what shall be the result.  One that awaits is an async generator and
            hands its result back with a second ``yield``.
        tryfirst, trylast: before or after the implementations that say neither.
        optionalhook: no error if no such hook exists, as when it belongs to an absent plugin.
        specname: the hook's name, where the function has another.
        deadline: seconds the implementation of a gate may take before it counts as a denial; None
            for one that waits for a person; not given, the configured ``[hooks] deadline``.
        canaries: calls that the implementation of ``tools_pre_execute`` must deny, as
            ``(tool name, arguments)``; start-up and ``dsh doctor`` try them.
    """

    def mark(function: F) -> F:
        setattr(function, _IMPL_OPTIONS, ImplOptions(deadline, tuple(canaries)))
        return _impl(
            function,
            wrapper=wrapper,
            tryfirst=tryfirst,
            trylast=trylast,
            optionalhook=optionalhook,
            specname=specname,
        )

    return mark if function is None else mark(function)
