"""Stored sessions, found and read without touching them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from ..errors import CorruptSession, SessionError, SessionNotFound
from ..session.fork import lines_of
from ..session.lines import is_foreign
from ..session.store import SessionInfo, SessionQuery, SessionsFound, StoredSession

if TYPE_CHECKING:
    from ..harness import Harness
    from ..session.codec import Codec
    from ..session.events import Event

__all__ = ["Damage", "find", "found_session", "listed", "looked_for", "plugins_aside", "read", "told"]

SHOWN = 5
"""How many of several sessions are named that one may have been meant of."""
_CHUNK = b'{"type":"assistant/chunk",'


@contextmanager
def plugins_aside() -> Iterator[None]:
    """While hooks are called: stdout is for what the command says, so what plugins print goes to stderr."""
    with redirect_stdout(sys.stderr):
        yield


async def listed(harness: Harness, query: SessionQuery) -> list[SessionInfo]:
    """The stored sessions that `query` wants, the last used first."""
    return list(await looked_for(harness, query))


async def looked_for(harness: Harness, query: SessionQuery) -> SessionsFound:
    """The same, with what else the stores had to say."""
    found = SessionsFound()
    with plugins_aside():
        await harness.hook.session_list(query=query, found=found)
    return found


async def find(harness: Harness, wanted: str) -> SessionInfo:
    """The session of that id, or the one whose id begins so.

    Raises:
        SessionNotFound: there is none, or there are several.
        SessionError: there is one of that id, which cannot be read.
    """
    infos = await listed(harness, SessionQuery())
    matches = [info for info in infos if info.id == wanted] or [info for info in infos if info.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    # One that has no events, or a header that cannot be read, is in no list.
    with plugins_aside():
        stored: StoredSession | None = await harness.hook.session_read(session_id=wanted) if wanted else None
    if stored is not None:
        header = stored.header
        if header.id != wanted:
            place = stored.path or wanted
            raise SessionError(f"{place} holds the session {header.id!r}, not {wanted!r}; it was renamed")
        return SessionInfo(
            header.id, header.created_at, header.created_at, header.cwd, "", stored.path, header.parent_session
        )
    if matches:
        more = f" and {len(matches) - SHOWN} more" if len(matches) > SHOWN else ""
        ids = ", ".join(info.id for info in matches[:SHOWN])
        raise SessionNotFound(f"{len(matches)} sessions begin with {wanted}: {ids}{more}")
    raise SessionNotFound(f"there is no session {wanted}; `dsh sessions list --all` shows those there are")


async def found_session(harness: Harness, wanted: str) -> StoredSession:
    """The session that `find` finds, read by `read`.

    Raises:
        SessionNotFound: there is none, or there are several.
        SessionError: it cannot be read, or is not stored under its own name.
    """
    info = await find(harness, wanted)
    try:
        return await read(harness, info.id)
    except SessionNotFound:
        where = f", as {info.path}" if info.path else ""
        raise SessionError(
            f"the session {info.id} is listed{where}, but not where one of that id is looked for; was it renamed?"
        ) from None


async def read(harness: Harness, session_id: str) -> StoredSession:
    """The session as it is stored; of a store that cannot show it so, opened and thus repaired.

    Raises:
        SessionNotFound: nobody has it.
        SessionError: it cannot be read.
    """
    with plugins_aside():
        stored = await harness.hook.session_read(session_id=session_id)
        if stored is None:
            stored = await harness.hook.session_open(session_id=session_id)
    if stored is None:
        raise SessionNotFound(f"there is no session {session_id}; `dsh sessions list --all` shows those there are")
    return stored


def told(stored: StoredSession, codec: Codec, damage: Callable[[str], None]) -> Iterator[Event]:
    """The events in order, but for most of the pieces that answers came in, which say nothing more.

    Args:
        damage: told of each line that cannot be read, and is left out.
    """
    for number, line in enumerate(lines_of(stored, codec), 2):
        if line.startswith(_CHUNK):
            continue
        try:
            yield codec.read(line)
        except CorruptSession as error:
            if not is_foreign(line):
                damage(f"{stored.path or f'session {stored.header.id}'}, line {number}: {error}; it is left out")


class Damage:
    """Counts damaged lines, and warns of the first few."""

    SHOWN = 5

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self.count = 0

    def __call__(self, message: str) -> None:
        self.count += 1
        if self.count <= self.SHOWN:
            self._warn(message)

    def close(self) -> int:
        """Say how many there were; the exit code of a command that left something out."""
        if self.count > self.SHOWN:
            more = self.count - self.SHOWN
            self._warn(f"{more} more lines cannot be read, and are left out; `dsh sessions check` lists them")
        return 1 if self.count else 0
