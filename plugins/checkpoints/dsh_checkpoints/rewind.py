"""What bringing files back would do, and doing it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from dsh import SessionError
from dsh.session.events import Event, OtherData, ToolCall, TurnEnd, TurnStart
from dsh.session.store import SessionHeader, SessionQuery, SessionsFound, StoredSession

from .events import FileChanged
from .store import CheckpointsConfig, Journal, Rewound, Snapshot, Store, look, write_whole

if TYPE_CHECKING:
    from dsh import Harness

__all__ = ["Change", "History", "Step", "apply", "boundary", "history", "last_turn", "plan"]

FOREIGN = "somebody else or a command had changed it between the tools' changes"


@frozen
class Change:
    """A file that a tool changed.

    Attributes:
        session_id: whose folder keeps what it was before.
        data: the change.
        later: it was behind the end of the turn that is gone back to.
    """

    session_id: str
    data: FileChanged
    later: bool = True


@frozen
class History:
    """What tools changed in a session, and in those of the subagents that it started.

    Attributes:
        changes: all of them, oldest first.
        calls: the names of the tools that were called behind the turn, as often as they were.
        root: the id of the session that this one was forked from, or the one that that one was, or its own;
            rewinds of all of them are kept there.
    """

    changes: Sequence[Change]
    calls: Sequence[str]
    root: str


@frozen
class Step:
    """What becomes of one file.

    Attributes:
        path: the file.
        action: ``restore``, ``delete``, ``nothing`` where it is as it was already, ``changed`` where somebody else
            changed it meanwhile, or ``lost`` where its content before was not kept.
        digest, mode: what it shall be; without a mode, that which it has.
        found: what it is now.
        sessions: whose folders may hold the content, the likeliest first.
        folders: so many of the folders that it lies in go with it when they are empty.
        why: for ``lost``, the reason; else what is to be known.
    """

    path: str
    action: str
    digest: str | None = None
    mode: int | None = None
    found: Snapshot = field(factory=Snapshot)
    sessions: Sequence[str] = ()
    folders: int = 0
    why: str = ""


def last_turn(events: Iterable[Event]) -> int:
    """The number of the last turn that began; 0 if none did."""
    return max((event.data.turn for event in events if isinstance(event.data, TurnStart)), default=0)


def boundary(events: Sequence[Event], turn: int) -> tuple[int, int]:
    """The event behind the end of a turn, and the time of that end in milliseconds; 0 is before the first.

    Raises:
        SessionError: there is no such turn, or it has not ended.
    """
    if turn == 0:
        return 0, 0
    ends = {event.data.turn: event for event in events if isinstance(event.data, TurnEnd)}
    if turn not in ends:
        known = f"{min(ends)} to {max(ends)}" if ends else "none"
        raise SessionError(f"there is no turn {turn} that has ended (there are: {known}; 0 is before all)")
    return ends[turn].seq + 1, ends[turn].time


async def history(harness: Harness, stored: StoredSession, turn: int) -> History:
    """What was changed before and behind the end of a turn.

    What subagents changed is among it; what a fork of the session changed is not: that is another conversation.

    Raises:
        SessionError: there is no such turn, or a session cannot be read.
    """
    start, time = boundary(stored.events, turn)
    owners = await _owners(harness, stored.header)
    found: list[tuple[int, int, Change]] = []
    calls: list[str] = []
    waiting: list[tuple[str, float]] = []
    linked = _linked(stored.events)
    since = 0
    for end, name in owners:
        own = [event for event in stored.events[since:] if event.seq < end]
        found += [(e.time, e.seq, Change(name, e.data, e.seq >= start)) for e in own if isinstance(e.data, FileChanged)]
        calls += [e.data.name for e in own if isinstance(e.data, ToolCall) and e.seq >= start]
        # those that the session it was forked from started later are not of this conversation
        waiting.append((name, own[-1].time if own and end != math.inf else math.inf))
        since = len(stored.events) if end == math.inf else int(end)
    seen = {name for _, name in owners} | {stored.header.id}
    while waiting:
        parent, until = waiting.pop()
        below = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(parent=parent), found=below)
        for info in below:
            if info.id in seen or (info.id not in linked and (info.seed_length or info.created_at > until)):
                continue
            seen.add(info.id)
            child = await harness.hook.session_read(session_id=info.id)
            if child is None:
                continue
            linked |= _linked(child.events)
            waiting.append((info.id, math.inf))
            own = [event for event in child.events if event.seq >= (child.header.seed_length or 0)]
            found += [
                (e.time, e.seq, Change(info.id, e.data, e.time > time)) for e in own if isinstance(e.data, FileChanged)
            ]
            calls += [e.data.name for e in own if isinstance(e.data, ToolCall) and e.time > time]
    changes = [change for _, _, change in sorted(found, key=lambda entry: entry[:2])]
    return History(changes, calls, owners[0][1])


def _linked(events: Iterable[Event]) -> set[str]:
    """The sessions of subagents that a log names; one of them may be seeded as a fork is."""
    found: set[str] = set()
    for event in events:
        if event.type.startswith("subagent/"):
            data = event.data
            record = data.data if isinstance(data, OtherData) else None
            name = record.get("sessionId") if isinstance(record, Mapping) else getattr(data, "session_id", None)
            if isinstance(name, str):
                found.add(name)
    return found


async def _owners(harness: Harness, header: SessionHeader) -> list[tuple[float, str]]:
    """Whose folder keeps what the events of a session changed, the oldest first: events before that number are of
    the session of that name, since a fork begins with the events of another one.
    """
    owners: list[tuple[float, str]] = [(math.inf, header.id)]
    while header.parent_session is not None and header.seed_length:
        owners.insert(0, (min(header.seed_length, owners[0][0]), header.parent_session))
        parent = await harness.hook.session_read(session_id=header.parent_session)
        if parent is None:
            break
        header = parent.header
    return owners


def plan(home: Path, history: History) -> list[Step]:
    """What becomes of each file that was changed, in the order of their paths; blocks for as long as the disk takes."""
    rewound = Journal(home, history.root).last()
    of: dict[str, list[Change]] = {}
    for change in history.changes:
        of.setdefault(change.data.place(), []).append(change)
    sessions = dict.fromkeys([history.root, *(change.session_id for change in history.changes)])
    steps = (_step(home, path, of[path], rewound.get(path), list(sessions)) for path in sorted(of))
    return [step for step in steps if step is not None]


def _step(
    home: Path, path: str, changes: Sequence[Change], rewound: Rewound | None, sessions: Sequence[str]
) -> Step | None:
    """What becomes of a file; None where there is nothing to say of it.

    It is as dsh left it if it is as the last change left it, or an earlier rewind, or if it is not there.
    """
    later = [change.data for change in changes if change.later]
    if not later and rewound is None:
        return None  # what became of it behind the turn was nobody's doing here
    last = changes[-1].data
    first = later[0] if later else last
    digest, mode = (first.before, first.mode) if later else (last.after, None)
    if not later and rewound is not None and rewound.before == digest:
        mode = rewound.mode
    now = look(path)
    folders = max((change.folders for change in later), default=0)
    if not now.odd and now.hash == digest:
        return Step(path, "nothing", found=now, folders=folders if digest is None else 0) if later else None
    owners = [change.session_id for change in changes if change.data is first]
    where = list(dict.fromkeys([*owners, *sessions]))
    if digest is not None and not any(Store(home, name, CheckpointsConfig()).has(digest) for name in where):
        kept = first.kept if later else True
        why = "what was kept of it is gone" if later and kept else first.reason if later else "it was not kept then"
        return Step(path, "lost", why=why, found=now)
    if later and digest is None and not first.kept:
        return Step(path, "lost", why=first.reason, found=now)  # there was something, and it was no file
    action = "restore" if digest is not None else "delete"
    # where there is nothing, nothing can be lost
    if now.odd or now.hash not in {None, last.after, *([rewound.after] if rewound is not None else [])}:
        action = "changed"
    return Step(path, action, digest, mode, now, where, folders, FOREIGN if _parted(later, rewound) else "")


def _parted(later: Sequence[FileChanged], rewound: Rewound | None) -> bool:
    """Whether a change began with what no change before it left."""
    known = {later[0].before, *([rewound.after] if rewound is not None else [])} if later else set()
    for change in later:
        if change.before not in known:
            return True
        known.add(change.after)
    return False


def apply(home: Path, root: str, steps: Sequence[Step], force: bool = False) -> list[tuple[Step, str | None]]:
    """Do it; each step that did something, with what went wrong or None.

    A file that somebody else changed since the plan was made is left alone.  What a file is now is kept first, so that
    it can be had again.  The folder of a file is made if it is gone, and one that was made for it goes when it is
    empty.

    Args:
        root: of the history; the session whose folder keeps what is replaced.
        force: also what somebody else changed.
    """
    wanted = [step for step in steps if step.action in ("restore", "delete") or (force and step.action == "changed")]
    done = [(step, _apply(home, root, step)) for step in wanted]
    empty = {parent for step in steps if step.digest is None for parent in Path(step.path).parents[: step.folders]}
    for folder in sorted(empty, key=lambda folder: -len(folder.parts)):
        with suppress(OSError):  # there is something in it
            os.rmdir(folder)
    return done


def _apply(home: Path, root: str, step: Step) -> str | None:
    """Bring one file back; what went wrong, or None."""
    path = Path(step.path)
    try:
        data = None if step.digest is None else _content(home, step)
        now = look(step.path)
        if now.odd:
            return f"{now.odd}; move it away first"
        if now != step.found:
            return "it was changed this moment; try again"
        kept = Store(home, root, CheckpointsConfig(max_file_bytes=1 << 62, max_total_bytes=1 << 62)).keep(
            step.path, now
        )
        if not kept.ok:
            return f"what it is now cannot be kept: {kept.reason}"
        Journal(home, root).add(step.path, Rewound(now.hash, now.mode, step.digest))
        if data is None:
            path.unlink(missing_ok=True)
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = step.mode if step.mode is not None else now.mode
        write_whole(path, data, 0o644 if mode is None else mode)
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return None


def _content(home: Path, step: Step) -> bytes:
    """What the file shall hold.

    Raises:
        OSError: it cannot be read.
        ValueError: it is kept nowhere, or damaged.
    """
    damaged: ValueError | None = None
    for name in step.sessions:
        try:
            return Store(home, name, CheckpointsConfig()).content(str(step.digest))
        except FileNotFoundError:
            continue
        except ValueError as error:
            damaged = error
    raise damaged or ValueError("what was kept is gone")
