"""``dsh sessions show``."""

from __future__ import annotations

import argparse

from ...session.fork import lines_of
from .. import complain
from ..start import Start, opened
from ..stored import Damage, found_session, told
from ..transcript import transcript
from .at import seq_of, shown
from .tree import below

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print a session to read, the lines of its log, or what the model saw at an event, without touching it.

    1 if a line cannot be read.
    """
    async with opened(start) as harness:
        stored = await found_session(harness, args.target)
        if args.at is not None:
            for text in shown(stored, seq_of(args.at), harness.codec, as_json=args.json):
                print(text)
            return 0
        if args.json:
            for line in (harness.codec.encode_header(stored.header), *lines_of(stored, harness.codec)):
                print(line.decode("utf-8", "replace"))
            return 0
        damage = Damage(complain)
        for text in transcript(told(stored, harness.codec, damage)):
            print(text)
        if lines := await below(harness, stored):
            print("--- sessions below this one", *lines, sep="\n")
    return damage.close()
