"""From arguments to a harness: settings, further plugins, warnings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from ..config import GUARDS, Config, dsh_home, load_config
from ..errors import ConfigError, LimitError, LlmError, blamed_message, error_code
from ..structure import did_you_mean
from . import complain
from .parser import LIMITS

if TYPE_CHECKING:
    from ..harness import Harness
    from ..hooks import PluginManager

__all__ = ["Start", "entry_names", "loaded", "opened", "settle"]


@frozen
class Start:
    """What a command starts with.

    Attributes:
        cwd: the working directory, absolute.
        home: the directory of the user's settings and sessions.
        plugins: those of ``-e`` and ``plugins.load``, imported, by name.
        warn: tells the person; says nothing with ``--quiet``.
        safe_mode: leave out third parties' plugins.
    """

    config: Config
    cwd: Path
    home: Path
    plugins: Mapping[str, object]
    warn: Callable[[str], None]
    safe_mode: bool = False


def settle(args: argparse.Namespace) -> Start:
    """Read the settings and lay the flags over them.

    Raises:
        ConfigError: a flag, a setting or a plugin of ``-e`` is wrong.
    """
    cwd = _directory(args.cd)
    home = dsh_home(os.environ)
    warn = _silent if args.quiet else complain
    overrides = [*args.config, *_limits(args)]
    config = load_config(cwd=cwd, home=home, environ=os.environ, overrides=overrides, profile=args.profile)
    if getattr(args, "model", None):
        config = evolve(config, model=args.model)
    for name in ("system_prompt", "append_system_prompt"):
        if getattr(args, name, None) is not None:
            config = evolve(config, **{name: getattr(args, name)})
    if config.plugins.disabled:
        _check_disabled(config, warn)
    config = _plugins(config, args)
    if args.debug:
        checks = {"enabled": True, **config.tables.get("invariants", {})}
        config = evolve(config, tables={**config.tables, "invariants": checks})
    named = [_Named(spec, "plugins.load: ", home) for spec in config.plugins.load]
    named += [_Named(spec, "--plugin ", cwd) for spec in args.plugin]
    with redirect_stdout(sys.stderr):
        extras = _load(named)
    if args.no_plugin:
        known = {*entry_names(), *extras}
        for name in args.no_plugin:
            if name not in known:
                complain(f"--no-plugin {name}: there is no such plugin{did_you_mean(name, known)}")
    return Start(config, cwd, home, extras, warn, args.safe_mode)


def _check_disabled(config: Config, warn: Callable[[str], None]) -> None:
    known = entry_names()
    for name in config.plugins.disabled:
        if name not in known:
            warn(f"plugins.disabled: there is no plugin {name}{did_you_mean(name, known)}")


def _limits(args: argparse.Namespace) -> Iterator[str]:
    """The flags that limit a run, as settings."""
    for flag, key in LIMITS.items():
        value = getattr(args, flag, None)
        if value is not None:
            yield f"budget.{key}={value}"


def _plugins(config: Config, args: argparse.Namespace) -> Config:
    """`config` with the flags about plugins."""
    plugins = config.plugins
    for name in args.no_plugin:
        if name in GUARDS or name in plugins.required:
            # the one way to drop a guard, and so it is said even with --quiet
            complain(f"running without the guard {name}")
        required = tuple(other for other in plugins.required if other != name)
        plugins = evolve(plugins, required=required, disabled=(*plugins.disabled, name))
    if not args.safe_mode:
        return evolve(config, plugins=plugins)
    if args.plugin:
        raise ConfigError("--safe-mode and --plugin exclude each other", code="USAGE")
    left_out = _third_parties()
    tables = {name: table for name, table in config.tables.items() if name not in left_out}
    return evolve(config, plugins=evolve(plugins, load=()), tables=tables)


def _third_parties() -> set[str]:
    from ..discovery import HARNESS

    return {name for name, distribution in entry_names().items() if distribution != HARNESS}


def entry_names() -> dict[str, str | None]:
    """The installed plugins' names, with their distributions; nothing is imported."""
    from importlib.metadata import entry_points

    from ..discovery import GROUP

    return {entry.name: entry.dist.name if entry.dist is not None else None for entry in entry_points(group=GROUP)}


def loaded(start: Start) -> PluginManager:
    """The plugins, loaded and registered, without a harness.

    Raises:
        PluginError: a required plugin, or one that was named by hand, cannot be loaded.
    """
    from ..discovery import load_plugins
    from ..hooks import PluginManager
    from ..hookspecs import Hooks

    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    plugins = start.config.plugins
    with redirect_stdout(sys.stderr):
        load_plugins(
            manager,
            given=start.plugins,
            disabled=plugins.disabled,
            required=plugins.required,
            bundled_only=start.safe_mode,
        )
    return manager


@asynccontextmanager
async def opened(start: Start, more: Mapping[str, object] | None = None) -> AsyncIterator[Harness]:
    """`open_harness` for `start`, with the program's own plugins `more`.

    What plugins print while it opens and closes goes to stderr.

    Raises:
        ConfigError: a setting is wrong, or a plugin does not let the harness open.
        Exception: what a plugin raised while it closed.
    """
    from ..harness import open_harness

    plugins = {**start.plugins, **(more or {})}
    # The agents of [[agents]] are for programs that embed dsh; a command makes its own.
    config = evolve(start.config, agents=())
    stdout, is_open = sys.stdout, False
    with redirect_stdout(sys.stderr):
        try:
            async with open_harness(
                config, plugins=plugins, safe_mode=start.safe_mode, home=start.home, warn=start.warn
            ) as harness:
                is_open = True
                with redirect_stdout(stdout):
                    yield harness
        except Exception as error:
            if is_open or isinstance(error, ConfigError | LimitError | LlmError):
                raise
            raise ConfigError(
                f"dsh cannot start: {type(error).__name__}: {blamed_message(error)}; --debug shows where",
                code=error_code(error),
            ) from error


def _silent(message: str) -> None:
    pass


def _directory(named: str | None) -> Path:
    wanted = None if named is None else Path(named).expanduser()
    try:
        cwd = Path.cwd()
    except FileNotFoundError:
        if wanted is None or not wanted.is_absolute():
            raise ConfigError("the working directory does not exist any more; use -C with an absolute path") from None
        cwd = Path("/")
    if wanted is None:
        return cwd
    path = (cwd / wanted).resolve()
    if not path.is_dir():
        raise ConfigError(f"-C {named}: {'is no directory' if path.exists() else 'there is no such directory'}")
    return path


@frozen
class _Named:
    spec: str
    said: str
    base: Path


def _load(wanted: Iterable[_Named]) -> dict[str, object]:
    found: dict[str, object] = {}
    for named in wanted:
        from .extra import load_plugin

        name, plugin = load_plugin(named.spec, named.base, named.said)
        if name in found:
            raise ConfigError(f"{named.said}{named.spec}: there is a plugin {name} already")
        found[name] = plugin
    return found
