"""Which session a conversation is held in: going on with another, and where it was left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, field

from dsh.session.store import SessionInfo, SessionQuery, SessionsFound

from .looks import last_exchange
from .state import counted

if TYPE_CHECKING:
    from .talk import Talk

__all__ = ["Sessions"]


@define
class Sessions:
    """The sessions of a conversation's folder.

    Attributes:
        others: those that it is not held in, as they were when somebody last looked; the last used first.
    """

    talk: Talk
    others: list[SessionInfo] = field(factory=list)
    _changing: bool = False

    async def find(self) -> list[SessionInfo]:
        """Look for the others."""
        talk = self.talk
        found = SessionsFound()
        query = SessionQuery(cwd=str(talk.conversation.cwd), limit=100, children=False)
        await talk.conversation.harness.hook.session_list(query=query, found=found)
        self.others = [info for info in found if info.id != talk.agent.session.id]
        return self.others

    async def look(self) -> None:
        """Look for the others, to propose them; who wants to resume one is told what fails."""
        with suppress(Exception):
            await self.find()

    async def change(self, session_id: str | None = None, *, fork: bool = False, turn: int | None = None) -> str:
        """Go on with another session, or a new one; what to tell the person.

        A turn that runs is stopped once the other session is there.

        Raises:
            DshError: it cannot be opened; everything is as it was.
        """
        if self._changing:
            return "one moment: another conversation is being opened"
        talk, before = self.talk, self.talk.agent
        if session_id == before.session.id and not fork:
            return f"session {session_id} is the one you are in"
        self._changing = True
        try:
            await talk.conversation.change(session_id, fork=fork, turn=turn)
        finally:
            self._changing = False
            if talk.agent is not before:
                talk.changed()
        session = talk.agent.session
        was = f"; dsh -r {before.session.id} goes on with the one before" if before.session.last_turn else ""
        if not session.last_turn:
            return f"a new session, {session.id}{was}"
        return f"session {session.id}, {counted(session.last_turn, 'turn')} so far{was}"

    def show_last(self) -> None:
        """Show where the conversation was left."""
        talk = self.talk
        prompt, answer = last_exchange(talk.agent.session)
        if prompt:
            talk.screen.show(talk.painter.said(prompt))
        if answer.strip():
            talk.screen.show(talk.painter.markdown(answer))
