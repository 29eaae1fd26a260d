"""The relay: hooks as attributes, called by the rules of their kind.

A hook's call is built when it is first used and kept until a plugin comes or goes, here or in
a layer below.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pluggy import HookImpl

from . import calls
from .gates import gate_core, gate_wrapped
from .spec import Spec, did_you_mean
from .step import Call, Inner, Step, wraps
from .trace import Settings
from .wrappers import wrapped

if TYPE_CHECKING:
    from .manager import PluginManager

__all__ = ["Relay", "build"]


class Relay:
    """The hooks of one layer of plugins, as attributes."""

    def __init__(self, manager: PluginManager) -> None:
        self._manager = manager
        self._children: weakref.WeakSet[Relay] = weakref.WeakSet()

    def __getattr__(self, hook: str) -> Call:
        if hook.startswith("_"):
            raise AttributeError(hook)
        manager = self._manager
        spec = manager.specs.get(hook)
        if spec is None:
            raise AttributeError(f"there is no hook {hook!r}{did_you_mean(hook, manager.specs)}")
        source = manager.sharing(spec)
        call: Call
        if source is not manager:
            call = getattr(source.relay, hook)
        else:
            call = build(spec, manager.chain(hook), manager.settings)
        self.__dict__[hook] = call
        return call

    def without(self, hook: str, *plugins: object) -> Call:
        """`hook` as if `plugins` were not there."""
        manager = self._manager
        impls = [pair for pair in manager.chain(hook) if not any(pair[0].plugin is plugin for plugin in plugins)]
        return build(manager.specs[hook], impls, manager.settings)

    def _forget(self) -> None:
        for name in [name for name in self.__dict__ if not name.startswith("_")]:
            del self.__dict__[name]
        for child in list(self._children):
            child._forget()


def build(spec: Spec, impls: Sequence[tuple[HookImpl, int]], settings: Settings) -> Call:
    """The call of `spec` with these implementations."""
    steps = tuple(Step.of(impl, layer, spec, settings) for impl, layer in impls if not wraps(impl))
    wrappers = tuple(Step.of(impl, layer, spec, settings) for impl, layer in impls if wraps(impl))
    inner: Inner
    if spec.kind == "gate":
        inner = gate_core(spec, steps, settings, last=not wrappers)
        if wrappers:
            inner = gate_wrapped(spec, wrappers, inner, settings)
        call = calls.outer(spec, inner, settings, empty=not impls)
    elif not impls:
        call = calls.empty(spec)
    elif not spec.awaited:
        call = calls.called(spec, steps, settings)
        if wrappers:
            call = calls.run_in_frame(
                calls.outer(spec, wrapped(spec, wrappers, calls.lifted(call), settings), settings)
            )
    else:
        cores = {
            "decide": calls.decide,
            "settle": calls.settle,
            "checkpoint": calls.checkpoint,
            "collect": calls.checkpoint,
        }
        inner = cores[spec.kind](spec, steps, settings)
        if wrappers:
            inner = wrapped(spec, wrappers, inner, settings)
        call = calls.outer(spec, inner, settings)
    return calls.echoed(spec, [impl for impl, _ in impls], settings, call) if settings.echo and impls else call
