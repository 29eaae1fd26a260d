"""``dsh stats``: what stored sessions took, by session, model and day."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import trio
from attrs import define, field, frozen

from dsh import Config, ConfigError, DshError, Harness, TokenUsage, open_harness
from dsh.jsonvalue import dumps
from dsh.llm.chunks import Usage
from dsh.models import Models
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    Event,
    RequestHeader,
    RequestHeaderDelta,
    usage_beside,
)
from dsh.session.store import SessionInfo, SessionQuery, SessionsFound

from .cache import Break, CacheTotal, breaks_in, print_cache, print_cache_json
from .prices import cost_of, missing

__all__ = ["Request", "Total", "configure", "requests_in", "run", "totals"]

BY = ("model", "day", "session")


@frozen
class Request:
    """One request of a stored session; `time` is in milliseconds since the epoch.

    Attributes:
        usage: None if the service did not say.
    """

    session: str
    model: str
    time: int
    usage: TokenUsage | None


@define
class Total:
    """Requests taken together.

    Attributes:
        usd: without those of which nobody knows what they cost.
        unpriced: how many those are.
        untold: how many of those are so because the service did not say how many tokens they took.
    """

    requests: int = 0
    usage: TokenUsage = field(factory=TokenUsage)
    usd: float = 0.0
    unpriced: int = 0
    untold: int = 0

    def add(self, request: Request, models: Models) -> None:
        """Count `request`."""
        usage = request.usage
        cost = None if usage is None else cost_of(models, request.model, usage)
        self.requests += 1
        self.untold += usage is None
        self.usage += usage or TokenUsage()
        self.usd += cost or 0.0
        self.unpriced += cost is None


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh stats``."""
    parser.add_argument("--by", choices=BY, help="a line for each of these; model if not given")
    parser.add_argument("--cache", action="store_true", help="what caches saved in each session, and what broke them")
    parser.add_argument("--all", action="store_true", help="sessions of other directories, too")
    parser.add_argument("--days", type=int, metavar="N", help="requests of the last N days only")
    parser.add_argument("--json", action="store_true", help="print JSON, a line each")


def run(args: argparse.Namespace, config: Config) -> int:
    """Print the table.

    Raises:
        ConfigError: a flag is wrong.
    """
    if args.days is not None and args.days < 1:
        raise ConfigError(f"--days: expected a number from 1, got {args.days}", code="USAGE")
    if args.cache and args.by not in (None, "session"):
        raise ConfigError(f"--cache: has a line for each session, not for each {args.by}", code="USAGE")
    cwd = None if args.all else str(Path(args.cd or ".").resolve())
    return trio.run(_run, args, config, cwd)


async def _run(args: argparse.Namespace, config: Config, cwd: str | None) -> int:
    async with open_harness(attrs.evolve(config, agents=()), safe_mode=args.safe_mode) as harness:
        await harness.models.load()
        found = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(cwd=cwd), found=found)
        requests: list[Request] = []
        broken: dict[str, list[Break]] = {}
        for info in found:
            events = await _events(harness, info)
            requests += requests_in(info.id, events, info.seed_length or 0)
            if args.cache:
                broken[info.id] = list(breaks_in(events, harness.codec.encode, info.seed_length or 0))
    if args.days is not None:
        since = (datetime.now().timestamp() - args.days * 86400) * 1000
        requests = [request for request in requests if request.time >= since]
        broken = {name: [each for each in breaks if each.time >= since] for name, breaks in broken.items()}
    by = args.by or "model"
    if args.cache:
        sessions = totals((each for each in requests if each.usage is not None), "session", harness.models)
        caches = {name: CacheTotal(one.requests, one.usage, broken[name]) for name, one in sessions.items()}
        print_cache_json(caches) if args.json else print_cache(caches)
        return 0
    table = totals(requests, by, harness.models)
    _print_json(table, by) if args.json else _print(table, by)
    return 0


def totals(requests: Iterable[Request], by: str, models: Models) -> dict[str, Total]:
    """The requests taken together by ``model``, ``day`` or ``session``; days in order, else as they come."""
    found: dict[str, Total] = {}
    for request in requests:
        day = datetime.fromtimestamp(request.time / 1000).strftime("%Y-%m-%d")
        key = {"model": request.model, "day": day, "session": request.session}[by]
        found.setdefault(key, Total()).add(request, models)
    return dict(sorted(found.items())) if by == "day" else found


def requests_in(session: str, events: Iterable[Event], since: int = 0) -> Iterator[Request]:
    """The requests of a log that were answered, and those that failed after they had told their tokens.

    Args:
        since: events before this one belong to the session that it was forked from.
    """
    model = ""
    pending: tuple[int, TokenUsage] | None = None
    for event in events:
        data = event.data
        if isinstance(data, RequestHeader):
            model = data.header.config.model
        elif isinstance(data, RequestHeaderDelta) and data.config is not None:
            model = data.config.model
        if event.seq < since:
            continue
        if isinstance(data, AssistantChunk) and isinstance(data.chunk, Usage):
            # Each chunk of this kind is a request; its message repeats it.
            yield Request(session, model, event.time, data.chunk.usage)
            pending = (data.turn, data.chunk.usage)
        elif isinstance(data, AssistantMessage) and data.usage is not None:
            if pending is None or pending != (data.turn, data.usage):
                yield Request(session, model, event.time, data.usage)
            pending = None
        elif isinstance(data, AssistantMessage) and event.surface_op == "append":
            yield Request(session, model, event.time, None)
        elif (beside := usage_beside(data)) is not None:
            asked = getattr(data, "model", None)
            yield Request(session, asked if isinstance(asked, str) else model, event.time, beside)


async def _events(harness: Harness, info: SessionInfo) -> Sequence[Event]:
    try:
        stored = await harness.hook.session_read(session_id=info.id)
        if stored is None:
            stored = await harness.hook.session_open(session_id=info.id)
        return () if stored is None else stored.events
    except (DshError, OSError) as error:
        harness.warn(f"session {info.id} is left out: {error}")
        return ()


def _print(table: dict[str, Total], by: str) -> None:
    if not table:
        print("no requests; --all counts those of other directories, too")
        return
    whole = Total()
    for total in table.values():
        whole.requests += total.requests
        whole.usage += total.usage
        whole.usd += total.usd
        whole.unpriced += total.unpriced
        whole.untold += total.untold
    rows = [_row(name, total) for name, total in [*table.items(), *([("total", whole)] if len(table) > 1 else [])]]
    lines = [[by, "requests", "in", "cached", "out", "dollars"], *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
    if whole.untold:
        print(f"\nof {whole.untold} of these requests the service did not say how many tokens they took")
    if whole.unpriced > whole.untold and by == "model":
        name = next(name for name, total in table.items() if total.unpriced > total.untold)
        print(f"\n{missing(name)}")


def _row(name: str, total: Total) -> list[object]:
    usage = total.usage
    fresh = usage.input_tokens + (usage.cache_write_tokens or 0)
    return [name, total.requests, fresh, usage.cache_read_tokens or 0, usage.output_tokens, _dollars(total)]


def _dollars(total: Total) -> str:
    if total.unpriced == total.requests:
        return "unknown"
    return f"{total.usd:.4f}" + (f" and {total.unpriced} unknown" if total.unpriced else "")


def _print_json(table: dict[str, Total], by: str) -> None:
    for name, total in table.items():
        usd = None if total.unpriced == total.requests else total.usd
        record: dict[str, Any] = {by: name, "requests": total.requests, **total.usage.record()}
        print(dumps({**record, "usd": usd, "unpriced": total.unpriced, "untold": total.untold}).decode())
