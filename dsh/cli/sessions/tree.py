"""The sessions below a session: of the agents that its agent started, and those that were forked from it."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...errors import DshError
from ...jsonvalue import loads
from ...session.fork import lines_of
from ...session.store import SessionInfo, SessionQuery, StoredSession
from ..progress import one_line
from ..stored import listed, read

if TYPE_CHECKING:
    from ...harness import Harness

__all__ = ["below"]

_LINKS = b'{"type":"subagent/'
"""What a plugin that starts agents says of them in the log: ``/start`` and ``/end``, with a ``sessionId``."""

DEEPEST = 40
"""From so many levels on, lines are indented no further."""


async def below(harness: Harness, stored: StoredSession) -> list[str]:
    """A line for each session below `stored`, and for those below that, indented; none if there are none."""
    children: defaultdict[str, list[SessionInfo]] = defaultdict(list)
    seen = {stored.header.id}
    infos = await listed(harness, SessionQuery())
    for info in infos:
        if info.parent_session is not None:
            children[info.parent_session].append(info)
    lines = await _lines(harness, stored, children, seen)
    there = {info.id for info in infos}
    for id, link in _links(stored, harness, stored.header.seed_length or 0).items():
        if id not in there:
            lines.append(f"  {id}  {_said(link, '')}; its log is gone, or cannot be read")
    return lines


async def _lines(
    harness: Harness, stored: StoredSession, children: dict[str, list[SessionInfo]], seen: set[str]
) -> list[str]:
    lines: list[str] = []
    # Sessions can lie below each other as deep as anybody forks them.
    waiting = [_directly_below(harness, stored, children)]
    while waiting:
        if not waiting[-1]:
            waiting.pop()
            continue
        info, link = waiting[-1].popleft()
        if info.id in seen:
            continue
        seen.add(info.id)
        indent = "  " * min(len(waiting), DEEPEST)
        lines.append(f"{indent}{info.id}  {_about(info, link)}")
        if info.id in children:
            try:
                child = await read(harness, info.id)
            except DshError as error:
                lines.append(f"{indent}  cannot be read: {one_line(error.message)}")
                continue
            waiting.append(_directly_below(harness, child, children))
    return lines


def _directly_below(
    harness: Harness, stored: StoredSession, children: dict[str, list[SessionInfo]]
) -> deque[tuple[SessionInfo, dict[str, Any] | None]]:
    """The children of a session, in the order in which they were begun, each with what the log says of it."""
    infos = children.get(stored.header.id, [])
    links = _links(stored, harness) if infos else {}
    begun = {id: number for number, id in enumerate(links)}
    infos.sort(key=lambda info: (info.created_at, begun.get(info.id, -1), info.id))
    return deque((info, links.get(info.id)) for info in infos)


def _about(info: SessionInfo, link: dict[str, Any] | None) -> str:
    title = one_line(info.title)[:60]
    if link is None:
        return f"fork: {title}" if info.seed_length else title
    return _said(link, title)


def _said(link: dict[str, Any], title: str) -> str:
    return f"{one_line(str(link.get('description') or title))[:60]}: {one_line(str(link.get('reason', 'not ended')))}"


def _links(stored: StoredSession, harness: Harness, since: int = 0) -> dict[str, dict[str, Any]]:
    """What the log says, from event `since` on, of agents that were started, by the ids of their sessions."""
    found: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for line in islice(lines_of(stored, harness.codec), since, None):
        if not line.startswith(_LINKS):
            continue
        try:
            data = loads(line)["data"]
            found[data["sessionId"]].update(data)
        except (ValueError, KeyError, TypeError):
            continue  # damaged, as the transcript says
    return found
