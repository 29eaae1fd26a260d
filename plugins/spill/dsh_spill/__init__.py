"""Long results of tools: the model sees the beginning and the end, and where all of it is.

A result that is too long goes to a private file in the session's folder, so that neither the model's context nor the
log grows by it.  What steers terminals is taken out of what programs print.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall, ToolResult

    from .keep import Keeper

_keepers: WeakKeyDictionary[Harness, Keeper] = WeakKeyDictionary()


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[spill]``."""
    from .config import SpillConfig
    from .keep import Keeper

    config = harness.config.section("spill", SpillConfig)
    _keepers[harness] = Keeper(config, harness.home, harness.secrets.mask_output)


@hookimpl(wrapper=True, tryfirst=True)
async def tools_execute(agent: Agent | None, call: ToolCall) -> AsyncGenerator[ToolResult | None, ToolResult]:
    """Clean the result, and keep a long one."""
    result = yield None
    if agent is not None:
        keeper = _keepers[agent.harness]
        if keeper.fits(call, result):
            yield keeper.kept(call, result, agent.session.id)
        else:
            import trio

            yield await trio.to_thread.run_sync(keeper.kept, call, result, agent.session.id)


@hookimpl
def agent_disposed(agent: Agent) -> None:
    """Where nobody stores sessions, nothing of one is left."""
    from dsh.session.folder import session_folder

    if not agent.harness.plugins.implementations("session_open"):
        shutil.rmtree(session_folder(agent.harness.home, agent.session.id), ignore_errors=True)
