"""What bringing files back would do, and doing it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dsh import SessionError
from dsh.session.events import Event, TurnEnd, TurnStart
from dsh.session.store import SessionHeader, SessionQuery, SessionsFound, StoredSession

from .events import FileChanged
from .store import CheckpointsConfig, Store, look, write_whole

if TYPE_CHECKING:
    from dsh import Harness

__all__ = ["Step", "apply", "boundary", "changes_since", "last_turn", "plan"]


@frozen
class Step:
    """What becomes of one file.

    Attributes:
        path: the file.
        action: ``restore``, ``delete``, ``nothing`` where it is as it was already, ``changed`` where somebody else
            changed it meanwhile, or ``lost`` where its content before was not kept.
        digest, mode: what it shall be.
        session_id: whose folder holds the content.
        why: for ``lost``, the reason.
    """

    path: str
    action: str
    digest: str | None = None
    mode: int | None = None
    session_id: str = ""
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


async def changes_since(harness: Harness, stored: StoredSession, turn: int) -> list[tuple[str, FileChanged]]:
    """The files that were changed behind the end of a turn, oldest first, each with the session that kept it.

    What subagents changed meanwhile is among them.

    Raises:
        SessionError: there is no such turn, or a session cannot be read.
    """
    start, time = boundary(stored.events, turn)
    owners = await _owners(harness, stored.header)
    found = [
        (e.time, e.seq, next(name for end, name in owners if e.seq < end), e.data)
        for e in stored.events[start:]
        if isinstance(e.data, FileChanged)
    ]
    waiting, seen = [stored.header.id], {stored.header.id}
    while waiting:
        below = SessionsFound()
        await harness.hook.session_list(query=SessionQuery(parent=waiting.pop()), found=below)
        for info in below:
            if info.id in seen or info.updated_at < time:
                continue
            seen.add(info.id)
            child = await harness.hook.session_read(session_id=info.id)
            if child is None or child.header.parent_session is None:
                continue
            waiting.append(info.id)
            own = child.events[child.header.seed_length or 0 :]
            found += [
                (e.time, e.seq, info.id, e.data) for e in own if isinstance(e.data, FileChanged) and e.time > time
            ]
    return [(session_id, data) for _, _, session_id, data in sorted(found, key=lambda entry: entry[:2])]


async def _owners(harness: Harness, header: SessionHeader) -> list[tuple[float, str]]:
    """Whose folder keeps what the events of a session changed, the oldest first: events before that number are of
    the session of that name, since a fork begins with the events of another one.
    """
    owners: list[tuple[float, str]] = [(math.inf, header.id)]
    while header.parent_session is not None and header.seed_length:
        owners.insert(0, (header.seed_length, header.parent_session))
        parent = await harness.hook.session_read(session_id=header.parent_session)
        if parent is None:
            break
        header = parent.header
    return owners


def plan(changes: Sequence[tuple[str, FileChanged]]) -> list[Step]:
    """What becomes of each file that was changed, in the order of their paths; blocks for as long as the disk takes."""
    first: dict[str, tuple[str, FileChanged]] = {}
    seen: dict[str, set[str | None]] = {}
    for session_id, change in changes:
        first.setdefault(change.path, (session_id, change))
        seen.setdefault(change.path, set()).update((change.before, change.after))
    return [_step(path, *first[path], seen[path]) for path in sorted(first)]


def _step(path: str, session_id: str, change: FileChanged, seen: set[str | None]) -> Step:
    """What becomes of a file; it is as tools left it if it is in one of the states in `seen`, as it is after an earlier
    rewind, too.
    """
    now = look(path)
    if not now.odd and now.hash == change.before:
        return Step(path, "nothing")
    if not change.kept:
        return Step(path, "lost", why=change.reason)
    action = "restore" if change.before is not None else "delete"
    if now.odd or now.hash not in seen:
        action = "changed"
    return Step(path, action, change.before, change.mode, session_id)


def apply(home: Path, steps: Sequence[Step], force: bool = False) -> list[tuple[Step, str | None]]:
    """Do it; each step that did something, with what went wrong or None.

    A file that somebody else changed since the plan was made is left alone.  The folder of a file is made if it is
    gone.

    Args:
        force: also what somebody else changed.
    """
    wanted = [step for step in steps if step.action in ("restore", "delete") or (force and step.action == "changed")]
    return [(step, _apply(home, step)) for step in wanted]


def _apply(home: Path, step: Step) -> str | None:
    """Bring one file back; what went wrong, or None."""
    path = Path(step.path)
    try:
        if step.digest is None:
            path.unlink(missing_ok=True)
            return None
        data = Store(home, step.session_id, CheckpointsConfig()).content(step.digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, step.mode if step.mode is not None else 0o644)
    except FileNotFoundError as error:
        return f"what was kept is gone: {error.filename}"
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return None
