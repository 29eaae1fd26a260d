"""``dsh sessions search``: which session was that in?"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from ...errors import ConfigError, SessionError
from ...jsonvalue import dumps
from ...messages import text_of
from ...session import events as ev
from ...session.store import SessionInfo, SessionQuery
from .. import complain
from ..progress import one_line
from ..start import Start, opened
from ..stored import Damage, listed, read, told
from .times import minute

if TYPE_CHECKING:
    from ...harness import Harness

__all__ = ["Hit", "run"]

SHOWN = 3
"""How many matches of a session are printed."""
BEFORE, AFTER = 30, 60
"""How many characters of a line are shown around a match."""


@frozen
class Hit:
    """A match: the event it is in, None for the title; who said it, and its surroundings on one line."""

    seq: int | None
    who: str
    line: str


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print the sessions with a match, the last used first; 1 if there is none."""
    pattern = _pattern(args.target, args.regex)
    query = SessionQuery(cwd=None if args.all else str(start.cwd), children=args.all)
    count = 0
    async with opened(start) as harness:
        for info in await listed(harness, query):
            if count == args.limit:
                break
            hits = await _hits(harness, info, pattern, start)
            if hits[0]:
                count += 1
                _print(info, *hits, args.json)
    if not count:
        elsewhere = "" if args.all else f" of {start.cwd}; --all searches those of other directories"
        complain(f"nothing found in the sessions{elsewhere}")
    return 0 if count else 1


def _pattern(text: str, regex: bool) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE) if regex else re.compile(re.escape(text), re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"--regex {text}: {error}", code="USAGE") from None


async def _hits(harness: Harness, info: SessionInfo, pattern: re.Pattern[str], start: Start) -> tuple[list[Hit], int]:
    """The first few matches, and how many texts match in all.  No more than one event is kept in memory."""
    found: list[Hit] = []
    count = 0
    try:
        stored = await read(harness, info.id)
        names: dict[str, str] = {}
        damage = Damage(start.warn)
        for event in told(stored, harness.codec, damage):
            # what takes the place of others repeats them
            for who, text in () if isinstance(event.surface_op, ev.Replace) else _texts(event.data, names):
                match = pattern.search(text)
                if match is not None:
                    count += 1
                    if len(found) < SHOWN:
                        found.append(Hit(event.seq, who, _around(text, match)))
        damage.close()
    except SessionError as error:
        start.warn(str(error))
    match = pattern.search(info.title)
    if match is not None and not found:
        return [Hit(None, "title", _around(info.title, match))], 1
    return found, count


def _texts(data: object, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What a person can read in an event, and who says it; what plugins add to every session is left out."""
    match data:
        case ev.UserMessage() | ev.SteeringMessage() | ev.PromptBlocked():
            yield "user", text_of(data.content)
        case ev.AssistantMessage():
            yield "assistant", text_of(data.content)
        case ev.ToolCall():
            names[data.call_id] = data.name
            yield data.name, data.arguments
        case ev.ToolResult():
            name = names.pop(data.call_id, "tool")
            yield f"{name} answered", text_of(data.content)


def _around(text: str, match: re.Match[str]) -> str:
    """The line that a match begins in, as far as it is near."""
    line = text.rfind("\n", 0, match.start()) + 1
    begin = max(line, match.start() - BEFORE)
    end = text.find("\n", match.start())
    end = min(len(text) if end < 0 else end, max(match.end(), match.start()) + AFTER)
    shown = one_line(text[begin:end])
    return f"{'…' if begin > line else ''}{shown}"


def _print(info: SessionInfo, hits: list[Hit], count: int, as_json: bool) -> None:
    if as_json:
        matches = [{"seq": hit.seq, "who": hit.who, "line": hit.line} for hit in hits]
        record = {"id": info.id, "updated_at": info.updated_at, "cwd": info.cwd, "title": info.title}
        print(dumps({**record, "count": count, "matches": matches}).decode(), flush=True)
        return
    print(f"{info.id}  {minute(info.updated_at)}  {one_line(info.title)[:60]}".rstrip())
    for hit in hits:
        print(f"  {one_line(hit.who)}: {hit.line}")
    if count > len(hits):
        print(f"  … {count - len(hits)} more")
    print(end="", flush=True)
