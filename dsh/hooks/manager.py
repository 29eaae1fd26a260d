"""The plugins of a program, and those of one agent."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import pluggy
from attrs import frozen
from pluggy import HookImpl

from ..errors import PluginError
from .markers import PROJECT
from .relay import Relay
from .spec import Spec, complaint, spec_of
from .step import ASYNC_WRAPPER, wraps
from .trace import Settings

__all__ = ["LoadFailure", "PluginInfo", "PluginManager"]


@frozen
class PluginInfo:
    """A registered plugin.

    Attributes:
        distribution: the installed distribution it came from; None for one given by the program.
        version: of that distribution; empty if there is none.
        hooks: the names of the hooks it implements.
    """

    name: str
    plugin: object
    distribution: str | None
    version: str
    hooks: tuple[str, ...]


@frozen
class LoadFailure:
    """A plugin that could not be loaded."""

    name: str
    distribution: str | None
    error: Exception


class PluginManager(pluggy.PluginManager):
    """A pluggy manager with a relay, and with layers: `scope` makes one that lies over this one.

    Attributes:
        relay: calls the hooks, as attributes: ``manager.relay.agent_status(agent=..., status=...)``.
        specs: the known hooks, by name, shared by all layers.
        settings: shared by all layers.
        distributions: by plugin name, the distribution it came from and its version.
        failed, blocked: the plugins that could not, and those that should not be loaded.
        on_gone: told the name of each plugin that was taken out.
    """

    def __init__(self, parent: PluginManager | None = None, settings: Settings | None = None) -> None:
        super().__init__(PROJECT)
        self.parent = parent
        self.specs: dict[str, Spec] = {} if parent is None else parent.specs
        self.settings: Settings = parent.settings if parent is not None else settings or Settings()
        self.distributions: dict[str, tuple[str, str]] = {}
        self.failed: dict[str, LoadFailure] = {}
        self.blocked: set[str] = set()
        self.on_gone: Callable[[str], None] | None = None
        self._numbers: Iterator[int] = itertools.count() if parent is None else parent._numbers
        self._registered: dict[str, int] = {}
        self._inherited: set[str] = set()
        self.relay = Relay(self)

    def scope(self) -> PluginManager:
        """A layer of plugins over these, heard through its own relay alone.

        It hears this layer's deciding hooks; of the others only the program's, and those of
        plugins registered with ``inherit=True``.
        """
        child = PluginManager(self)
        self.relay._children.add(child.relay)
        return child

    def add_hookspecs(self, module_or_class: Any) -> None:
        """Make the marked functions of a module or class known as hooks.

        Raises:
            ValueError: a spec contradicts itself, a hook of that name exists, or there is none in it.
        """
        found: dict[str, Spec] = {}
        for name in dir(module_or_class):
            opts = self.parse_hookspec_opts(module_or_class, name)
            if opts is None:
                continue
            if name in self.specs:
                raise ValueError(f"there is a hook {name} already")
            if name.startswith("_") or hasattr(Relay, name):
                raise ValueError(f"a hook cannot be called {name}")
            function = getattr(module_or_class, name)
            found[name] = spec_of(name, function, firstresult=opts["firstresult"], historic=opts["historic"])
        super().add_hookspecs(module_or_class)
        self.specs.update(found)
        self.relay._forget()

    def register(self, plugin: object, name: str | None = None, *, inherit: bool = False) -> str | None:
        """Register a plugin: a module, or an object whose methods are marked.

        Args:
            plugin: what holds the implementations.
            name: what it is called; a module's own name if not given.
            inherit: in a scope, let child scopes hear its notifications and collections, too.

        Raises:
            PluginError: an implementation does not fit its hook.  Nothing is registered then.
            ValueError: the plugin, or one of that name, is registered.
        """
        label = name or self.get_canonical_name(plugin)
        self._check(plugin, label)
        registered = super().register(plugin, name)
        if registered is not None:
            self._registered[registered] = next(self._numbers)
            if inherit:
                self._inherited.add(registered)
        self.relay._forget()
        return registered

    def unregister(self, plugin: object | None = None, name: str | None = None) -> Any:
        """Take a plugin out again; calls that run at the time keep what they began with."""
        label = name if name is not None else self.get_name(plugin)
        found = super().unregister(plugin, name)
        self._registered.pop(str(label), None)
        self._inherited.discard(str(label))
        self.relay._forget()
        if self.on_gone is not None:
            self.on_gone(str(label))
        return found

    @contextmanager
    def using(self, plugin: object, name: str | None = None) -> Iterator[None]:
        """Register `plugin` for the length of a ``with`` block."""
        self.register(plugin, name)
        try:
            yield
        finally:
            self.unregister(plugin)

    def implementations(self, hook: str) -> list[HookImpl]:
        """The implementations of `hook`, in the order in which they are called."""
        return [impl for impl, _ in self.chain(hook)]

    def chain(self, hook: str) -> list[tuple[HookImpl, int]]:
        """`implementations`, each with the number of the layer that its plugin is in; 0 is the program's."""
        spec = self.specs[hook]
        found: list[tuple[tuple[bool, int, int, int], HookImpl]] = []
        layer: PluginManager | None = self
        depth = 0
        while layer is not None:
            caller = getattr(layer.hook, hook, None)
            heard = layer is self or layer.parent is None or spec.decides
            for impl in reversed(caller.get_hookimpls()) if caller is not None else ():
                if heard or impl.plugin_name in layer._inherited:
                    number = layer._registered.get(impl.plugin_name, 0)
                    band = impl.trylast - impl.tryfirst
                    found.append(((not wraps(impl), band, depth, number if impl.trylast else -number), impl))
            layer, depth = layer.parent, depth + 1
        return [(impl, depth - 1 - key[2]) for key, impl in sorted(found, key=lambda pair: pair[0])]

    def sharing(self, spec: Spec) -> PluginManager:
        """The lowest layer that hears `spec` just as this one does, so that they can share its call."""
        layer = self
        while layer.parent is not None and not layer.get_plugins():
            layer = layer.parent
        if spec.decides or layer is self:
            return layer
        # Between here and the program's layer, only inherited plugins are heard.
        while layer.parent is not None and not layer._inherited:
            layer = layer.parent
        return layer if layer.parent is None else self

    def clear(self) -> None:
        """Unregister everything in this layer, last come first gone."""
        for name in sorted(self._registered, key=self._registered.__getitem__, reverse=True):
            self.unregister(name=name)

    def version_of(self, plugin_name: str) -> str:
        """The version of a plugin's distribution; empty if it has none.  A part of a plugin has the plugin's."""
        for name in (plugin_name, plugin_name.partition(".")[0]):
            layer: PluginManager | None = self
            while layer is not None:
                if name in layer.distributions:
                    return layer.distributions[name][1]
                layer = layer.parent
        return ""

    def loaded(self) -> list[PluginInfo]:
        """The plugins of this layer, by name."""
        found = []
        for name, plugin in sorted(self.list_name_plugin(), key=lambda pair: pair[0]):
            if plugin is None:
                continue
            callers = self.get_hookcallers(plugin) or []
            distribution, version = self.distributions.get(name, (None, ""))
            found.append(PluginInfo(name, plugin, distribution, version, tuple(sorted({c.name for c in callers}))))
        return found

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """pluggy's parser; async wrappers, which pluggy would refuse, pass it as plain ones with a mark."""
        if _unmarked(plugin, name):
            return None
        opts: Any = super().parse_hookimpl_opts(plugin, name)
        if opts is None:
            return None
        if (opts.get("specname") or name) not in self.specs:
            return None  # optional, as `_check` has seen
        if opts.get("wrapper") and inspect.isasyncgenfunction(getattr(plugin, name)):
            return {**opts, "wrapper": False, ASYNC_WRAPPER: True}
        return opts

    def _check(self, plugin: object, label: str) -> None:
        """Refuse a plugin that does not fit, before any state changes."""
        for name in dir(plugin):
            if name.startswith("__"):
                continue
            opts: Any = None if _unmarked(plugin, name) else super().parse_hookimpl_opts(plugin, name)
            function: Callable[..., Any] = getattr(plugin, name, lambda: None)
            if opts is None:
                if name in self.specs and _forgotten(plugin, function):
                    raise PluginError(f"plugin {label}: {name} has a hook's name but is not marked with @hookimpl")
                continue
            hook = opts.get("specname") or name
            problem = complaint(self.specs.get(hook), hook, function, opts, self.specs)
            if problem is not None:
                raise PluginError(f"plugin {label}: {problem}")


def _unmarked(plugin: object, name: str) -> bool:
    """Whether it is seen at a glance that a module's `name` is no implementation.

    Most names of a module are none, and pluggy, which looks at objects of any kind, takes many times as long to see it.
    """
    if not inspect.ismodule(plugin):
        return False
    value = vars(plugin).get(name)
    if inspect.isfunction(value):
        return not hasattr(value, f"{PROJECT}_impl")
    return not isinstance(value, MethodType | staticmethod | classmethod)


def _forgotten(plugin: object, function: object) -> bool:
    """Whether an unmarked function looks like an implementation: written in the plugin itself."""
    if inspect.ismodule(plugin):
        return inspect.isfunction(function) and function.__module__ == plugin.__name__
    return inspect.ismethod(function) or inspect.isfunction(function)
