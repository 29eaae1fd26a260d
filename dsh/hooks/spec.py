"""Specs: what the engine needs to know of a hook, and the check of an implementation against it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Literal, TypeAlias

from attrs import frozen

from .markers import GateKind, impl_options, spec_options

__all__ = ["Kind", "Spec", "did_you_mean", "spec_of"]

Kind: TypeAlias = Literal["notify", "settle", "checkpoint", "collect", "decide", "gate"]


@frozen
class Spec:
    """One hook.

    Attributes:
        name: of the hook.
        arguments: the names that an implementation may take.
        kind: how its implementations are called and what their answers mean.
        awaited: the hook is awaited; its implementations may be async.
        collect: the argument that implementations add to, in a collect hook.
        on_error: what a failing implementation of a gate counts as.
        answers: the classes that it may be answered with, as ``module.Class``; none if any will do.
        historic: past calls are made good for by pluggy, ``manager.hook.NAME.call_historic(kwargs=...)``.
    """

    name: str
    arguments: tuple[str, ...]
    kind: Kind
    awaited: bool
    collect: str | None = None
    on_error: GateKind | None = None
    historic: bool = False
    answers: tuple[str, ...] = ()

    def answer_types(self) -> tuple[type[Any], ...]:
        """The classes that the hook may be answered with; empty if any will do."""
        homes = (name.rpartition(".") for name in self.answers)
        return tuple(getattr(import_module(module), name) for module, _, name in homes)

    @property
    def decides(self) -> bool:
        """Its answer is a value: such a hook is inherited by child scopes, and traced."""
        return self.kind in ("decide", "gate")


def spec_of(name: str, function: Callable[..., Any], *, firstresult: bool, historic: bool) -> Spec:
    """The `Spec` of a marked function.

    Raises:
        ValueError: the options contradict each other.
    """
    options = spec_options(function)
    awaited = inspect.iscoroutinefunction(function)
    # Keyword-only parameters (`default`) are the caller's own.
    arguments = tuple(
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.name != "self" and p.kind is not inspect.Parameter.KEYWORD_ONLY
    )
    if historic and awaited:
        raise ValueError(f"{name}: an awaited hook cannot be historic")
    if (firstresult or options.settle) and not awaited:
        raise ValueError(f"{name}: a hook that decides or settles is written `async def`")
    if (options.gate is None and firstresult) + options.settle + (options.collect is not None) > 1:
        raise ValueError(f"{name}: a hook either decides, settles or collects")
    if options.collect is not None and options.collect not in arguments:
        raise ValueError(f"{name}: there is no argument {options.collect!r} to collect in")
    kind: Kind
    if options.gate is not None:
        kind = "gate"
    elif firstresult:
        kind = "decide"
    elif options.collect is not None:
        kind = "collect"
    elif options.settle:
        kind = "settle"
    else:
        kind = "checkpoint" if awaited else "notify"
    return Spec(name, arguments, kind, awaited, options.collect, options.gate, historic, options.answers)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt `name`: empty, or ``"; did you mean ...?"``."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def complaint(
    spec: Spec | None, hook: str, function: Callable[..., Any], options: Any, known: Iterable[str]
) -> str | None:
    """What is wrong with an implementation of `hook`; None if nothing is."""
    if spec is None:
        if options.get("optionalhook"):
            return None
        return f"{hook}: there is no such hook{did_you_mean(hook, known)}"
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return f"{hook}: name the arguments you want instead of {parameter}"
        if parameter.name == "self" and "self" not in spec.arguments:
            return f"{hook}: nothing binds its argument self; register an object of the class, not the class"
        if parameter.name not in spec.arguments:
            hint = did_you_mean(parameter.name, spec.arguments) or f"; there are {', '.join(spec.arguments) or 'none'}"
            return f"{hook}: there is no argument {parameter.name}{hint}"
        if parameter.kind is parameter.KEYWORD_ONLY:
            return f"{hook}: the argument {parameter.name} stands behind a *; take the * out"
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if is_async and not spec.awaited:
        return f"{hook} is called, not awaited: write `def`, not `async def`"
    if options.get("hookwrapper"):
        return f"{hook}: write wrapper=True, not hookwrapper=True"
    generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if options.get("wrapper") and not generator:
        return f"{hook}: a wrapper is a generator; it must `yield` once to what it wraps"
    if options.get("wrapper") and spec.historic:
        return f"{hook} is historic: it cannot be wrapped"
    if impl_options(function).deadline_named and spec.kind != "gate":
        return f"{hook} is no gate: no deadline holds for it"
    if generator and not options.get("wrapper"):
        return f"{hook}: the function yields; write @hookimpl(wrapper=True) if it is a wrapper"
    return None
