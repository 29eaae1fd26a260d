"""Replay: the model answers as it did in a recorded session.

Nothing is read and no hook is answered unless ``[replay]`` or the environment names a recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Harness


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the recordings, if there are any, and answer for the model from now on."""
    import os

    from .config import ReplayConfig, settle

    config = settle(harness.config.section("replay", ReplayConfig), harness.config.origins, os.environ)
    if config.file is None:
        return
    from .player import Player
    from .script import load_scripts

    scripts = load_scripts(config)
    harness.warn(f"the model's answers are played from {config.file}")
    harness.plugins.register(Player(scripts), "replay.player")
