"""``dsh stats``: what stored sessions took, by session, model and day."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from attrs import define, field, frozen

from dsh import Config, ConfigError, DshError, Harness, TokenUsage, open_harness
from dsh.jsonvalue import dumps
from dsh.llm.chunks import Usage
from dsh.session.events import AssistantChunk, AssistantMessage, Event, RequestHeader, RequestHeaderDelta
from dsh.session.store import SessionInfo, SessionQuery, SessionsFound

if TYPE_CHECKING:
    from .prices import Prices

__all__ = ["Request", "Total", "configure", "requests_in", "run", "totals"]

BY = ("model", "day", "session")


@frozen
class Request:
    """One request of a stored session; `time` is in milliseconds since the epoch."""

    session: str
    model: str
    time: int
    usage: TokenUsage


@define
class Total:
    """Requests taken together; `usd` leaves out those whose price is not known, which `unpriced` counts."""

    requests: int = 0
    usage: TokenUsage = field(factory=TokenUsage)
    usd: float = 0.0
    unpriced: int = 0

    def add(self, request: Request, prices: Prices) -> None:
        """Count `request`."""
        cost = prices.cost(request.model, request.usage)
        self.requests += 1
        self.usage += request.usage
        self.usd += cost or 0.0
        self.unpriced += cost is None


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh stats``."""
    parser.add_argument("--by", choices=BY, default="model", help="a line for each of these; model if not given")
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
    cwd = None if args.all else str(Path(args.cd or ".").resolve())
    return trio.run(_run, args, config, cwd)


async def _run(args: argparse.Namespace, config: Config, cwd: str | None) -> int:
    from .settings import prices_of

    async with open_harness(attrs.evolve(config, agents=()), safe_mode=args.safe_mode) as harness:
        prices = prices_of(config)
        found = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(cwd=cwd), found=found)
        requests: list[Request] = []
        for info in found:
            requests += await _requests(harness, info)
    if args.days is not None:
        since = (datetime.now().timestamp() - args.days * 86400) * 1000
        requests = [request for request in requests if request.time >= since]
    table = totals(requests, args.by, prices)
    _print_json(table, args.by) if args.json else _print(table, args.by, prices)
    return 0


def totals(requests: Iterable[Request], by: str, prices: Prices) -> dict[str, Total]:
    """The requests taken together by ``model``, ``day`` or ``session``; days in order, else as they come."""
    found: dict[str, Total] = {}
    for request in requests:
        day = datetime.fromtimestamp(request.time / 1000).strftime("%Y-%m-%d")
        key = {"model": request.model, "day": day, "session": request.session}[by]
        found.setdefault(key, Total()).add(request, prices)
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


async def _requests(harness: Harness, info: SessionInfo) -> Sequence[Request]:
    try:
        stored = await harness.hook.session_read(session_id=info.id)
        if stored is None:
            stored = await harness.hook.session_open(session_id=info.id)
        return () if stored is None else list(requests_in(info.id, stored.events, info.seed_length or 0))
    except (DshError, OSError) as error:
        harness.warn(f"session {info.id} is left out: {error}")
        return ()


def _print(table: dict[str, Total], by: str, prices: Prices) -> None:
    if not table:
        print("no requests; --all counts those of other directories, too")
        return
    whole = Total()
    for total in table.values():
        whole.requests += total.requests
        whole.usage += total.usage
        whole.usd += total.usd
        whole.unpriced += total.unpriced
    rows = [_row(name, total) for name, total in [*table.items(), *([("total", whole)] if len(table) > 1 else [])]]
    lines = [[by, "requests", "in", "cached", "out", "dollars"], *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
    if whole.unpriced and by == "model":
        name = next(name for name, total in table.items() if total.unpriced)
        print(f"\n{prices.missing(name)}")


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
        record: dict[str, Any] = {by: name, "requests": total.requests, **attrs.asdict(total.usage)}
        print(dumps({**record, "usd": usd, "unpriced": total.unpriced}).decode())
