"""Settings: layers of TOML, the environment and flags, merged into one frozen `Config`.

Later layers win, key by key; lists are replaced, except those that only grow (`dsh.layers.GROWING`):

1. defaults
2. ``$DSH_HOME/config.toml``, the user's
3. ``.dsh/config.toml`` of the project
4. ``.dsh/config.local.toml`` of the project, and ``.dsh/config.allowed.toml``, which dsh writes
5. the environment: ``DSH_MODEL``
6. the ``[profiles.NAME]`` tables of those files, in the same order, when a profile is chosen
7. ``--config key=value``

The project is the nearest directory upwards that has a ``.dsh`` folder or a ``.git``.  Its files
come with whatever was cloned, so keys that would run code or send credentials elsewhere
(`dsh.layers.UNTRUSTED`) are left out unless a person trusts the folder (`dsh.trust`).  A table that is
not the core's own belongs to the plugin that claims it with `Config.section`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import Attribute, field, fields_dict, frozen, has

from .errors import ConfigError, all_mistakes
from .layers import Layer, merge, override, read_layer, take_profile, withhold
from .messages import Effort
from .patterns import late
from .structure import KeyPath, Problem, StructureError, did_you_mean, show_path, structure
from .trust import FILES, Folder, TrustStore, read_folder

__all__ = [
    "AgentConfig",
    "Config",
    "ConfigFiles",
    "HooksConfig",
    "PluginsConfig",
    "PromptConfig",
    "SessionsConfig",
    "config_files",
    "dsh_home",
    "dump",
    "load_config",
]

T = TypeVar("T")
GUARDS = ("permissions", "sandbox")
"""Plugins that a setting cannot disable; ``--no-plugin`` drops one for a run."""

_SECRET = re.compile(r"key|secret|token|password|authorization|cookie|credential", re.IGNORECASE)
_KEY_LIKE = late(r"(?:bearer|basic)\s|(?:sk|pk|ghp|xox[a-z])[-_]\w{6}|^[\w./+=-]{24,}$", re.IGNORECASE)


def _positive(instance: object, attribute: Attribute[float], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name} must be more than 0, got {value}")


@frozen
class HooksConfig:
    """The table ``[hooks]``.

    Attributes:
        deadline: seconds that an implementation of a gate may take.
        trace: whether plugins' decisions are recorded.
    """

    deadline: float = field(default=60.0, validator=_positive)
    trace: bool = True


@frozen
class PluginsConfig:
    """The table ``[plugins]``.

    Attributes:
        disabled: names of plugins that are not loaded.
        required: names of plugins without which nothing starts.
        load: further plugins: paths of Python files or folders, and names of modules.
    """

    disabled: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    load: tuple[str, ...] = ()


@frozen
class SessionsConfig:
    """The table ``[sessions]``.

    Attributes:
        store: the name of the plugin that stores sessions; the other stores do nothing.
    """

    store: str = "jsonl"


def _order(instance: object, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    twice = sorted({name for name in value if value.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands there twice")
    if value and "<unlisted-tools>" not in value:
        raise ValueError("needs the entry <unlisted-tools>, the place of all tools that are not named")


@frozen
class PromptConfig:
    """The table ``[prompt]``.

    Attributes:
        tool_order: names of tools in the order in which the model is shown them, with ``<unlisted-tools>``
            for the others; empty: by name.
    """

    tool_order: tuple[str, ...] = field(default=(), validator=_order)


def _not_empty(instance: object, attribute: Attribute[str], value: str) -> None:
    if not value:
        raise ValueError(f"{attribute.name} must not be empty")


@frozen
class AgentConfig:
    """One of ``[[agents]]``: an agent that a program finds running when its harness is open.

    Attributes:
        id: its id; a fresh session is called ``ID-session-`` and something unique.
        model: ``provider/name``; the configured one if not given.
        resume_session_id: the stored session that it goes on with.
    """

    id: str = field(validator=_not_empty)
    model: str | None = None
    resume_session_id: str | None = None


def _unique_agents(
    instance: object, attribute: Attribute[tuple[AgentConfig, ...]], value: tuple[AgentConfig, ...]
) -> None:
    ids = [agent.id for agent in value]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"two agents have the id {', '.join(twice)}")


@frozen
class _Core:
    model: str = ""
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    effort: Effort | None = None
    hooks: HooksConfig = HooksConfig()
    plugins: PluginsConfig = PluginsConfig()
    prompt: PromptConfig = PromptConfig()
    sessions: SessionsConfig = SessionsConfig()
    agents: tuple[AgentConfig, ...] = field(default=(), validator=_unique_agents)


_CORE = tuple(fields_dict(_Core))


@frozen
class Config(_Core):
    """All settings of a run.

    Attributes:
        model: ``provider/name``, or a provider's name for its default model; empty: the first that is configured.
        system_prompt: takes the place of the persona, when given.
        append_system_prompt: stands behind all sections of the system prompt, when given.
        effort: how much models think, one of `dsh.messages.EFFORTS`; their own way, when not given.
        agents: those that a program finds running when its harness is open; the command makes its own.
        tables: the tables of plugins, as they were written.
        origins: which file, variable or flag said what.
        layers: the sources that were merged, the strongest last, for who needs all that was said of something.
        folder: the project, and whether it is trusted; None where there is none.
    """

    tables: Mapping[str, Any] = field(factory=dict)
    origins: Mapping[KeyPath, str] = field(factory=dict, repr=False, eq=False)
    layers: tuple[Layer, ...] = field(default=(), repr=False, eq=False)
    folder: Folder | None = field(default=None, repr=False, eq=False)
    _claimed: set[str] = field(factory=set, init=False, repr=False, eq=False)
    _stores: set[str] = field(factory=set, init=False, repr=False, eq=False)

    def section(self, name: str, cls: type[T]) -> T:
        """The table ``[name]`` as a `cls`, an attrs class or ``dict[str, SomeClass]``; without the table its default.

        Raises:
            ConfigError: a key is unknown, a value has the wrong type; all of them at once, each with its file.
        """
        self._claimed.add(name)
        if name not in self.tables:
            return cls()
        try:
            return structure(self.tables[name], cls, (name,))
        except StructureError as error:
            raise _complain(error.problems, self.origins) from None

    def chooses_store(self, name: str) -> bool:
        """Whether the plugin `name` is to store the sessions; who asks is one that can be chosen."""
        self._stores.add(name)
        return self.sessions.store == name

    def unclaimed(self) -> list[str]:
        """The tables that no plugin has asked for."""
        return sorted(set(self.tables) - self._claimed)

    def refuse_unclaimed(self, excused: Collection[str] = ()) -> None:
        """Complain about tables that nobody asked for, except those of plugins that are known and not loaded.

        A chosen store that is none is complained of, too.

        Raises:
            ConfigError: there are some.
        """
        known = {*_CORE, *self._claimed}
        if self.folder is not None and not self.folder.trusted:
            excused = {*excused, *(plugin.name for plugin in self.folder.plugins)}
        problems = [
            Problem((name,), f"nothing has settings of that name{did_you_mean(name, known)}")
            for name in self.unclaimed()
            if name not in excused
        ]
        store = self.sessions.store
        if store != SessionsConfig().store and store not in {*self._stores, *excused}:
            hint = did_you_mean(store, self._stores)
            problems.append(Problem(("sessions", "store"), f"no plugin {store!r} stores sessions{hint}"))
        if problems:
            raise _complain(problems, self.origins)


@frozen
class ConfigFiles:
    """Where settings are read from, whether or not the files exist.

    Attributes:
        root: the project's directory; None where there is none.
    """

    user: Path
    root: Path | None = None
    project: Path | None = None
    local: Path | None = None
    allowed: Path | None = None


def dsh_home(environ: Mapping[str, str]) -> Path:
    """``$DSH_HOME``, or ``~/.dsh``."""
    named = environ.get("DSH_HOME")
    return Path(named).expanduser().absolute() if named else _person(environ) / ".dsh"


def _person(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def config_files(*, cwd: Path, home: Path, environ: Mapping[str, str]) -> ConfigFiles:
    """Which files `load_config` reads."""
    user = home / "config.toml"
    own = {home.resolve(), (_person(environ) / ".dsh").resolve()}
    start = cwd.absolute()
    for root in (start, *start.parents):
        folder = root / ".dsh"
        usable = folder.resolve() not in own
        # os.path, since pathlib raises for directories that may not be entered
        if usable and (os.path.isdir(folder) or os.path.exists(root / ".git")):
            return ConfigFiles(user, root, *(folder / name for name in FILES))
        if os.path.exists(root / ".git"):
            return ConfigFiles(user, root)
    return ConfigFiles(user)


def load_config(
    *,
    cwd: Path,
    home: Path,
    environ: Mapping[str, str],
    overrides: Sequence[str] = (),
    profile: str | None = None,
    flags: Sequence[Layer] = (),
    folder: Folder | None = None,
) -> Config:
    """Read all layers.

    Args:
        cwd: where the search for a project starts.
        home: the directory of the user's ``config.toml``.
        environ: the environment.
        overrides: ``key=value``, with dotted keys and TOML values; what is no TOML is text.
        profile: the name of the profile to lay over the files.
        flags: layers that stand above all others.
        folder: the project as somebody has read it, with what was said about it; read if not given, and trusted
            if it says so in `home`.

    Raises:
        ConfigError: a file cannot be read, is no TOML, or says something that is refused.
    """
    paths = config_files(cwd=cwd, home=home, environ=environ)
    user, mistakes = None, list[ConfigError]()
    try:
        user = read_layer(paths.user, cwd, True)
    except ConfigError as error:
        mistakes.append(error)
    if folder is None and paths.root is not None and paths.project is not None:
        try:
            folder = TrustStore(home).judged(read_folder(paths.root, cwd))
        except ConfigError as error:
            mistakes.append(error)
    given = list[Layer]()
    for text in overrides:
        try:
            given.append(override(text))
        except ConfigError as error:
            mistakes.append(error)
    files = [*([user] if user is not None else ()), *(folder.layers if folder is not None else ())]
    try:
        overlays = [withhold(layer) for layer in take_profile(files, profile)]
    except ConfigError:
        if not mistakes:
            raise
        overlays = []  # the profile may be in what cannot be read
    layers = [withhold(layer) for layer in files]
    if folder is not None and not folder.trusted:
        for layer in (*layers, *overlays):
            _drop_required(layer, {plugin.name for plugin in folder.plugins})
    if environ.get("DSH_MODEL"):
        layers.append(Layer("environment variable DSH_MODEL", {"model": environ["DSH_MODEL"]}))
    layers += overlays
    layers += [*given, *flags]
    if not mistakes:
        return _build(layers, folder)
    try:  # what can be read may be wrong as well
        _build(layers, folder)
    except ConfigError as error:
        mistakes.append(error)
    raise all_mistakes(mistakes)


def _drop_required(layer: Layer, absent: Collection[str]) -> None:
    """Let a project that is not trusted not require the plugins that it brings: they are left out."""
    plugins = layer.data.get("plugins")
    if layer.trusted or not isinstance(plugins, dict) or not isinstance(plugins.get("required"), list):
        return
    layer.data["plugins"] = {**plugins, "required": [name for name in plugins["required"] if name not in absent]}


def _build(layers: Sequence[Layer], folder: Folder | None) -> Config:
    merged: dict[str, Any] = {}
    origins: dict[KeyPath, str] = {}
    for layer in layers:
        merge(merged, layer.data, layer.label, origins, ())
    if not merged:
        return Config(folder=folder)
    core = {name: merged.pop(name) for name in _CORE if name in merged}
    problems = [
        Problem((name,), f"unknown key{did_you_mean(name, _CORE)}")
        for name, value in merged.items()
        if not isinstance(value, dict)
    ]
    try:
        values = {name: getattr(_structure_core(core), name) for name in core}
        config = Config(**values, tables=merged, origins=origins, layers=tuple(layers), folder=folder)
    except StructureError as error:
        raise _complain([*error.problems, *problems], origins) from None
    if problems:
        raise _complain(problems, origins)
    _check_guards(config)
    return config


def _structure_core(core: Mapping[str, Any]) -> _Core:
    if core.keys() <= {"model"} and isinstance(core.get("model", ""), str):
        return _Core(**core)  # spares the import of cattrs, which is most of what a plain start would spend here
    return structure(core, _Core)


def _check_guards(config: Config) -> None:
    guards = {*GUARDS, *config.plugins.required}
    advice = "is a required guard and cannot be disabled by a setting; --no-plugin drops it for a run"
    problems = [
        Problem(("plugins", "disabled"), f"{name} {advice}") for name in config.plugins.disabled if name in guards
    ]
    if problems:
        raise _complain(problems, config.origins)


def _complain(problems: Sequence[Problem], origins: Mapping[KeyPath, str]) -> ConfigError:
    lines = []
    for problem in problems:
        at = problem.path
        while at and at not in origins:
            at = at[:-1]
        where = show_path(problem.path)
        label = origins.get(at)
        if label is not None:  # that of a flag names its key already
            where = label if label == f"--config {where}" else f"{label}: {where}"
        lines.append(f"{where}: {problem.message}")
    return ConfigError("\n".join(lines))


def dump(config: Config) -> str:
    """`config` as TOML.  Values that look like credentials are replaced by asterisks."""
    import tomli_w

    core = {name: _plain(getattr(config, name)) for name in _CORE if getattr(config, name) is not None}
    return tomli_w.dumps(_mask({**core, **config.tables}))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not has(type(value)):
        return value
    return {name: _plain(item) for name in fields_dict(type(value)) if (item := getattr(value, name)) is not None}


def _mask(value: Any, name: str = "", inside: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _mask(item, key, inside or key == "headers") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mask(item, name, inside) for item in value]
    if not isinstance(value, str):
        return value
    named = bool(_SECRET.search(name)) and not name.endswith("_env")
    if value and (named or (inside and _KEY_LIKE.search(value))):
        return "***"
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", value)
