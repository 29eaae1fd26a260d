"""``dsh sessions show``."""

from __future__ import annotations

import argparse

from ...session.fork import lines_of
from ..start import Start, opened
from ..stored import find, read, told
from ..transcript import transcript

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print a session to read, or the lines of its log, without touching it."""
    async with opened(start) as harness:
        stored = await read(harness, (await find(harness, args.target)).id)
        if args.json:
            for line in (harness.codec.encode_header(stored.header), *lines_of(stored, harness.codec)):
                print(line.decode("utf-8", "replace"))
            return 0
        for text in transcript(told(stored, harness.codec)):
            print(text)
    return 0
