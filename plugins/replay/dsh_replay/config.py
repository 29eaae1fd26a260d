"""Which recordings to play."""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import frozen

from dsh import ConfigError
from dsh.structure import KeyPath

__all__ = ["ReplayConfig", "settle"]

FILE, OVERRIDE, CHILDREN = "DSH_SNAPSHOT_FILE", "DSH_SNAPSHOT_OVERRIDE", "DSH_SNAPSHOT_CHILD_FILES"


@frozen
class ReplayConfig:
    """The table ``[replay]``; its paths start at the working directory.

    Attributes:
        file: the recording of the first session; without it nothing is played.
        override: a script that is played in its stead.
        children: the recordings of the sessions that follow.
    """

    file: str | None = None
    override: str | None = None
    children: tuple[str, ...] = ()


def settle(table: ReplayConfig, origins: Mapping[KeyPath, str], environ: Mapping[str, str]) -> ReplayConfig:
    """The recordings that the environment names, or else those of `table`.

    Args:
        origins: which file or flag said what; a flag goes before the environment.

    Raises:
        ConfigError: an override or children are named, but no file.
    """
    by_flag = origins.get(("replay", "file"), "").startswith("--config")
    if environ.get(FILE) and not by_flag:
        children = environ.get(CHILDREN, "").split(os.pathsep)
        return ReplayConfig(environ[FILE], environ.get(OVERRIDE) or None, tuple(filter(None, children)))
    if table.file:
        return table
    for name in (OVERRIDE, CHILDREN):
        if environ.get(name):
            raise ConfigError(f"{name} is set without {FILE}: name the recording that it belongs to")
    if table.override or table.children:
        raise ConfigError("[replay] has an override or children but no file: name the recording that they belong to")
    return ReplayConfig()
