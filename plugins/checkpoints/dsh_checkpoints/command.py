"""``dsh rewind``: files and conversation as they were at the end of a turn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from dsh import Config, ConfigError, DshError, Harness, SessionNotFound, Tool, open_harness
from dsh.jsonvalue import clean, dumps
from dsh.session.fork import fork_seed
from dsh.session.store import SessionQuery, SessionsFound, StoredSession
from dsh.terminal import visible
from dsh.tools.tool import Tools

from .rewind import Step, apply, history, last_turn, plan

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.session.lines import EventLog

__all__ = ["configure", "run", "slash"]

SINCE = "somebody else or a command changed it since"
WORDS = {
    "restore": "brought back",
    "delete": "deleted, as it was not there",
    "changed": f"left alone: {SINCE} (--force brings it back all the same)",
    "lost": "left alone: what it was is not kept",
    "nothing": "as it was already",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """The flags of ``dsh rewind``."""
    parser.add_argument(
        "session", nargs="?", metavar="ID", help="the session; the last of this directory, if not given"
    )
    parser.add_argument(
        "--to", type=_number, metavar="TURN", help="the turn whose end to go back to; 0 is before the first"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", action="store_true", help="the files only")
    what.add_argument("--conversation", action="store_true", help="the conversation only: a new session up to there")
    parser.add_argument("--force", action="store_true", help="also files that somebody else changed since")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a turn, or 0, got {text!r}")
    return int(text)


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
        wants_fork = not args.files and turn > 0
        # what is no turn to go back to, or is damaged, is found before a file is touched
        seed = fork_seed(stored, harness.codec, turn=turn) if wants_fork else None
        steps: list[Step] = []
        note = ""
        root = stored.header.id
        if not args.conversation:
            found = await history(harness, stored, turn)
            root, note = found.root, _commands(harness, found.calls)
            steps = await trio.to_thread.run_sync(plan, harness.home, found)
        force = args.force or await trio.to_thread.run_sync(_confirmed, steps, args)
        forked = None
        done: Sequence[tuple[Step, str | None]] = ()
        if not args.dry_run:
            done = await trio.to_thread.run_sync(apply, harness.home, root, steps, force)
            # the new session would be the last one here, and the next `dsh rewind --force` about that one
            waits = any(error is not None for _, error in done) or (_changed(steps) and not force)
            if seed is not None and not waits:
                forked = await _fork(harness, stored, seed)
    failed = {step.path: error for step, error in done if error is not None}
    if args.json:
        files = [_record(step, failed, force) for step in steps]
        record = {"session": stored.header.id, "turn": turn, "files": files, "new_session": forked}
        print(dumps({**record, "note": note or None, "dry_run": args.dry_run}).decode())
    else:
        head = f"session {stored.header.id}: back to the end of turn {turn} of {last_turn(stored.events)}"
        print(head if turn else f"session {stored.header.id}: back to before its first turn")
        _print(steps, failed, turn, forked, args, force)
        if note:
            print(note)
    left = any(step.action == "lost" for step in steps) or (_changed(steps) and not force)
    return 1 if failed or left else 0


def _confirmed(steps: Sequence[Step], args: argparse.Namespace) -> bool:
    """Whether the person at the terminal wants what somebody else changed to be overwritten."""
    changed = _changed(steps)
    if args.dry_run or args.json or not changed or sys.stdin is None or not sys.stdin.isatty():
        return False
    for step in changed:
        print(f"{visible(step.path, keep='')}: {SINCE}", file=sys.stderr)
    question = "Bring it back all the same?" if len(changed) == 1 else f"Bring these {len(changed)} back all the same?"
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _changed(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.action == "changed"]


def _commands(harness: Harness, calls: Sequence[str]) -> str:
    """A line about commands that ran behind the turn: what they changed is not known."""
    if not calls:
        return ""
    tools = Tools()
    with suppress(DshError):  # without tools, or an agent, there is nothing to say
        agent = harness.create_unstored("rewind").agent
        agent.hook.tools_register(agent=agent, tools=tools)
    return _said(tools, calls)


def _said(tools: Iterable[Tool], calls: Sequence[str]) -> str:
    running = {tool.name for tool in tools if tool.effect == "execute"}
    count = sum(name in running for name in calls)
    if not count:
        return ""
    what = "a command ran" if count == 1 else f"{count} commands ran"
    return f"{what} after that turn; what commands changed is not kept, and stays as it is"


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


async def _fork(harness: Harness, stored: StoredSession, seed: EventLog) -> str:
    """A new session that begins with `seed`, the beginning of this one; its id."""
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
    action = _action(step, force)
    return {"path": clean(step.path), "action": action, "why": step.why or None, "error": failed.get(step.path)}


def _print(
    steps: Sequence[Step],
    failed: dict[str, str],
    turn: int,
    forked: str | None,
    args: argparse.Namespace,
    force: bool,
) -> None:
    for step in steps:
        print(_line(step, failed, force, args.dry_run))
    if not steps and not args.conversation:
        print(_no_file(turn))
    if forked is not None:
        print(f"conversation: the session {forked} begins as this one did up to turn {turn}; dsh -r {forked}")
    elif not args.files and turn == 0 and not args.dry_run:
        print("conversation: before the first turn there is none; begin a new one", file=sys.stderr)
    elif not args.files and not args.dry_run:
        print("conversation: not taken back, as not all files were; --conversation does that alone", file=sys.stderr)


def _no_file(turn: int) -> str:
    return f"no tool changed a file after turn {turn}" if turn else "no tool changed a file"


def _action(step: Step, force: bool) -> str:
    """What is done, or would be."""
    if force and step.action == "changed":
        return "restore" if step.digest is not None else "delete"
    return step.action


def _line(step: Step, failed: dict[str, str], force: bool, dry: bool) -> str:
    path = visible(step.path, keep="")
    if step.path in failed:
        return f"{path}: not brought back: {failed[step.path]}"
    action = _action(step, force)
    words = WORDS[action]
    if dry and action in ("restore", "delete"):
        words = f"would be {words}"
    return f"{path}: {words}" + (f" ({step.why})" if step.why else "")


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
    found = await history(agent.harness, stored, turn)
    steps = await trio.to_thread.run_sync(plan, agent.harness.home, found)
    done = await trio.to_thread.run_sync(apply, agent.harness.home, found.root, steps, force)
    failed = {step.path: error for step, error in done if error is not None}
    lines = [_line(step, failed, force, False) for step in steps] or [_no_file(turn)]
    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    return "\n".join([*lines, *([note] if (note := _said(tools, found.calls)) else [])])
