"""``dsh plugin info``: everything about one plugin."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, error_message
from ...structure import did_you_mean
from ..start import entry_names

if TYPE_CHECKING:
    from ...hooks import PluginManager

__all__ = ["about", "lines"]


def about(manager: PluginManager, name: str) -> dict[str, Any]:
    """What there is to know of a plugin: where it comes from, whether it is loaded, and what it implements.

    Raises:
        ConfigError: there is no such plugin.
    """
    installed = entry_names()
    infos = {info.name: info for info in manager.loaded()}
    if name not in infos and name not in installed and name not in manager.failed:
        raise ConfigError(f"there is no plugin {name}{did_you_mean(name, {*infos, *installed})}", code="USAGE")
    info, failure = infos.get(name), manager.failed.get(name)
    plugin = manager.get_plugin(name)
    state = "loaded" if info is not None else "failed" if failure is not None else "not loaded"
    return {
        "name": name,
        "state": state,
        "reason": error_message(failure.error) if failure is not None else None,
        "version": (info.version or None) if info is not None else None,
        "distribution": info.distribution if info is not None else installed.get(name),
        "file": _file(plugin),
        "description": _first_line(inspect.getdoc(plugin)) if plugin is not None else None,
        "hooks": list(_hooks(manager, name)),
    }


def lines(record: dict[str, Any]) -> Iterator[str]:
    """The same for a person."""
    yield f"{record['name']} {record['version'] or ''}".rstrip() + f": {record['state']}"
    if record["reason"]:
        yield f"  {record['reason']}"
    if record["description"]:
        yield f"  {record['description']}"
    yield f"  distribution  {record['distribution'] or '-'}"
    yield f"  file          {record['file'] or '-'}"
    for hook in record["hooks"]:
        how = f" ({', '.join(hook['how'])})" if hook["how"] else ""
        yield f"  {hook['hook']}{how}  {hook['file']}:{hook['line']}"


def _hooks(manager: PluginManager, name: str) -> Iterator[dict[str, Any]]:
    """What the plugin, and what it registered under names of its own, implements."""
    for hook in sorted(manager.specs):
        for implementation in manager.implementations(hook):
            if implementation.plugin_name.partition(".")[0] != name:
                continue
            code = getattr(inspect.unwrap(implementation.function), "__code__", None)
            flags = ("wrapper", "tryfirst", "trylast", "optionalhook")
            yield {
                "hook": hook,
                "how": [flag for flag in flags if getattr(implementation, flag, False)],
                "file": _short(code.co_filename) if code is not None else None,
                "line": code.co_firstlineno if code is not None else None,
            }


def _file(plugin: object) -> str | None:
    if plugin is None:
        return None
    try:
        return _short(inspect.getfile(plugin if inspect.ismodule(plugin) else type(plugin)))
    except (TypeError, OSError):
        return None


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _first_line(text: str | None) -> str | None:
    return text.strip().splitlines()[0] if text and text.strip() else None
