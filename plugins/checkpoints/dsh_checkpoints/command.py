"""``dsh rewind``: files and conversation as they were at the end of a turn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from dsh import Config, ConfigError, Harness, SessionNotFound, open_harness
from dsh.jsonvalue import dumps
from dsh.session.fork import fork_seed
from dsh.session.store import SessionQuery, SessionsFound, StoredSession

from .rewind import Step, apply, changes_since, last_turn, plan

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["configure", "run", "slash"]

WORDS = {
    "restore": "brought back",
    "delete": "deleted, as it was not there",
    "changed": "left alone: somebody else changed it since (--force brings it back all the same)",
    "lost": "left alone: what it was is not kept",
    "nothing": "as it was already",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh rewind``."""
    parser.add_argument(
        "session", nargs="?", metavar="ID", help="the session; the last of this directory, if not given"
    )
    parser.add_argument(
        "--to", type=int, metavar="TURN", help="the turn whose end to go back to; 0 is before the first"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="the files only")
    what.add_argument("--conversation", action="store_true", help="the conversation only: a new session up to there")
    parser.add_argument("--force", action="store_true", help="also files that somebody else changed since")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace, config: Config) -> int:
    """Go back; 1 if a file was not brought back, or left alone.

    Raises:
        ConfigError: there is no such turn.
        SessionNotFound: there is no such session.
    """
    return trio.run(_run, args, config, str(Path(args.cd or ".").resolve()))


async def _run(args: argparse.Namespace, config: Config, cwd: str) -> int:
    async with open_harness(attrs.evolve(config, agents=()), safe_mode=args.safe_mode) as harness:
        stored = await _stored(harness, args.session, cwd)
        turn = _turn(stored, args.to)
        steps: list[Step] = []
        if not args.conversation:
            changes = await changes_since(harness, stored, turn)
            steps = await trio.to_thread.run_sync(plan, changes)
        forked = None
        done: Sequence[tuple[Step, str | None]] = ()
        if not args.dry_run:
            done = await trio.to_thread.run_sync(apply, harness.home, steps, args.force)
            if not args.files and turn > 0:
                forked = await _fork(harness, stored, turn)
    failed = {step.path: error for step, error in done if error is not None}
    if args.json:
        files = [_record(step, failed, args.force) for step in steps]
        record = {"session": stored.header.id, "turn": turn, "files": files, "new_session": forked}
        print(dumps({**record, "dry_run": args.dry_run}).decode())
    else:
        _print(steps, failed, turn, forked, args)
    left = any(step.action == "lost" or (step.action == "changed" and not args.force) for step in steps)
    return 1 if failed or left else 0


def _turn(stored: StoredSession, wanted: int | None) -> int:
    last = last_turn(stored.events)
    if wanted is None:
        return max(0, last - 1)
    if not 0 <= wanted <= last:
        raise ConfigError(f"--to {wanted}: the session's turns are 1 to {last}; 0 is before the first", code="USAGE")
    return wanted


async def _stored(harness: Harness, wanted: str | None, cwd: str) -> StoredSession:
    found = SessionsFound()
    await harness.hook.session_list(query=SessionQuery(cwd=None if wanted else cwd), found=found)
    infos = [info for info in found if not wanted or info.id == wanted] or [
        info for info in found if wanted and info.id.startswith(wanted)
    ]
    if not infos or (wanted and len(infos) > 1):
        what = f"session {wanted}" if wanted else "session of this directory"
        many = f"{len(infos)} sessions begin with {wanted}" if infos else f"there is no {what}"
        raise SessionNotFound(f"{many}; `dsh sessions list --all` shows those there are")
    stored = await harness.hook.session_read(session_id=infos[0].id)
    if stored is None:
        raise SessionNotFound(f"the session {infos[0].id} cannot be read")
    return stored


async def _fork(harness: Harness, stored: StoredSession, turn: int) -> str:
    """A new session that begins as this one did up to the end of a turn; its id."""
    seed = fork_seed(stored, harness.codec, turn=turn)
    sessions = harness.sessions
    session = sessions.prepare(seed=seed, cwd=stored.header.cwd, parent_session=stored.header.id, seed_length=len(seed))
    detach = sessions.enter(session)
    try:
        sessions.announce(session)
        await sessions.flush(session)
    finally:
        detach()
    return session.id


def _record(step: Step, failed: dict[str, str], force: bool) -> dict[str, object]:
    action = "restore" if force and step.action == "changed" else step.action
    return {"path": step.path, "action": action, "why": step.why or None, "error": failed.get(step.path)}


def _print(
    steps: Sequence[Step], failed: dict[str, str], turn: int, forked: str | None, args: argparse.Namespace
) -> None:
    for step in steps:
        print(_line(step, failed, args.force, args.dry_run))
    if not steps and not args.conversation:
        print(f"no file was changed by a tool behind turn {turn}")
    if forked is not None:
        print(f"conversation: the session {forked} begins as this one did up to turn {turn}; dsh -r {forked}")
    elif not args.files and turn == 0 and not args.dry_run:
        print("conversation: before the first turn there is none; begin a new one", file=sys.stderr)


def _line(step: Step, failed: dict[str, str], force: bool, dry: bool) -> str:
    if step.path in failed:
        return f"{step.path}: not brought back: {failed[step.path]}"
    action = "restore" if force and step.action == "changed" and step.digest is not None else step.action
    if force and step.action == "changed" and step.digest is None:
        action = "delete"
    words = WORDS[action]
    if dry and action in ("restore", "delete"):
        words = f"would be {words}"
    return f"{step.path}: {words}" + (f" ({step.why})" if step.why else "")


async def slash(agent: Agent, text: str) -> str:
    """``/rewind``: the files only; the conversation of an agent that lives cannot be taken back.

    Raises:
        ConfigError: the text is no turn of this conversation.
    """
    words = text.split()
    force = "--force" in words
    words = [word for word in words if word != "--force"]
    if len(words) > 1 or (words and not words[0].isdecimal()):
        raise ConfigError("/rewind takes the number of a turn, 0 is before the first, and --force", code="USAGE")
    stored = StoredSession(agent.session.header, agent.session.events, None)
    turn = _turn(stored, int(words[0]) if words else None)
    steps = await trio.to_thread.run_sync(plan, await changes_since(agent.harness, stored, turn))
    done = await trio.to_thread.run_sync(apply, agent.harness.home, steps, force)
    failed = {step.path: error for step, error in done if error is not None}
    lines = [_line(step, failed, force, False) for step in steps]
    return "\n".join(lines) or f"no file was changed by a tool behind turn {turn}"
