"""The session log: its vocabulary, the log itself, and what is derived from it.

Events are in `dsh.session.events`; everything named here is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .codec import Codec
    from .events import Event, OtherData, Replace
    from .header import canonical, diff, fold, owed
    from .keeper import SessionStore, SessionWriter, check_cancelled, title_of
    from .lines import EventLog, parse_log
    from .log import Session
    from .rebuild import rebuild_request
    from .repair import interrupted_turn_closers
    from .sessions import Sessions
    from .store import EventTypes, SessionHeader, SessionInfo, SessionQuery, SessionsFound, StoredSession
    from .surface import Surface, derive, event_message, pairing_balanced

_HOMES = {
    "Codec": "codec",
    "Event": "events",
    "EventLog": "lines",
    "EventTypes": "store",
    "OtherData": "events",
    "Replace": "events",
    "Session": "log",
    "SessionHeader": "store",
    "SessionInfo": "store",
    "SessionQuery": "store",
    "SessionStore": "keeper",
    "SessionWriter": "keeper",
    "Sessions": "sessions",
    "SessionsFound": "store",
    "StoredSession": "store",
    "Surface": "surface",
    "canonical": "header",
    "check_cancelled": "keeper",
    "derive": "surface",
    "diff": "header",
    "event_message": "surface",
    "fold": "header",
    "interrupted_turn_closers": "repair",
    "owed": "header",
    "pairing_balanced": "surface",
    "parse_log": "lines",
    "rebuild_request": "rebuild",
    "title_of": "keeper",
}

__all__ = [
    "Codec",
    "Event",
    "EventLog",
    "EventTypes",
    "OtherData",
    "Replace",
    "Session",
    "SessionHeader",
    "SessionInfo",
    "SessionQuery",
    "SessionStore",
    "SessionWriter",
    "Sessions",
    "SessionsFound",
    "StoredSession",
    "Surface",
    "canonical",
    "check_cancelled",
    "derive",
    "diff",
    "event_message",
    "fold",
    "interrupted_turn_closers",
    "owed",
    "pairing_balanced",
    "parse_log",
    "rebuild_request",
    "title_of",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
