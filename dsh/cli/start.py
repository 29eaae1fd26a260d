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
from ..errors import ConfigError, LimitError, LlmError, PluginError, blamed_message, error_code
from ..layers import Layer
from ..structure import did_you_mean
from . import complain
from .parser import LIMITS, is_rule
from .trusting import settled

if TYPE_CHECKING:
    from ..harness import Harness
    from ..hooks import PluginManager

__all__ = ["Start", "directory", "entry_names", "loaded", "opened", "permission_layers", "settle"]


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


def settle(args: argparse.Namespace, *, may_ask: bool = False, warn: Callable[[str], None] | None = None) -> Start:
    """Read the settings and lay the flags over them.

    Args:
        may_ask: whether the person may be asked to trust the folder.
        warn: told of what is left out; if not given, it is said on stderr, but for ``--quiet``.

    Raises:
        ConfigError: a flag, a setting or a plugin of ``-e`` is wrong.
    """
    cwd = directory(args.cd)
    home = dsh_home(os.environ)
    if warn is None:
        warn = _silent if args.quiet else complain
    overrides = [*args.config, *_limits(args)]
    try:
        folder = settled(args, cwd, home, warn, may_ask=may_ask)
    except ConfigError:
        # Of all files at once, this says more; what else may be wrong with the folder it does not look at.
        load_config(cwd=cwd, home=home, environ=os.environ, overrides=overrides, profile=args.profile)
        raise
    config = load_config(
        cwd=cwd,
        home=home,
        environ=os.environ,
        overrides=overrides,
        profile=args.profile,
        flags=[*permission_layers(args, cwd), *_models(args)],
        folder=folder,
    )
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
        config = _add_project(config, extras, args.safe_mode, warn)
    if args.no_plugin:
        known = {*entry_names(), *extras, *(plugin.name for plugin in (folder.plugins if folder else ()))}
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
    """The flags that limit a run or what a plugin lets pass, as settings."""
    for flag, key in LIMITS.items():
        value = getattr(args, flag, None)
        if value is not None:
            yield f"budget.{key}={value}"
    if getattr(args, "strict_prefix", False):
        yield "prefix.strict=true"


def permission_layers(args: argparse.Namespace, cwd: Path) -> Iterator[Layer]:
    """The flags that say what may be done, as settings that know which flag they are."""
    folders = [str(cwd / Path(named).expanduser()) for named in getattr(args, "add_dir", ())]
    for named in folders:
        if not os.path.isdir(named):
            raise ConfigError(f"--add-dir {named}: there is no such directory", code="USAGE")
    if getattr(args, "sandbox", None):
        yield Layer("--sandbox", {"sandbox": {"mode": args.sandbox}})
    rules = {
        ("--permission-mode", "mode"): getattr(args, "permission_mode", None),
        ("--allowed-tools", "allow"): list(getattr(args, "allowed_tools", ())),
        ("--disallowed-tools", "deny"): [text for text in getattr(args, "disallowed_tools", ()) if is_rule(text)],
        ("--add-dir", "add_dirs"): folders,
    }
    for (flag, key), value in rules.items():
        if value:
            yield Layer(flag, {"permissions": {key: value}})


def _models(args: argparse.Namespace) -> Iterator[Layer]:
    """The flags that say which models are asked beside the first, and how."""
    if getattr(args, "effort", None):
        yield Layer("--effort", {"effort": args.effort})
    if getattr(args, "fallback_model", None):
        yield Layer("--fallback-model", {"fallback": {"models": list(args.fallback_model)}})


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
            guards=GUARDS,
            bundled_only=start.safe_mode,
        )
    return manager


@asynccontextmanager
async def opened(
    start: Start, more: Mapping[str, object] | None = None, *, attended: bool = False
) -> AsyncIterator[Harness]:
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
                config,
                plugins=plugins,
                safe_mode=start.safe_mode,
                home=start.home,
                warn=start.warn,
                attended=attended,
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


def directory(named: str | None) -> Path:
    """The working directory, or the one that ``-C`` names.

    Raises:
        ConfigError: it is not there.
    """
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


def _add_project(config: Config, extras: dict[str, object], safe_mode: bool, warn: Callable[[str], None]) -> Config:
    """Add the plugins of a trusted project to `extras`; return the settings without the tables of those left out."""
    folder = config.folder
    if folder is None or not folder.trusted or not folder.plugins:
        return config
    from .extra import load_source

    left_out: set[str] = set()
    for plugin in folder.plugins:
        if safe_mode:
            left_out.add(plugin.name)
        elif plugin.name in extras:
            raise ConfigError(f"{plugin.label}: there is a plugin {plugin.name} already")
        elif plugin.name not in config.plugins.disabled:
            try:
                extras[plugin.name] = load_source(plugin)
            except PluginError as error:
                if plugin.name in config.plugins.required:
                    raise
                warn(f"the plugin {plugin.name} is skipped: {error.message}")
                left_out.add(plugin.name)
    return evolve(config, tables={name: table for name, table in config.tables.items() if name not in left_out})
