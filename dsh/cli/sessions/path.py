"""``dsh sessions path``."""

from __future__ import annotations

import argparse

from ...errors import SessionError
from ..start import Start, opened
from ..stored import find

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print the file that a session lies in."""
    async with opened(start) as harness:
        info = await find(harness, args.target)
    if info.path is None:
        raise SessionError(f"the session {info.id} lies in no file of its own")
    print(info.path)
    return 0
