"""The table ``[permissions]`` of every file, and the flags: rules with where they come from, and the mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import gt, optional

from dsh import Config, ConfigError
from dsh.layers import Layer
from dsh.structure import did_you_mean

from .rules import Rule, RuleSet, parse_rule
from .verdict import MODES, Kind, Mode

__all__ = ["Permissions", "PermissionsConfig", "read_permissions"]

TIGHTER: tuple[Mode, ...] = ("plan", "dont-ask")
"""Modes that a folder may choose without being trusted, where no other of them was chosen already."""
MODE_FLAG = "--permission-mode"


@frozen
class PermissionsConfig:
    """The table ``[permissions]``, as all layers together have it.

    Attributes:
        allow, ask, deny: rules.
        mode: what becomes of calls that no rule is about.
        add_dirs: further folders to work in.
        ask_timeout: seconds that somebody may take to answer a question; without it, as long as it takes.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: str = "default"
    add_dirs: tuple[str, ...] = ()
    ask_timeout: float | None = field(default=None, validator=optional(gt(0)))


@frozen
class Permissions:
    """What is in force.

    Attributes:
        ignored: rules and modes that loosen, of folders that are not trusted, as ``SOURCE: TEXT``.
    """

    rules: RuleSet
    mode: Mode
    mode_source: str
    add_dirs: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def read_permissions(config: Config) -> Permissions:
    """Take all layers together.

    Raises:
        ConfigError: a rule is malformed, can match nothing, or a mode is unknown or needs its flag.
    """
    config.section("permissions", PermissionsConfig)  # complains of unknown keys and wrong types
    layers: Iterable[Layer] = config.layers
    said = [(layer.label, table, layer.trusted) for layer in layers if (table := _table(layer))]
    if not said and "permissions" in config.tables:
        said = [("the program's settings", config.tables["permissions"], True)]
    rules: list[Rule] = []
    ignored: list[str] = []
    folders: list[str] = []
    mode: Mode = "default"
    source = "built-in"
    for label, table, trusted in said:
        kinds: tuple[Kind, ...] = ("allow", "ask", "deny")
        for kind in kinds:
            found = [parse_rule(text, kind, label) for text in table.get(kind, ())]
            if trusted or kind != "allow":
                rules += found
            else:
                ignored += [f"{label}: allow {rule.text}" for rule in found]
        named = [str(Path(text).expanduser()) for text in table.get("add_dirs", ())]
        _check_folders(label, named)
        folders += named if trusted else []
        ignored += [] if trusted else [f"{label}: add_dirs {text}" for text in named]
        if "mode" in table:
            chosen = _mode(table["mode"], label)
            if trusted or (chosen in TIGHTER and mode not in TIGHTER):
                mode, source = chosen, label
            elif chosen != mode:
                ignored.append(f"{label}: mode {chosen}")
    return Permissions(RuleSet(rules), mode, source, tuple(dict.fromkeys(folders)), tuple(ignored))


def _table(layer: Layer) -> Mapping[str, Any]:
    table = layer.data.get("permissions", {})
    return table if isinstance(table, dict) else {}


def _check_folders(label: str, folders: Iterable[str]) -> None:
    for text in folders:
        if not Path(text).is_absolute():
            raise ConfigError(f"{label}: permissions.add_dirs: {text}: write the whole path, or ~/...")


def _mode(text: object, label: str) -> Mode:
    for mode in MODES:
        if text == mode:
            if mode == "bypass" and label not in (MODE_FLAG, "the program's settings"):
                raise ConfigError(f"{label}: permissions.mode: bypass is for one run: {MODE_FLAG} bypass")
            return mode
    raise ConfigError(
        f"{label}: permissions.mode: {text!r} is no mode{did_you_mean(str(text), MODES)}; there are {', '.join(MODES)}"
    )
