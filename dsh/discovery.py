"""Finding plugins: entry points, in two passes, in the order of their names.

First every plugin is imported and its ``dsh_add_hookspecs`` is called; then all are registered.
So the order of calls is the same on every machine, and a plugin may implement the hooks of any
other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points

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
    bundled_only: bool = False,
    warn: Callable[[str], None] = lambda message: None,
) -> None:
    """Load the installed plugins and those that the program gives.

    Args:
        given: plugins by name: modules or objects.  One takes the place of an installed one of its name.
        discover: look for installed plugins at all.
        disabled: names that are not loaded.
        required: names that must be loaded; a guard that is missing stops the program.
        bundled_only: leave out what other distributions brought.
        warn: told of plugins that are skipped.

    Raises:
        PluginError: two distributions have an entry point of one name, or a required or a given
            plugin cannot be loaded.
    """
    given, required = dict(given or {}), frozenset(required)
    manager.blocked = set(disabled)
    found: dict[str, tuple[object, Callable[[], object]]] = {}
    if discover:
        for name, entry in _entries(bundled_only).items():
            if name not in given:
                found[name] = (entry, entry.load)
    for name, plugin in given.items():
        found[name] = (None, lambda plugin=plugin: plugin)  # type: ignore[misc]  # the default binds the loop's value
    for name in sorted(manager.blocked & required):
        warn(f"the required plugin {name} is left out")
    for name in sorted(required - found.keys() - manager.blocked):
        raise PluginError(f"the required plugin {name!r} is not installed{did_you_mean(name, found)}")

    loaded: dict[str, object] = {}
    for name in sorted(found):
        if name in manager.blocked:
            continue
        entry_point, load = found[name]
        distribution = _distribution(entry_point)
        if distribution is not None:
            manager.distributions[name] = distribution

        def give_up(error: Exception, name: str = name) -> None:
            came_from = manager.distributions.pop(name, (None, ""))[0]
            place = f" of {came_from}" if came_from else ""
            if name in required or name in given:
                raise PluginError(f"the plugin {name}{place} cannot be loaded: {_said(error)}") from error
            manager.failed[name] = LoadFailure(name, came_from, error)
            warn(f"the plugin {name}{place} is skipped, it cannot be loaded: {_said(error)}")

        try:
            plugin = load()
            if inspect.isclass(plugin):
                plugin = plugin()
            _add_hookspecs(manager, plugin)
        except Exception as exc:
            give_up(exc)
        else:
            loaded[name] = (plugin, give_up)
    for name, (plugin, give_up) in loaded.items():  # type: ignore[misc]  # pairs, as put in above
        try:
            manager.register(plugin, name)
        except Exception as exc:
            give_up(exc)


def _entries(bundled_only: bool) -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        other = found.get(entry.name)
        if other is not None:
            raise PluginError(
                f"two distributions bring a plugin called {entry.name!r}: "
                f"{_label(other)} and {_label(entry)}; uninstall one of them"
            )
        found[entry.name] = entry
    if bundled_only:
        return {name: entry for name, entry in found.items() if entry.dist is not None and entry.dist.name == HARNESS}
    return found


def _label(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _distribution(entry: object) -> tuple[str, str] | None:
    if isinstance(entry, EntryPoint) and entry.dist is not None:
        return entry.dist.name, entry.dist.version
    return None


def _add_hookspecs(manager: PluginManager, plugin: object) -> None:
    """Call a plugin's ``dsh_add_hookspecs`` before it, or any other plugin, is registered."""
    function = getattr(plugin, "dsh_add_hookspecs", None)
    if function is not None and getattr(function, f"{PROJECT}_impl", None) is not None:
        function(**({"manager": manager} if inspect.signature(function).parameters else {}))


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if not isinstance(error, PluginError) else str(error)
