"""Stored sessions, found and read without touching them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import CorruptSession, SessionNotFound
from ..session.fork import lines_of
from ..session.lines import is_foreign
from ..session.store import SessionInfo, SessionQuery, SessionsFound, StoredSession

if TYPE_CHECKING:
    from ..harness import Harness
    from ..session.codec import Codec
    from ..session.events import Event

__all__ = ["find", "listed", "read", "told"]

_CHUNK = b'{"type":"assistant/chunk",'


async def listed(harness: Harness, query: SessionQuery) -> list[SessionInfo]:
    """The stored sessions that `query` wants, the last used first."""
    found = SessionsFound()
    await harness.hook.session_list(query=query, found=found)
    return list(found)


async def find(harness: Harness, wanted: str) -> SessionInfo:
    """The session of that id, or the one whose id begins so.

    Raises:
        SessionNotFound: there is none, or there are several.
    """
    infos = await listed(harness, SessionQuery())
    matches = [info for info in infos if info.id == wanted] or [info for info in infos if info.id.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SessionNotFound(
            f"{len(matches)} sessions begin with {wanted}: {', '.join(info.id for info in matches[:5])}"
        )
    raise SessionNotFound(f"there is no session {wanted}; `dsh sessions list --all` shows those there are")


async def read(harness: Harness, session_id: str) -> StoredSession:
    """The session as it is stored; of a store that cannot show it so, opened and thus repaired.

    Raises:
        SessionNotFound: nobody has it.
        SessionError: it cannot be read.
    """
    stored = await harness.hook.session_read(session_id=session_id)
    if stored is None:
        stored = await harness.hook.session_open(session_id=session_id)
    if stored is None:
        raise SessionNotFound(f"there is no session {session_id}; `dsh sessions list --all` shows those there are")
    return stored


def told(stored: StoredSession, codec: Codec) -> Iterator[Event]:
    """The events in order, but for most of the pieces that answers came in, which say nothing more.

    Raises:
        CorruptSession: a line is damaged; the message names it.
    """
    for number, line in enumerate(lines_of(stored, codec), 2):
        if line.startswith(_CHUNK):
            continue
        try:
            yield codec.decode(line)
        except CorruptSession as error:
            if is_foreign(line):
                continue
            place = stored.path or f"session {stored.header.id}"
            raise CorruptSession(f"{place}, line {number}: {error}") from None
