"""Traces: who did what in a hook call, and how long it took.

The engine hands a `Trace` of each deciding call that a plugin answered, failed or changed to
`Settings.on_trace`, and keeps the time of every other call in a ring.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import attrs
from attrs import define, field, frozen

__all__ = ["Act", "HeldTraces", "Settings", "Trace", "altered", "changed_fields", "held"]

SLOW = 0.1
"""Seconds after which a synchronous implementation is reported to block the program."""


@frozen
class Act:
    """What one plugin did in one call.

    Attributes:
        verdict: the answer's class in lower case (``deny``), ``answered`` where the answer is no
            decision, ``changed`` by a wrapper, ``raised``, ``late``, or ``restored`` where a
            wrapper's change of a denial was put back.
        reason: the plugin's reason, or how it failed.
        changed: the fields of the value that a wrapper replaced, or that an answer has otherwise than the argument
            that it stands in for; of a gate's answer what it brings, ``content`` or ``context``.
        ms: milliseconds of the plugin's own.
    """

    plugin: str
    verdict: str
    reason: str | None
    changed: tuple[str, ...] | None
    ms: float


@frozen
class Trace:
    """One call that plugins took part in; `arguments` are the call's own."""

    hook: str
    arguments: Mapping[str, Any]
    acts: Sequence[Act]


class HeldTraces:
    """Traces that wait until somebody else hands them out."""

    def __init__(self) -> None:
        self._traces: list[Trace] | None = []

    def hold(self, trace: Trace) -> bool:
        """Keep a trace; no longer possible after `release`."""
        if self._traces is None:
            return False
        self._traces.append(trace)
        return True

    def release(self, settings: Settings) -> None:
        """Hand out what was held, in order, and hold no more."""
        traces, self._traces = self._traces or [], None
        for trace in traces:
            if settings.on_trace is not None:
                settings.on_trace(trace)


_holder: ContextVar[HeldTraces | None] = ContextVar("_holder", default=None)


@contextmanager
def held(holder: HeldTraces | None) -> Iterator[None]:
    """Keep the traces of calls in this block, and in tasks started in it, in `holder`; with None, hand them out."""
    token = _holder.set(holder)
    try:
        yield
    finally:
        _holder.reset(token)


@define
class Settings:
    """What all plugin managers of one program share.

    Attributes:
        deadline: seconds an implementation of a gate has, unless it names its own; None for ever.
        on_trace: told of each deciding call that a plugin took part in.
        on_slow: told once per plugin and hook of a synchronous implementation that blocked, with
            the seconds it took.
        trace: keep times and hand out traces; off, a call costs less, and only the engine's own rules hold.
        ring: the last of all other calls that plugins took part in, as (hook, milliseconds).
        echo: print every call to stderr.

    `trace` and `echo` are read when a call is built: before the first one, or when a plugin comes or goes.
    """

    deadline: float | None = 60.0
    on_trace: Callable[[Trace], None] | None = None
    on_slow: Callable[[str, str, float], None] | None = None
    trace: bool = True
    ring: deque[tuple[str, float]] = field(factory=lambda: deque(maxlen=1000))
    echo: bool = False
    _slow: set[tuple[str, str]] = field(factory=set)

    def slow(self, plugin: str, hook: str, seconds: float) -> None:
        """Report a blocking implementation, once."""
        if self.on_slow is not None and (plugin, hook) not in self._slow:
            self._slow.add((plugin, hook))
            self.on_slow(plugin, hook, seconds)

    def finish(self, hook: str, arguments: Mapping[str, Any], acts: list[Act], started: float) -> None:
        """Close a deciding call that began at `started` (`time.perf_counter`)."""
        if acts and self.on_trace is not None:
            trace, holder = Trace(hook, arguments, acts), _holder.get()
            if holder is None or not holder.hold(trace):
                self.on_trace(trace)
        else:
            self.ring.append((hook, (perf_counter() - started) * 1e3))

    def print_call(self, hook: str, plugins: Sequence[str], ms: float, outcome: object) -> None:
        """One line of ``DSH_TRACE_HOOKS=1``."""
        text = repr(outcome)
        text = text if len(text) <= 200 else text[:197] + "..."
        print(f"hook {hook} [{', '.join(plugins)}] {ms:.2f} ms -> {text}", file=sys.stderr)


def altered(answer: Any, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The fields in which an answer differs from the argument of its class; None if there is none, or none does."""
    kind = type(answer)
    if not attrs.has(kind):
        return None
    for value in arguments.values():
        if type(value) is kind:
            return changed_fields(value, answer)
    return None


def changed_fields(before: Any, after: Any) -> tuple[str, ...] | None:
    """The names of the attrs fields in which `after` differs; none for another class; None for an equal value."""
    if after is before or after == before:
        return None
    if type(after) is not type(before) or not attrs.has(type(after)):
        return ()
    return tuple(
        a.alias for a in attrs.fields(type(after)) if a.eq and getattr(after, a.name) != getattr(before, a.name)
    )
