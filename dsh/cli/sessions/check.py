"""``dsh sessions check``: does a stored log keep its promises?"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
from attrs import define, field, frozen

from ...errors import CorruptSession, SessionError, SessionNotFound
from ...jsonvalue import dumps
from ...messages import ToolCallBlock
from ...session import events as ev
from ...session.fork import lines_of
from ...session.grammar import LogGrammar
from ...session.header import fold
from ...session.lines import is_foreign
from ...session.store import SessionQuery, StoredSession
from ...session.surface import Surface
from .. import clean
from ..start import Start, opened
from ..stored import found_session, looked_for

if TYPE_CHECKING:
    from ...harness import Harness
    from ...session.codec import Codec

__all__ = ["Problem", "check", "run"]


@frozen
class Problem:
    """What is wrong, and in which line of the session's log; the header stands in line 1.

    Attributes:
        crash: a program that dies leaves logs like this, and opening them mends it.
    """

    line: int
    text: str
    crash: bool = False


async def run(args: argparse.Namespace, start: Start) -> int:
    """Print the problems of one session, or of all of them; 1 if there are any."""
    worst = 0
    async with opened(start) as harness:
        found = await looked_for(harness, SessionQuery(damaged=True)) if args.all else None
        ids = [args.target] if found is None else [info.id for info in found]
        for session_id in ids:
            worst = max(worst, await _one(harness, session_id, args.json))
        for place, reason in found.unreadable if found is not None else ():
            worst = 1
            listing = {"path": place, "problems": [{"line": 1, "problem": reason}]}
            print(dumps(listing).decode() if args.json else clean(reason))
        if found is not None and not ids and not worst:
            print("no sessions")
    return worst


async def _one(harness: Harness, wanted: str, as_json: bool) -> int:
    session_id, place = wanted, wanted
    try:
        stored = await found_session(harness, wanted)
        session_id, place = stored.header.id, stored.path or stored.header.id
        found, summary = check(stored, harness.codec)
    except SessionNotFound:
        raise
    except SessionError as error:
        found, summary = [Problem(1, str(error))], ""
    if as_json:
        listing = [{"line": problem.line, "problem": problem.text} for problem in found]
        print(dumps({"id": session_id, "problems": listing}).decode())
        return 1 if found else 0
    for problem in found:
        print(clean(f"{place}, line {problem.line}: {problem.text}"))
    if found and all(problem.crash for problem in found):
        print(f"  if no program is writing it, `dsh sessions repair {session_id}` mends that; so does going on with it")
    if not found:
        print(f"{session_id}: {summary}, no problems")
    return 1 if found else 0


def check(stored: StoredSession, codec: Codec) -> tuple[list[Problem], str]:
    """What is wrong with a stored session, and a few words on what there is.

    What follows a line that cannot be trusted is only read, as nothing can be said of its order.
    """
    grammar, requests = LogGrammar(), _Requests()
    found = [Problem(1, text) for text in _of_header(stored)]
    number, count, others, trusted, torn = 1, 0, 0, True, 0
    for number, line in enumerate(lines_of(stored, codec), 2):
        count += 1
        try:
            event = _event(line, codec, number, found)
            if event is None:
                others, count = others + 1, count - 1
                continue
            if not trusted:
                if isinstance(event.data, ev.TurnEnd):
                    torn = 0
                continue
            if event.seq != count - 1:
                raise CorruptSession(f"this is the event {event.seq}, where {count - 1} should stand")
            found += [Problem(number, text) for text in (*requests.take(event), *grammar.take(event))]
        except CorruptSession as error:
            if trusted:
                torn = len(found) + 1
            found.append(Problem(number, str(error)))
            trusted = False
    if torn:  # no turn ends behind it: opening the session cuts it off
        found[torn - 1 :] = [attrs.evolve(problem, crash=True) for problem in found[torn - 1 :]]
    if trusted:
        found += [Problem(number, text, crash=True) for text in grammar.end()]
        if (seed := stored.header.seed_length or 0) > count:
            found.append(Problem(1, f"it says that it begins with {seed} events of another session, and has {count}"))
    if stored.rest:
        text = f"{stored.rest} bytes of an event that was never completely written"
        found.append(Problem(number + 1, text, crash=True))
    more = f", {_many(others, 'record')} of other kinds" if others else ""
    return found, f"{_many(count, 'event')}, {_many(requests.count, 'request')}{more}"


def _of_header(stored: StoredSession) -> Iterator[str]:
    header = stored.header
    if not header.id:
        yield "the session has an empty id"
    if header.cwd is not None and not os.path.isabs(header.cwd):
        yield f"the session's directory is not absolute: {header.cwd!r}"


def _event(line: bytes, codec: Codec, number: int, found: list[Problem]) -> ev.Event | None:
    """The event of a line, None for a record of another kind; an event that is only kept unread is a problem."""
    try:
        return codec.decode(line)
    except CorruptSession as error:
        if is_foreign(line):
            return None
        event = codec.read(line)
        found.append(Problem(number, f"{error} (it is kept, and passed over)"))
        return event


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@define
class _Requests:
    """Whether each request can be made again, without making it."""

    count: int = 0
    header: ev.Header | None = None
    surface: Surface = field(factory=Surface)
    asked: bool = True
    _calls: dict[int, int] = field(factory=dict)
    _generation: int = 0

    def take(self, event: ev.Event) -> Iterator[str]:
        """The problems of the next event.

        Raises:
            CorruptSession: it contradicts what was before.
        """
        data = event.data
        match data:
            case ev.StepStart():
                self.asked = False
                yield from self._unpaired()
            case ev.RequestHeader() | ev.RequestHeaderDelta():
                self.header = fold(self.header, data, event.seq)
            case ev.AssistantChunk() | ev.AssistantMessage() if not self.asked:
                self.asked = True
                self.count += 1
                if self.header is None:
                    yield f"the request of step {data.step} of turn {data.turn} cannot be made again: it has no header"
        if isinstance(data, ev.AssistantMessage):
            self._calls[event.seq] = sum(isinstance(block, ToolCallBlock) for block in data.content)
        elif isinstance(data, ev.ToolResult):
            self._calls[event.seq] = -1
        self.surface.apply(event)

    def _unpaired(self) -> Iterator[str]:
        """Whether a replacement tore calls and results apart; without one the steps' grammar says it."""
        if self.surface.generation == self._generation:
            return
        self._generation = self.surface.generation
        open_calls = 0
        for seq in self.surface:
            open_calls += self._calls.get(seq, 0)
            if open_calls < 0:
                break
        if open_calls:
            yield "the request has calls without results, or results without calls, since events were replaced"
