"""``dsh plugin new``: a complete project for a plugin."""

from __future__ import annotations

import keyword
import os
import re
import shutil
from pathlib import Path

from ...errors import ConfigError
from ..start import entry_names
from .template import files

__all__ = ["check_name", "write"]

_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*\Z")
LONGEST = 40
TAKEN = frozenset(
    [
        *("model", "system_prompt", "append_system_prompt", "effort", "hooks", "plugins", "prompt", "sessions"),
        *("agents", "models", "network", "profiles", "providers", "secrets"),
    ]
)
"""Tables of the settings that are not a plugin's."""


def check_name(name: str) -> str:
    """The name, if a plugin can be called so.

    Raises:
        ConfigError: it cannot; the message says why.
    """
    if _NAME.match(name) is None or len(name) > LONGEST or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is no name for a plugin: lower-case letters and digits, in words joined by - or _, at most "
            f"{LONGEST} characters",
            code="USAGE",
        )
    if name.removeprefix("dsh-") != name or name.removeprefix("dsh_") != name:
        raise ConfigError(f"{name!r}: leave the dsh out, the project is called dsh-NAME by itself", code="USAGE")
    if name in TAKEN:
        raise ConfigError(f"{name!r} is no name for a plugin: [{name}] are settings of dsh itself", code="USAGE")
    installed = entry_names()
    if name in installed:
        raise ConfigError(f"there is a plugin {name} already, of {installed[name] or 'the program'}", code="USAGE")
    return name


def write(name: str, folder: Path) -> list[Path]:
    """Write the project into `folder`, all of it or nothing; the files that were written.

    Raises:
        ConfigError: the folder is there already, or cannot be written.
    """
    check_name(name)
    if os.path.lexists(folder):
        raise ConfigError(f"{folder} exists already; name another folder behind {name}", code="USAGE")
    beside = folder.with_name(f".{folder.name}.new-{os.getpid()}")
    try:
        for path, text in files(name).items():
            target = beside / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        os.rename(beside, folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return [folder / path for path in files(name)]
