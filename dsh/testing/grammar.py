"""A check of whole logs, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hooks.markers import hookimpl
from ..session.grammar import problems

if TYPE_CHECKING:
    from ..session.log import Session

__all__ = ["LogCheck", "problems"]


class LogCheck:
    """A plugin that fails when the harness closes, if a log that it saw begin breaks its promises."""

    def __init__(self) -> None:
        self._seen: list[tuple[Session, int]] = []

    @hookimpl
    def session_created(self, session: Session) -> None:
        """Remember the session; what it was seeded with is not this program's."""
        self._seen.append((session, len(session.events)))

    @hookimpl(trylast=True)
    async def dsh_unconfigure(self) -> None:
        """Look at all the logs.

        Raises:
            AssertionError: a log is wrong; the message says where.
        """
        for session, since in self._seen:
            found = problems(session.events, since=since)
            assert not found, f"the log of session {session.id}: {'; '.join(found)}"
