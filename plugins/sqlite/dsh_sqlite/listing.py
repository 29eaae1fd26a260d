"""Listing sessions."""

from __future__ import annotations

import sqlite3

from dsh import CorruptSession
from dsh.jsonvalue import clean
from dsh.session import SessionInfo, SessionQuery, title_of
from dsh.session.codec import Codec

from .database import plain
from .rows import compose_header

__all__ = ["scan"]

_LAST = "(SELECT time FROM events WHERE session_id = s.id ORDER BY seq DESC LIMIT 1)"
_FIRST = (
    "(SELECT substr(data, 1, 16384) FROM events WHERE session_id = w.id AND seq < 64 AND type = 'user/message' "
    "ORDER BY seq LIMIT 1)"
)
_LIST = f"""
SELECT w.*, {_FIRST} FROM (
    SELECT version, id, created_at, cwd, parent_session, seed_length, {_LAST} AS last FROM sessions AS s
    WHERE last NOTNULL AND (?1 ISNULL OR cwd = ?1) AND (?2 ISNULL OR parent_session = ?2)
        AND (?3 OR parent_session ISNULL OR seed_length NOTNULL)
    ORDER BY last DESC, id LIMIT ?4
) AS w ORDER BY last DESC, id
"""


def scan(connection: sqlite3.Connection, query: SessionQuery, codec: Codec) -> list[SessionInfo]:
    """The sessions that have events and that `query` wants, the last written first; none in other formats."""
    cwd = None if query.cwd is None else clean(query.cwd)
    parent = None if query.parent is None else plain(query.parent)
    limit = -1 if query.limit is None else query.limit
    found = []
    for row in connection.execute(_LIST, (cwd, parent, query.children, limit)):
        try:
            header = codec.decode_header(compose_header(row[:6]))
        except CorruptSession:
            continue
        found.append(
            SessionInfo(
                id=header.id,
                created_at=header.created_at,
                updated_at=row[6],
                cwd=header.cwd,
                title=title_of(row[7] or b""),
                parent_session=header.parent_session,
                seed_length=header.seed_length,
            )
        )
    return found
