"""The player: a plugin that answers every model request from scripts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

import trio
from attrs import define

from dsh import LlmError, hookimpl
from dsh.llm.scripted import Reply

from .script import Script

if TYPE_CHECKING:
    from dsh import Request
    from dsh.llm.adapter import Adapters
    from dsh.llm.chunks import Chunk, ChunkStream

__all__ = ["Player"]


@define
class _Cursor:
    """Where a session stands in its script."""

    script: Script
    next: int = 0


class Player:
    """Answers for the model, and stands in as the provider ``replay`` where there is no other.

    Args:
        scripts: one for each session, in the order in which they first ask.
    """

    models: Sequence[str] = ("recorded",)
    configured = True
    default_model = "recorded"

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._scripts = scripts
        self._cursors: dict[str | None, _Cursor] = {}

    @hookimpl
    def llm_adapters(self, adapters: Adapters) -> None:
        """Be a provider, so that none has to be configured."""
        adapters.add("replay", self)

    @hookimpl
    def llm_stream(self, request: Request) -> ChunkStream:
        """Answer whatever model is asked."""
        return self.stream(request, request.model)

    def stream(self, request: Request, model: str) -> ChunkStream:
        """The session's next answer.  Cancellation ends it before any chunk."""
        cursor = self._cursors.get(request.session_id)
        if cursor is None:
            if len(self._cursors) >= len(self._scripts):
                return _fail(
                    f"there is no recording for the session {request.session_id}: all {len(self._scripts)} are taken"
                )
            cursor = self._cursors[request.session_id] = _Cursor(self._scripts[len(self._cursors)])
        number, cursor.next = cursor.next, cursor.next + 1
        replies = cursor.script.replies
        if number >= len(replies):
            return _fail(f"{cursor.script.name} has {len(replies)} answers, and this is request {number + 1}")
        return _play(replies[number])

    async def aclose(self) -> None:
        """Nothing to close."""


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
