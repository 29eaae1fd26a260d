"""``dsh sessions fork``: a new session that begins as another one did."""

from __future__ import annotations

import argparse
import re

from ...errors import ConfigError
from ...jsonvalue import dumps
from ...session.fork import fork_seed
from ..start import Start, opened
from ..stored import found_session, plugins_aside

__all__ = ["run"]

_AT = re.compile(r"(?:turn:)?(?P<turn>\d{1,12})|seq:(?P<seq>\d{1,12})")


async def run(args: argparse.Namespace, start: Start) -> int:
    """Store the new session, and print its id."""
    turn, seq = _boundary(args.at)
    async with opened(start) as harness:
        stored = await found_session(harness, args.target)
        seed, parent = fork_seed(stored, harness.codec, turn=turn, seq=seq), stored.header
        sessions = harness.sessions
        session = sessions.prepare(seed=seed, cwd=parent.cwd, parent_session=parent.id, seed_length=len(seed))
        detach = sessions.enter(session)
        try:
            with plugins_aside():
                sessions.announce(session)
                await sessions.flush(session)
        finally:
            detach()
    if args.json:
        made = {"id": session.id, "parent_session": parent.id, "seed_length": len(seed), "turns": session.last_turn}
        print(dumps(made).decode())
    else:
        print(session.id)
        turns = f"{session.last_turn} turn{'' if session.last_turn == 1 else 's'}"
        start.warn(f"it begins with {turns} of {parent.id}; dsh -r {session.id} -p ... goes on with it")
    return 0


def _boundary(at: str | None) -> tuple[int | None, int | None]:
    """The number of the turn, or of the event, that ``--at`` names."""
    if at is None:
        return None, None
    match = _AT.fullmatch(at)
    if match is None:
        raise ConfigError(f"--at {at}: name a turn, as in --at 3, or an event, as in --at seq:41", code="USAGE")
    turn, seq = match["turn"], match["seq"]
    return (None, int(seq)) if turn is None else (int(turn), None)
