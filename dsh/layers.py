"""Layers of settings: one file, variable or flag each, as plain tables that know where they come from."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from .errors import ConfigError
from .structure import KeyPath, did_you_mean, show_path

__all__ = ["UNTRUSTED", "Layer", "merge", "override", "read_layer", "refuse_untrusted", "take_profile"]

UNTRUSTED = (
    ("budget",),
    ("plugins", "load"),
    ("plugins", "disabled"),
    ("providers",),
    ("replay",),
    ("shell", "shell"),
    ("jsonl", "root"),
    ("local", "model"),
    ("local", "template"),
    ("sqlite", "path"),
    ("**", "api_key"),
    ("**", "base_url"),
    ("**", "command"),
    ("**", "headers"),
    ("**", "key_env"),
    ("**", "price"),
    ("**", "server_url"),
)
"""What files of a project may not set; ``**`` is any table, however deep."""

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
    label = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    try:
        text = _bytes(path, label).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{label}: cannot be read: {error.strerror or error}") from None
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


def refuse_untrusted(layer: Layer) -> None:
    """Complain about keys that a project may not set.

    Raises:
        ConfigError: there are some; names them all.
    """
    if layer.trusted:
        return
    refused = [show_path(path) for path in _paths(layer.data) if any(_matches(path, pattern) for pattern in UNTRUSTED)]
    if refused:
        raise ConfigError(
            "\n".join(
                f"{layer.label}: {path}: a project may not set this, since it comes with whatever is in the folder;"
                " put it into the user's config.toml"
                for path in refused
            )
        )


def _paths(data: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in data.items():
        yield (*above, key)
        nested = value if isinstance(value, list) else [value]
        for item in nested:
            if isinstance(item, dict):
                yield from _paths(item, (*above, key))


def _matches(path: KeyPath, pattern: tuple[str, ...]) -> bool:
    if pattern[0] == "**":
        return path[-1] == pattern[-1]
    return path == pattern


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
        elif at == ("plugins", "required") and isinstance(present, list) and isinstance(value, list):
            into[key] = [*present, *(name for name in value if name not in present)]
        else:
            into[key] = value
