"""The stream of one answer, over as many responses as it takes."""

from __future__ import annotations

import re
from collections import deque
from typing import Self

from dsh.errors import LlmError
from dsh.llm.adapter import Request
from dsh.llm.chunks import BlockEnd, Chunk, Finish, Usage
from dsh.llm.http.service import Service
from dsh.llm.http.stream import AnswerStream
from dsh.messages import Block, TokenUsage
from dsh_anthropic.encode import Encoder
from dsh_anthropic.translate import PAUSE, Translator

__all__ = ["MessageStream"]

_THOUGHTS_REFUSED = re.compile(
    r"thinking.{0,200}(block|signature)|signature.{0,200}thinking", re.IGNORECASE | re.DOTALL
)


class MessageStream:
    """The chunks of one answer; the request is sent when the first is asked for.

    An answer that the service pauses, to work with tools of its own, is taken up again with what
    came so far, and goes on as if nothing had been.  Thoughts that the service does not take back,
    because something before them has changed, are left out, then and later.

    A failure is raised after the chunks that came before it.  Being cancelled closes the
    connection; after that, after a failure and after `aclose` the stream is over.
    """

    def __init__(self, service: Service, encoder: Encoder, request: Request, model: str, pauses: int) -> None:
        """Args: pauses: how often the answer may be taken up again."""
        self._service = service
        self._encoder = encoder
        self._request = request
        self._model = model
        self._pauses = pauses
        self._ready: deque[Chunk] = deque()
        self._blocks: list[Block] = []
        self._usage: TokenUsage | None = None
        self._begun = False
        self._failure: LlmError | None = None
        self._leg = self._ask()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            try:
                chunk = await self._leg.__anext__()
            except LlmError as error:
                if self._leave_out_thoughts(error):
                    continue
                if self._usage is None:
                    raise
                # What it took so far has to be paid for all the same.
                self._ready.append(Usage(self._usage))
                self._usage, self._failure = None, error
                continue
            self._pass(chunk)
        return self._ready.popleft()

    def take_ready(self) -> list[Chunk]:
        """The chunks that have come already, without waiting: what one read of the network brought."""
        for chunk in self._leg.take_ready():
            self._pass(chunk)
        ready = list(self._ready)
        self._ready.clear()
        return ready

    async def aclose(self) -> None:
        """Close the connection, unless the answer is over and it may be kept.  Has no checkpoint."""
        self._ready.clear()
        self._failure = None
        await self._leg.aclose()

    def _ask(self) -> AnswerStream:
        so_far = tuple(self._blocks)
        translator = Translator(self._service.place.name, self._request.model, len(so_far))
        return AnswerStream(self._service, lambda: self._encoder.body(self._request, self._model, so_far), translator)

    def _pass(self, chunk: Chunk) -> None:
        """Hand on `chunk`, unless the answer goes on behind it."""
        self._begun = True
        kind = chunk.__class__
        if kind is BlockEnd:
            assert isinstance(chunk, BlockEnd)
            self._blocks.append(chunk.block)
        elif kind is Usage:
            assert isinstance(chunk, Usage)
            self._usage = chunk.usage if self._usage is None else self._usage + chunk.usage
            return
        elif kind is Finish:
            assert isinstance(chunk, Finish)
            if chunk.reason.kind == PAUSE and self._pauses > 0 and self._blocks:
                self._pauses -= 1
                self._leg = self._ask()
                return
            if self._usage is not None:
                self._ready.append(Usage(self._usage))
        self._ready.append(chunk)

    def _leave_out_thoughts(self, error: LlmError) -> bool:
        """Whether the request is made again, without the thoughts of earlier answers."""
        if self._begun or error.status != 400 or not _THOUGHTS_REFUSED.search(error.message):
            return False
        if not self._encoder.forget_thoughts(self._request):
            return False
        self._leg = self._ask()
        return True
