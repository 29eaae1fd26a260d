"""Layers of settings: one file, variable or flag each, as plain tables that know where they come from."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from .errors import ConfigError
from .structure import KeyPath, did_you_mean, show_path

__all__ = [
    "UNTRUSTED",
    "Layer",
    "label_of",
    "merge",
    "needs_trust",
    "override",
    "parse_layer",
    "read_bytes",
    "read_layer",
    "take_profile",
    "withhold",
]

UNTRUSTED = (
    ("budget",),
    ("checkpoints", "enabled"),
    ("hooks", "trace"),
    ("instructions", "names"),
    ("plugins", "load"),
    ("plugins", "disabled"),
    ("network",),
    ("providers",),
    ("replay",),
    ("sandbox",),
    ("secrets",),
    ("shell", "shell"),
    ("skills", "folders"),
    ("jsonl", "root"),
    ("local", "model"),
    ("local", "template"),
    ("sqlite", "path"),
    ("subagents", "acp"),
    ("**", "api_key"),
    ("**", "base_url"),
    ("**", "beta"),
    ("**", "command"),
    ("**", "extra_body"),
    ("**", "headers"),
    ("**", "key_env"),
    ("**", "price"),
    ("**", "server_tools"),
    ("**", "server_url"),
)
"""What files of a project set only in a folder that is trusted; ``**`` is any table, however deep."""

TIGHTENING = {"ask", "ask_timeout", "deny"}
"""Keys of ``[permissions]`` that count wherever they are from; of ``mode``, what `TIGHT_MODES` has."""
TIGHT_MODES = ("plan", "dont-ask")

GROWING = {
    ("plugins", "required"),
    ("permissions", "allow"),
    ("permissions", "ask"),
    ("permissions", "deny"),
    ("permissions", "add_dirs"),
}
"""Lists to which every layer adds."""

LIMIT = 1 << 20
"""Bytes that a file of settings may have."""


@frozen
class Layer:
    """One source of settings.

    Attributes:
        label: what to call it in complaints.
        data: what it says; changed by `take_profile`.
        trusted: whether it may say everything.
    """

    label: str
    data: dict[str, Any]
    trusted: bool = True


def read_layer(path: Path, cwd: Path, trusted: bool) -> Layer | None:
    """The layer of a file; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    label = label_of(path, cwd)
    data = read_bytes(path, label)
    return None if data is None else parse_layer(data, label, trusted)


def label_of(path: Path, cwd: Path) -> str:
    """What to call a file in complaints."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def read_bytes(path: Path, label: str) -> bytes | None:
    """What a file of settings holds; None where there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return _bytes(path, label)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{label}: cannot be read: {error.strerror or error}") from None


