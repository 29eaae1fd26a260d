"""``dsh sessions delete``."""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ConfigError, SessionError, SessionNotFound
from ...session.folder import session_folder
from ...session.store import SessionInfo, SessionQuery
from .. import complain
from ..progress import one_line
from ..start import Start, opened
from ..stored import find, listed, plugins_aside
from .repair import BACKUP
from .times import minute

if TYPE_CHECKING:
    from ...harness import Harness

__all__ = ["run"]


async def run(args: argparse.Namespace, start: Start) -> int:
    """Delete a session, once a person has said so; 1 if they did not."""
    async with opened(start) as harness:
        info = await _found(harness, args.target)
        children = [child for child in await listed(harness, SessionQuery(parent=info.id)) if child.id != info.id]
        if not args.yes and not _confirmed(info, children):
            complain(f"the session {info.id} was not deleted")
            return 1
        with plugins_aside():
            deleted = await harness.hook.session_delete(session_id=info.id)
        if not deleted:
            raise SessionError(f"the store of the session {info.id} deletes no sessions")
    if info.path is not None:
        _drop_copies(Path(info.path))
    shutil.rmtree(session_folder(start.home, info.id), ignore_errors=True)
    print(f"deleted {info.id}")
    if args.yes:
        for line in _about(children):
            start.warn(line)
    return 0


async def _found(harness: Harness, wanted: str) -> SessionInfo:
    """The session to delete; one that cannot be read is as good as another."""
    try:
        return await find(harness, wanted)
    except SessionNotFound:
        raise
    except SessionError as error:
        complain(str(error))
        return SessionInfo(wanted, 0, 0)


def _confirmed(info: SessionInfo, children: list[SessionInfo]) -> bool:
    """Whether the person at the terminal wants it."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("sessions delete asks on a terminal, and there is none; --yes deletes unasked", code="USAGE")
    title = one_line(info.title) or "without a title"
    told = [f"session {info.id}, last used {minute(info.updated_at)}: {title}", *_about(children)]
    print("\n".join(told), file=sys.stderr)
    print("Delete it for good? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    return answer.strip().lower() in ("y", "yes")


def _about(children: list[SessionInfo]) -> list[str]:
    """What stays behind, in words."""
    forks = [child.id for child in children if child.seed_length is not None]
    agents = [child.id for child in children if child.seed_length is None]
    return [
        f"{len(ids)} session{'' if len(ids) == 1 else 's'} {what} stay{'s' if len(ids) == 1 else ''}: {_some(ids)}"
        for ids, what in ((forks, "forked from it"), (agents, "of agents that it started"))
        if ids
    ]


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def _drop_copies(path: Path) -> None:
    """Delete the copies that repairs have left beside the file."""
    with suppress(OSError):
        for other in path.parent.iterdir():
            if other.name.startswith(path.name + BACKUP):
                other.unlink(missing_ok=True)
