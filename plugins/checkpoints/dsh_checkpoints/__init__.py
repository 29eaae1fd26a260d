"""Checkpoints: a file is kept before a tool changes it, and ``dsh rewind`` brings it back.

What a command of the shell changes is nobody's to see, and is not kept.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import StashKey, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall, ToolResult
    from dsh.commands import Commands
    from dsh.session.store import EventTypes

    from .store import CheckpointsConfig, Store

_configs: WeakKeyDictionary[Harness, CheckpointsConfig] = WeakKeyDictionary()
_STORE: StashKey[Store] = StashKey("checkpoints: what is kept")


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``dsh rewind`` and ``/rewind``."""
    from .command import configure, run, slash

    commands.add("rewind", "bring files and conversation back to the end of an earlier turn", run, configure)
    commands.add_slash("rewind", "[TURN]: bring files back to the end of that turn, or of the last but one", slash)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import FileChanged

    types.add(FileChanged)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[checkpoints]``."""
    from .store import CheckpointsConfig

    _configs[harness] = harness.config.section("checkpoints", CheckpointsConfig)


@hookimpl(wrapper=True, trylast=True)
async def tools_execute(agent: Agent | None, call: ToolCall) -> AsyncGenerator[ToolResult | None, ToolResult]:
    """Keep the file that a call is about to change, and say in the log what became of it."""
    path = None if agent is None else _changed_path(agent, call)
    if agent is None or path is None:
        yield None
        return
    import trio

    from .events import FileChanged
    from .store import Store, look, missing_folders, raw_of

    store = agent.stash.get(_STORE, None)
    if store is None:
        store = agent.stash[_STORE] = Store(agent.harness.home, agent.session.id, _configs[agent.harness])
    before = await trio.to_thread.run_sync(look, path)
    folders = await trio.to_thread.run_sync(missing_folders, path) if before.hash is None else 0
    kept = await trio.to_thread.run_sync(store.keep, path, before)
    try:
        yield None
    finally:
        # A call that failed or was cancelled half-way may have changed the file all the same.
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            after = await trio.to_thread.run_sync(look, path)
            if after != before and agent.session.open_turn is not None:
                agent.session.append(
                    FileChanged(
                        call.turn,
                        call.step,
                        call.id,
                        path,
                        before.hash,
                        after.hash,
                        before.mode,
                        kept.ok,
                        kept.reason,
                        folders,
                        raw_of(path),
                    )
                )


def _changed_path(agent: Agent, call: ToolCall) -> str | None:
    """The file that a call says it writes; None where it says of none."""
    tool = call.tool
    if tool is None or tool.effect != "write" or tool.subject is None or not _configs[agent.harness].enabled:
        return None
    path = call.arguments.get(tool.subject)
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return None
    return os.path.realpath(os.path.join(agent.session.header.cwd or os.getcwd(), os.path.expanduser(path)))
