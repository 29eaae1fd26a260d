"""``dsh sessions list``."""

from __future__ import annotations

import argparse

import attrs

from ...jsonvalue import dumps
from ...session.store import SessionQuery
from ..progress import one_line
from ..start import Start, opened
from ..stored import listed
from ..tables import print_table
from .times import minute

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print the stored sessions, the last used first."""
    query = SessionQuery(cwd=None if args.all else str(start.cwd), limit=args.limit, children=args.all)
    async with opened(start) as harness:
        infos = (await listed(harness, query))[: args.limit]
    if args.json:
        for info in infos:
            print(dumps(attrs.asdict(info)).decode())
        return 0
    if not infos:
        print("no sessions" + ("" if args.all else f" of {start.cwd}; --all lists those of other directories"))
    rows = [
        [info.id, minute(info.updated_at), *([info.cwd or "-"] if args.all else []), one_line(info.title)[:60]]
        for info in infos
    ]
    print_table(["id", "last used", *(["directory"] if args.all else []), "first message"], rows)
    return 0
