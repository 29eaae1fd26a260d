"""``dsh why``: which plugins decided about a call, a prompt, a request or a turn, and what each said."""

from __future__ import annotations

import argparse
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from ..errors import ConfigError, SessionNotFound
from ..explain import Explanation, explain_call, explain_event, explain_turn, last_denial, lines_about, place_of
from ..jsonvalue import dumps
from ..session.events import TurnStart
from ..session.store import SessionQuery
from . import clean, complain
from .start import opened, settle
from .stored import Damage, found_session, listed, read, told

if TYPE_CHECKING:
    from ..harness import Harness
    from ..session.events import Event
    from ..session.store import StoredSession

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Print the chain of decisions; 1 if lines of the log cannot be read.

    Raises:
        ConfigError: there is no such event, call or turn.
        SessionNotFound: there is no such session.
    """
    return trio.run(_run, args)


async def _run(args: argparse.Namespace) -> int:
    start = settle(args)
    about, session_id = _words(args.words)
    async with opened(start) as harness:
        if session_id:
            stored = await found_session(harness, session_id)
        else:
            infos = await listed(harness, SessionQuery(cwd=str(start.cwd), limit=1))
            if not infos:
                raise SessionNotFound("there is no session of this directory yet; name one: dsh why ID")
            stored = await read(harness, infos[0].id)
        damage, asked = Damage(complain), stored.header.id
        events = list(told(stored, harness.codec, damage))
        if about in ("", "denied"):
            stored, events = await _denied_below(harness, stored, events, damage)
        found = _wanted(events, about)
        if args.json:
            for one in found:
                print(dumps({"session": stored.header.id, **_record(harness, one)}).decode())
        else:
            below = f", which {stored.header.parent_session} started" if stored.header.id != asked else ""
            print(f"session {stored.header.id}{below}")
            for one in found:
                print("\n".join(["", *(clean(line) for line in lines_about(harness, one))]))
    return damage.close()


async def _denied_below(
    harness: Harness, stored: StoredSession, events: list[Event], damage: Damage
) -> tuple[StoredSession, list[Event]]:
    """The session in which something was denied last: this one, or one of the subagents below it."""
    best = (_time_of_denial(events), stored, events)
    waiting, seen = [stored.header.id], {stored.header.id}
    while waiting:
        for info in await listed(harness, SessionQuery(parent=waiting.pop())):
            if info.id in seen or info.seed_length or info.updated_at <= best[0]:
                continue
            seen.add(info.id)
            waiting.append(info.id)
            child = await read(harness, info.id)
            own = list(told(child, harness.codec, damage))
            if (time := _time_of_denial(own)) > best[0]:
                best = (time, child, own)
    return best[1], best[2]


def _time_of_denial(events: Sequence[Event]) -> float:
    """When something was denied last, in milliseconds; -1 if nothing was."""
    index = last_denial(events)
    return -1 if index is None else events[index].time


def _words(words: Sequence[str]) -> tuple[str, str]:
    """What is asked about, and the session: the one that looks like it is the former."""
    about = [word for word in words if ":" in word or word in ("denied", "last")]
    rest = [word for word in words if word not in about]
    if len(about) > 1 or len(rest) > 1:
        raise ConfigError("dsh why takes a session and one of seq:N, turn:N, call:ID, denied, last", code="USAGE")
    return (about[0] if about else ""), (rest[0] if rest else "")


def _wanted(events: Sequence[Event], about: str) -> list[Explanation]:
    """What `about` asks for: ``seq:N``, ``turn:N``, ``call:ID``, ``denied``, ``last`` or nothing, which is the last
    denial if there is one, else the last turn.

    Args:
        events: a log, without the pieces that answers came in.

    Raises:
        ConfigError: it is none of these, or what it names is not there.
    """
    kind, _, value = about.partition(":")
    if kind == "call" and value:
        return [explain_call(events, value)]
    if kind == "seq" and value.isdecimal():
        return [explain_event(events, _index(events, int(value)))]
    if kind == "turn" and value.isdecimal():
        return explain_turn(events, int(value))
    if about in ("", "denied"):
        denial = last_denial(events)
        if denial is not None:
            return [explain_event(events, denial)]
        if about == "denied":
            raise ConfigError("nothing was denied in this session", code="USAGE")
    if about in ("", "last"):
        turn = next((event.data.turn for event in reversed(events) if isinstance(event.data, TurnStart)), None)
        if turn is None:
            raise ConfigError("the session has no turn yet", code="USAGE")
        return explain_turn(events, turn)
    raise ConfigError(f"{about!r}: expected seq:N, turn:N, call:ID, denied or last", code="USAGE")


def _index(events: Sequence[Event], seq: int) -> int:
    """Where the event `seq` stands; a piece of an answer is part of the message that follows it."""
    index = bisect_left(events, seq, key=lambda event: event.seq)
    if index < len(events):
        return index
    last = events[-1].seq if events else -1
    raise ConfigError(f"there is no event {seq}; the last one is {last}", code="USAGE")


def _record(harness: Harness, found: Explanation) -> dict[str, Any]:
    decisions = []
    for decision in found.decisions:
        place = place_of(harness.plugins, decision)
        record: dict[str, Any] = dict(harness.codec.to_json(decision))
        record["file"], record["line"] = (place.file, place.line) if place else (None, None)
        record["versionNow"] = place.version if place else None
        decisions.append(record)
    return {
        "what": found.what,
        "outcome": found.outcome,
        "turn": found.turn,
        "step": found.step or None,
        "decisions": decisions,
        "more": [
            {"type": event.type, "seq": event.seq, "data": harness.codec.to_json(event.data)} for event in found.more
        ],
    }
