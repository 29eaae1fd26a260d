"""The player: a plugin that answers every model request from scripts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import trio
from attrs import define

from dsh import LlmError, hookimpl
from dsh.llm.scripted import Reply

from .script import CHILD, Script, played

if TYPE_CHECKING:
    from dsh import Agent, Request, Session
    from dsh.llm.adapter import Adapters
    from dsh.llm.chunks import Chunk, ChunkStream
    from dsh.session import Event

__all__ = ["Player"]


@define
class _Cursor:
    """Where a session stands in its script."""

    script: Script
    next: int = 0
    next_aside: int = 0


class Player:
    """Answers for the model, and stands in as the provider ``replay`` where there is no other.

    Args:
        scripts: one for each session, in the order in which they first ask; but a subagent takes that of the one
            which the same call started, where the recording says which that was.
    """

    models: Sequence[str] = ("recorded",)
    configured = True
    default_model = "recorded"

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = scripts
        self._cursors: dict[str | None, _Cursor] = {}
        self._born: dict[str, tuple[str, str]] = {}

    @hookimpl
    def llm_adapters(self, adapters: Adapters) -> None:
        """Be a provider, so that none has to be configured."""
        adapters.add("replay", self)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Note which call a subagent is from."""
        if event.type == CHILD:
            call, child = getattr(event.data, "call_id", None), getattr(event.data, "session_id", None)
            if isinstance(call, str) and isinstance(child, str):
                self._born[child] = (session.id, call)

    @hookimpl
    def llm_stream(self, agent: Agent | None, request: Request) -> ChunkStream:
        """Answer whatever model is asked; what is asked between steps has answers of its own, where there are any."""
        session = agent.session if agent is not None and agent.session.id == request.session_id else None
        return self._next(request, agent is not None and agent.session.open_step is None, session)

    def stream(self, request: Request, model: str) -> ChunkStream:
        """The session's next answer.  Cancellation ends it before any chunk."""
        return self._next(request, False, None)

    def _next(self, request: Request, aside: bool, session: Session | None) -> ChunkStream:
        cursor = self._cursors.get(request.session_id)
        if cursor is None:
            script = self._script_of(request.session_id)
            if script is None:
                return _fail(
                    f"there is no recording for the session {request.session_id}: all {len(self._scripts)} are taken"
                )
            cursor = self._cursors[request.session_id] = _Cursor(script, *_stand(script, session))
        if aside and cursor.script.asides:
            return self._aside(cursor)
        number, cursor.next = cursor.next, cursor.next + 1
        replies = cursor.script.replies
        if number >= len(replies):
            return _fail(f"{cursor.script.name} has {len(replies)} answers, and this is request {number + 1}")
        return _play(replies[number])

    def _script_of(self, session_id: str | None) -> Script | None:
        """That of the subagent which the same call started, or else the next that nobody has taken."""
        taken = [cursor.script for cursor in self._cursors.values()]
        free = [script for script in self._scripts if not any(script is other for other in taken)]
        parent, call = self._born.get(session_id or "", ("", ""))
        wanted = self._cursors[parent].script.children.get(call) if parent in self._cursors else None
        named = (script for script in free if script.session == wanted)
        return next(named, free[0] if free else None)

    def _aside(self, cursor: _Cursor) -> ChunkStream:
        number, cursor.next_aside = cursor.next_aside, cursor.next_aside + 1
        asides = cursor.script.asides
        if number >= len(asides):
            return _fail(
                f"{cursor.script.name} has {len(asides)} summaries, and this is the request for number {number + 1}"
            )
        return _play(asides[number])

    async def aclose(self) -> None:
        """Nothing to close."""


def _stand(script: Script, session: Session | None) -> tuple[int, int]:
    """Where a session stands in its script, which it may have begun in another process."""
    if session is None:
        return 0, 0
    return played(script, islice(session.events, session.header.seed_length or 0, None))


async def _play(reply: Reply) -> AsyncGenerator[Chunk, None]:
    for chunk in reply.chunks:
        await trio.lowlevel.checkpoint()
        yield chunk
    await trio.lowlevel.checkpoint()
    if reply.hangs:
        await trio.sleep_forever()
    if reply.error is not None:
        raise reply.error


async def _fail(message: str) -> AsyncGenerator[Chunk, None]:
    await trio.lowlevel.checkpoint()
    raise LlmError(message, code="REPLAY_EXHAUSTED")
    yield
