"""``dsh stats --cache``: what providers read from their caches, and what kept them from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from attrs import define, field, frozen

from dsh import TokenUsage
from dsh.jsonvalue import dumps, loads
from dsh.session.events import Event

__all__ = ["Break", "CacheTotal", "breaks_in", "print_cache", "print_cache_json", "total_of"]

CHANGED = "prefix/changed"
"""The event of whatever plugin watches the beginnings of requests; it is read as the JSON that it is in the log."""
NUMBERS = ("turn", "step", "at")


@frozen
class Break:
    """A request that did not begin as the one before it; `time` is in milliseconds since the epoch."""

    time: int
    turn: int
    step: int
    segment: str
    name: str
    plugin: str
    cause: str
    at: int
    before: str
    after: str

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What tells it from others: the part of the request, who changed it, and how."""
        return self.segment, "" if self.segment == "message" else self.name, self.plugin, self.cause


@define
class CacheTotal:
    """The requests of a session, and what broke their cache."""

    requests: int = 0
    usage: TokenUsage = field(factory=TokenUsage)
    breaks: list[Break] = field(factory=list)

    @property
    def taken(self) -> int:
        """All tokens that went in."""
        usage = self.usage
        return usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)

    @property
    def rate(self) -> float | None:
        """The part of them that was read from a cache; None if there were none."""
        return (self.usage.cache_read_tokens or 0) / self.taken if self.taken else None

    def kinds(self) -> list[list[Break]]:
        """The breaks, those of a kind together, the most frequent first."""
        found: dict[tuple[str, str, str, str], list[Break]] = {}
        for each in self.breaks:
            found.setdefault(each.kind, []).append(each)
        return sorted(found.values(), key=len, reverse=True)


def breaks_in(events: Iterable[Event], encode: Callable[[Event], bytes], since: int = 0) -> Iterator[Break]:
    """What broke the cache in a log.

    Args:
        encode: gives an event's line.
        since: events before this one belong to the session that it was forked from.
    """
    for event in events:
        if event.seq < since or event.type != CHANGED:
            continue
        found = loads(encode(event))
        data = found.get("data", found) if isinstance(found, Mapping) else {}
        known: dict[str, Any] = {}
        for attribute in attrs.fields(Break)[1:]:
            value, blank = data.get(attribute.name), 0 if attribute.name in NUMBERS else ""
            known[attribute.name] = value if isinstance(value, type(blank)) else blank
        yield Break(event.time, **known)


def total_of(totals: Iterable[CacheTotal]) -> CacheTotal:
    """All of them together."""
    whole = CacheTotal()
    for total in totals:
        whole.requests += total.requests
        whole.usage += total.usage
        whole.breaks += total.breaks
    return whole


def print_cache(table: Mapping[str, CacheTotal]) -> None:
    """Print the table, and below it what broke the caches."""
    if not table:
        print("no requests; --all counts those of other directories, too")
        return
    rows = [*table.items(), *([("total", total_of(table.values()))] if len(table) > 1 else [])]
    lines = [["session", "requests", "in", "read", "written", "hits", "breaks"], *(_row(*row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
    for name, total in table.items():
        for same in total.kinds():
            print(f"\n{name}: {_said(same)}")


def _row(name: str, total: CacheTotal) -> list[str]:
    usage, rate = total.usage, total.rate
    hits = "" if rate is None else f"{rate:.1%}"
    counts = (total.taken, usage.cache_read_tokens or 0, usage.cache_write_tokens or 0)
    return [name, str(total.requests), *map(str, counts), hits, str(len(total.breaks))]


def _said(same: Sequence[Break]) -> str:
    first = same[0]
    what = first.segment if first.segment == "model" else f"{first.segment} {first.name}"
    who = f" by {first.plugin}" if first.plugin else ""
    many = "once" if len(same) == 1 else f"{len(same)} times, first"
    where = f"in turn {first.turn}, step {first.step}"
    return (
        f"{what} was {first.cause}{who}, {many} {where}, at character {first.at}: "
        f"{first.before!r} became {first.after!r}"
    )


def print_cache_json(table: Mapping[str, CacheTotal]) -> None:
    """Print an object a line."""
    for name, total in table.items():
        broke: list[dict[str, Any]] = [
            {"count": len(same), **{key: value for key, value in attrs.asdict(same[0]).items() if key != "time"}}
            for same in total.kinds()
        ]
        usage = total.usage.record()
        record = {"session": name, "requests": total.requests, **usage, "hit_rate": total.rate, "breaks": broke}
        print(dumps(record).decode())