def parse_layer(raw: bytes, label: str, trusted: bool) -> Layer:
    """The layer of what a file holds.

    Raises:
        ConfigError: it is no TOML.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{label}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label}{_place(str(error))}") from None
    return Layer(label, data, trusted)


def _bytes(path: Path, label: str) -> bytes:
    # a pipe without O_NONBLOCK would be waited for
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{label}: is no regular file; settings are read from a file of TOML")
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise ConfigError(f"{label}: is larger than {LIMIT >> 20} MiB; settings are not")
    return data


def _place(message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found:
        return f", line {found[2]}, column {found[3]}: {found[1]}"
    return f": {message.removesuffix(' (at end of document)')}, at the end of the file"


def take_profile(files: Sequence[Layer], name: str | None) -> list[Layer]:
    """Take the profiles out of `files`, and return the overlays of the chosen one.

    Raises:
        ConfigError: there is no such profile.
    """
    overlays: list[Layer] = []
    known: set[str] = set()
    for layer in files:
        profiles = layer.data.pop("profiles", {})
        if not isinstance(profiles, dict) or not all(isinstance(overlay, dict) for overlay in profiles.values()):
            raise ConfigError(f"{layer.label}: profiles: expected tables, as in [profiles.NAME]")
        known.update(profiles)
        if name is not None and name in profiles:
            overlays.append(Layer(f"{layer.label}: profiles.{name}", profiles[name], layer.trusted))
    if name is not None and not overlays:
        hint = did_you_mean(name, known) if known else "; there are no [profiles.NAME] tables in any config.toml"
        raise ConfigError(f"--profile {name}: no such profile{hint}")
    return overlays


def needs_trust(data: Mapping[str, Any]) -> list[str]:
    """The keys of `data` that count only in a trusted folder, as TOML writes them; those of profiles, too."""
    found: list[KeyPath] = []
    for above, table in _tables(data):
        _sift(table, above, found)
        found += _loosening(table, above)
    return [show_path(path) for path in found]


def _tables(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    yield (), {key: value for key, value in data.items() if key != "profiles"}
    profiles = data.get("profiles")
    if isinstance(profiles, dict):
        yield from ((("profiles", name), table) for name, table in profiles.items() if isinstance(table, dict))


def _loosening(table: Mapping[str, Any], above: KeyPath) -> list[KeyPath]:
    """What the table ``[permissions]`` loosens."""
    said = table.get("permissions")
    if not isinstance(said, dict):
        return []
    tightens = {*TIGHTENING, *(("mode",) if said.get("mode") in TIGHT_MODES else ())}
    return [(*above, "permissions", key) for key in said if key not in tightens]


def withhold(layer: Layer) -> Layer:
    """The layer without what counts only in a trusted folder, unless it is trusted."""
    if layer.trusted:
        return layer
    data = _sift(layer.data, (), [])
    loosening = {path[-1] for path in _loosening(data, ())}
    if loosening:
        data["permissions"] = {key: value for key, value in data["permissions"].items() if key not in loosening}
    return evolve(layer, data=data)


def _sift(table: Mapping[str, Any], above: KeyPath, found: list[KeyPath]) -> dict[str, Any]:
    """`table` without what needs trust, whose paths are added to `found`."""
    kept: dict[str, Any] = {}
    for key, value in table.items():
        at = (*above, key)
        if _is_untrusted(at):
            found.append(at)
        elif isinstance(value, dict):
            _keep(kept, key, value, at, found)
        elif isinstance(value, list):
            items: dict[Any, Any] = {}
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    _keep(items, index, item, (*at, index), found)
                else:
                    items[index] = item
            if items or not value:  # what nothing is left of is not there
                kept[key] = list(items.values())
        else:
            kept[key] = value
    return kept


def _keep(into: dict[Any, Any], key: Any, table: Mapping[str, Any], at: KeyPath, found: list[KeyPath]) -> None:
    """Keep what may be kept of a table; one of several of a kind goes whole, since half of a server is none."""
    if len(_plain(at)) > 1 and any(_is_untrusted((*at, inner)) for inner in table):
        found.append(at)
        return
    kept = _sift(table, at, found)
    if kept or not table:
        into[key] = kept


def _plain(path: KeyPath) -> KeyPath:
    return path[2:] if path[:1] == ("profiles",) else path


def _is_untrusted(path: KeyPath) -> bool:
    plain = _plain(path)
    return any(plain[-1:] == pattern[1:] if pattern[0] == "**" else plain == pattern for pattern in UNTRUSTED)


def override(text: str) -> Layer:
    """The layer of ``--config text``.

    Raises:
        ConfigError: it is not ``key=value``.
    """
    import tomllib

    key, equals, value = text.partition("=")
    label = f"--config {key.strip()}"
    if not equals or not key.strip() or "\n" in key:
        raise ConfigError(f"--config {text}: expected key=value, as in hooks.deadline=30")
    try:
        data = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        hint = "parts with other signs than letters, digits, - and _ need quotes"
        raise ConfigError(f"{label}: {key.strip()!r} is no key; {hint}") from None
    table, last = data, next(iter(data))
    while isinstance(table[last], dict):
        table = table[last]
        last = next(iter(table))
    table[last] = _value(label, value.strip())
    return Layer(label, data)


def _value(label: str, text: str) -> Any:
    import tomllib

    try:
        parsed = tomllib.loads(f"value = {text}")
        if len(parsed) == 1:
            return parsed["value"]
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise ConfigError(f"{label}: {text} is no TOML value: {str(error).partition(' (at')[0]}") from None
    return text


def merge(
    into: dict[str, Any], data: Mapping[str, Any], label: str, origins: dict[KeyPath, str], path: KeyPath
) -> None:
    """Lay `data` over `into`, and note in `origins` who said what."""
    for key, value in data.items():
        at = (*path, key)
        origins[at] = label
        present = into.get(key)
        if isinstance(value, dict):
            if not isinstance(present, dict):
                present = into[key] = {}
            merge(present, value, label, origins, at)
        elif at in GROWING and isinstance(present, list) and isinstance(value, list):
            into[key] = [*present, *(item for item in value if item not in present)]
        else:
            into[key] = value
