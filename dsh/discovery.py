"""Finding plugins: entry points, in two passes, in the order of their names.

First every plugin is imported and its ``dsh_add_hookspecs`` is called; then all are registered.
So the order of calls is the same on every machine, and a plugin may implement the hooks of any
other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import Distribution, EntryPoint, entry_points

from attrs import frozen

from .errors import PluginError
from .hooks import LoadFailure, PluginManager
from .hooks.markers import PROJECT
from .hooks.spec import did_you_mean

__all__ = ["GROUP", "HARNESS", "load_plugins"]

GROUP = "dsh"
HARNESS = "dsh-harness"


def load_plugins(
    manager: PluginManager,
    *,
    given: Mapping[str, object] | None = None,
    discover: bool = True,
    disabled: Iterable[str] = (),
    required: Iterable[str] = (),
    guards: Iterable[str] = (),
    bundled_only: bool = False,
    warn: Callable[[str], None] = lambda message: None,
) -> None:
    """Load the installed plugins and those that the program gives.

    Args:
        given: plugins by name: modules or objects.  One takes the place of an installed one of its name
            only if that one is disabled.
        discover: look for installed plugins at all.
        disabled: names that are not loaded.
        required: names that must be loaded; a guard that is missing stops the program.
        guards: names that must be loaded if they are installed.
        bundled_only: leave out what other distributions brought.
        warn: told of plugins that are skipped.

    Raises:
        PluginError: two distributions have an entry point of one name, a given plugin has the name of an
            installed one, or a required or a given plugin cannot be loaded.
    """
    if given is not None and not isinstance(given, Mapping):
        raise PluginError(
            f"plugins are given by name, as in plugins={{'guard': Guard}}, not as a {type(given).__name__}"
        )
    given, required = dict(given or {}), frozenset(required)
    for name, plugin in given.items():
        _refuse_none(name, plugin)
    manager.blocked = set(disabled)
    found = {name: _Candidate(name, entry=entry) for name, entry in _entries(discover, bundled_only).items()}
    for name in sorted(given.keys() & found.keys() - manager.blocked):
        entry = found[name].entry
        brought = _label(entry) if entry is not None else "another"
        raise PluginError(
            f"there are two plugins called {name!r}: the one given here, and that of {brought}; "
            f"give yours another name, or leave that one out (--no-plugin {name})"
        )
    found |= {name: _Candidate(name, given=plugin) for name, plugin in given.items()}
    for name in sorted(manager.blocked & required):
        warn(f"the required plugin {name} is left out")
    for name in sorted(required - found.keys() - manager.blocked):
        raise PluginError(f"the required plugin {name!r} is not installed{did_you_mean(name, found)}")
    must = required.union(guards)

    def give_up(candidate: _Candidate, error: Exception) -> None:
        name, came_from = candidate.name, candidate.distribution
        place = f" of {came_from[0]}" if came_from else ""
        said = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        if name in must or name in given:
            raise PluginError(f"the plugin {name}{place} cannot be loaded: {said}") from error
        manager.distributions.pop(name, None)
        manager.failed[name] = LoadFailure(name, came_from[0] if came_from else None, error)
        warn(f"the plugin {name}{place} is skipped, it cannot be loaded: {said}")

    loaded: list[tuple[_Candidate, object]] = []
    for name in sorted(found.keys() - (manager.blocked - given.keys())):
        candidate = found[name]
        if candidate.distribution is not None:
            manager.distributions[name] = candidate.distribution
        try:
            plugin = candidate.load()
            _add_hookspecs(manager, plugin)
        except Exception as exc:
            give_up(candidate, exc)
        else:
            loaded.append((candidate, plugin))
    for candidate, plugin in loaded:
        try:
            manager.register(plugin, candidate.name)
        except Exception as exc:
            give_up(candidate, exc)
        else:
            if candidate.name in given and not manager.get_hookcallers(plugin):
                warn(f"the plugin {candidate.name} implements no hook: it needs functions marked with @hookimpl")


def _refuse_none(name: object, plugin: object) -> None:
    """Refuse what cannot be a plugin, so that nobody takes a guard to be there that is not.

    Raises:
        PluginError: it is a value of Python's own, or a function.
    """
    if not isinstance(name, str):
        raise PluginError(f"a plugin's name is a text, not {name!r:.80}")
    if isinstance(plugin, str):
        raise PluginError(f"the plugin {name} is a text, {plugin!r:.80}: give the module, not its name")
    if inspect.isroutine(plugin) or isinstance(plugin, _NO_PLUGINS):
        raise PluginError(f"the plugin {name} is no plugin: give a module, a class or an object, not {plugin!r:.80}")


_NO_PLUGINS = (bytes, int, float, complex, list, tuple, dict, set, frozenset, type(None))


@frozen
class _Candidate:
    """A plugin that may be loaded: one that the program gives, or an installed one."""

    name: str
    given: object = None
    entry: EntryPoint | None = None

    @property
    def distribution(self) -> tuple[str, str] | None:
        """Name and version of the distribution that brought it."""
        return None if self.entry is None else _brought_by(self.entry)

    def load(self) -> object:
        """Import it; of a class, make an object."""
        try:
            plugin = self.given if self.entry is None else self.entry.load()
            return plugin() if inspect.isclass(plugin) else plugin
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as exc:  # a script that is no module must not end the program in silence
            raise PluginError(f"importing it wants to end the program ({type(exc).__name__}: {exc})") from exc


def _entries(discover: bool, bundled_only: bool) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP) if discover else ():
        if bundled_only and (_brought_by(entry) or ("",))[0] != HARNESS:
            continue
        other = found.get(entry.name)
        if other is not None:
            raise PluginError(
                f"two distributions bring a plugin called {entry.name!r}: "
                f"{_label(other)} and {_label(entry)}; uninstall one of them"
            )
        found[entry.name] = entry
    return found


def _label(entry: EntryPoint) -> str:
    return " ".join(_brought_by(entry) or (entry.value,))


def _brought_by(entry: EntryPoint) -> tuple[str, str] | None:
    """Name and version of the distribution that an entry point is of."""
    return None if entry.dist is None else _identity(entry.dist)


@functools.cache
def _identity(distribution: Distribution) -> tuple[str, str]:
    # Each question parses a whole METADATA, and one distribution brings two dozen plugins.
    metadata = distribution.metadata
    return metadata["Name"], metadata["Version"]


def _add_hookspecs(manager: PluginManager, plugin: object) -> None:
    """Call a plugin's ``dsh_add_hookspecs`` before it, or any other plugin, is registered."""
    function = getattr(plugin, "dsh_add_hookspecs", None)
    if inspect.iscoroutinefunction(function):
        return  # registering it says what is wrong
    if function is not None and getattr(function, f"{PROJECT}_impl", None) is not None:
        function(**({"manager": manager} if inspect.signature(function).parameters else {}))
