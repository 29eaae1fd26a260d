"""``dsh sessions``: list stored sessions, show one, say where it lies."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from ..errors import ConfigError, CorruptSession, SessionError, SessionNotFound
from ..jsonvalue import dumps
from ..session.store import SessionInfo, SessionQuery, SessionsFound
from .start import Start, opened, settle
from .tables import print_table

if TYPE_CHECKING:
    from ..harness import Harness
    from ..session.events import Event

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """List sessions, newest first, or show one without touching it."""
    start = settle(args)
    if args.action == "list":
        if args.target:
            raise ConfigError("sessions list takes no ID; sessions show ID shows one", code="USAGE")
        return trio.run(_list, args, start)
    if not args.target:
        raise ConfigError(f"sessions {args.action} needs the ID of a session (`dsh sessions list`)", code="USAGE")
    return trio.run(_one, args, start)


async def _list(args: argparse.Namespace, start: Start) -> int:
    query = SessionQuery(cwd=None if args.all else str(start.cwd), limit=args.limit, children=args.all)
    async with opened(start) as harness:
        infos = list(await _found(harness, query))[: args.limit]
    if args.json:
        for info in infos:
            print(dumps(attrs.asdict(info)).decode())
        return 0
    if not infos:
        print("no sessions" + ("" if args.all else f" of {start.cwd}; --all lists those of other directories"))
    rows = [
        [info.id, _time(info.updated_at), *([info.cwd or "-"] if args.all else []), _shown(info.title)]
        for info in infos
    ]
    print_table(["id", "last used", *(["directory"] if args.all else []), "first message"], rows)
    return 0


async def _one(args: argparse.Namespace, start: Start) -> int:
    async with opened(start) as harness:
        info = _pick(args.target, await _found(harness, SessionQuery()))
        if args.action == "path":
            if info.path is None:
                raise SessionError(f"the session {info.id} lies in no file of its own")
            print(info.path)
            return 0
        if args.json:
            for line in await _lines(harness, info):
                print(line.decode("utf-8", "replace"))
            return 0
        from .transcript import transcript

        for text in transcript(await _events(harness, info)):
            print(text)
        return 0


async def _found(harness: Harness, query: SessionQuery) -> SessionsFound:
    found = SessionsFound()
    await harness.hook.session_list(query=query, found=found)
    return found


def _pick(wanted: str, found: SessionsFound) -> SessionInfo:
    infos = list(found)
    matches = [info for info in infos if info.id == wanted] or [info for info in infos if info.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SessionNotFound(
            f"{len(matches)} sessions begin with {wanted}: {', '.join(info.id for info in matches[:5])}"
        )
    raise SessionNotFound(f"there is no session {wanted}; `dsh sessions list --all` shows those there are")


async def _lines(harness: Harness, info: SessionInfo) -> Iterator[bytes]:
    if info.path is not None and info.path.endswith(".jsonl"):
        # read as it lies there, since opening it through its store would lock and repair it
        data = await trio.to_thread.run_sync(Path(info.path).read_bytes)
        return iter([line for line in data.split(b"\n") if line.strip()])
    stored = await harness.hook.session_open(session_id=info.id)
    if stored is None:
        raise SessionNotFound(f"the session {info.id} is gone")
    return iter([harness.codec.encode_header(stored.header), *map(harness.codec.encode, stored.events)])


async def _events(harness: Harness, info: SessionInfo) -> list[Event]:
    lines = list(await _lines(harness, info))[1:]
    events = []
    for number, line in enumerate(lines, 2):
        try:
            events.append(harness.codec.decode(line))
        except CorruptSession as error:
            if number == len(lines) + 1:
                break  # the last line may be half written yet
            raise CorruptSession(f"{info.path}, line {number}: {error}") from None
    return events


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%d %H:%M")


def _shown(title: str) -> str:
    from .progress import one_line

    return one_line(title)[:60]
