"""``dsh sessions compact``: what ``/compact`` does, to a stored session."""

from __future__ import annotations

import argparse

from ...agents import AgentOptions
from ...commands import Commands
from ...errors import ConfigError
from .. import clean
from ..start import Start, opened
from ..stored import find

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Have a plugin put a summary in the place of a session's conversation so far, and say what that came to."""
    async with opened(start) as harness:
        commands = Commands()
        harness.hook.dsh_add_commands(commands=commands)
        compact = commands.slash().get("compact")
        if compact is None:
            raise ConfigError("no plugin offers /compact; the plugin `compaction` does, if it is not left out")
        info = await find(harness, args.target)
        # The summary is best asked of the model that knows the conversation.
        handle = await harness.resume_agent(info.id, options=AgentOptions())
        try:
            print(clean(await compact.call(handle.agent, "")))
        finally:
            await handle.dispose()
    return 0
