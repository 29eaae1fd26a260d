"""Whose events a session begins with: of the session that it was forked from, which may be a fork itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..errors import DshError
from ..stash import StashKey

if TYPE_CHECKING:
    from ..hookspecs import Hooks
    from .log import Session
    from .store import SessionHeader

__all__ = ["LINEAGE", "lineage_of", "read_lineage"]

LINEAGE: StashKey[tuple[str, ...]] = StashKey("the sessions whose events this one begins with")
"""In the stash of a session, where more than its own header was looked at."""

READ_SECONDS = 5.0
"""How long the headers of those that a session comes from are looked for."""


def forked_from(header: SessionHeader) -> str | None:
    """The id of the session that this one is a fork of; None if it began by itself."""
    return header.parent_session if header.seed_length else None


def lineage_of(session: Session) -> tuple[str, ...]:
    """The ids of the sessions whose events this one begins with, the nearest first; as far as that is known."""
    known = session.stash.get(LINEAGE, None)
    if known is not None:
        return known
    parent = forked_from(session.header)
    return () if parent is None else (parent,)


async def read_lineage(hook: Hooks, header: SessionHeader) -> tuple[str, ...]:
    """The same, of a stored session, looked up in the headers of those that it comes from.

    Where one of them is gone or cannot be read, nothing is known of those before it.  It takes `READ_SECONDS` at
    most, and is not cancelled meanwhile: whoever has opened a session must come to make an agent of it.
    """
    found: list[str] = []
    parent = forked_from(header)
    with trio.move_on_after(READ_SECONDS, shield=True):
        while parent is not None and parent not in (header.id, *found):
            found.append(parent)
            try:
                stored = await hook.session_read(session_id=parent)
            except (DshError, OSError):
                break
            parent = None if stored is None else forked_from(stored.header)
    return tuple(found)
