"""A model that plays a script: for tests, demonstrations and dry runs.

    model = ScriptedModel(call("read", {"file_path": "a.txt"}), text("It says hello."))
    async with open_harness(plugins={"model": model}) as harness: ...

The model is a plugin that serves ``scripted/...``.  Each request takes the next reply; running
off the script's end is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import trio
from attrs import field, frozen

from ..errors import LlmError
from ..hooks.markers import hookimpl
from ..jsonvalue import Json, dumps
from ..messages import FinishReason, Reasoning, Text, TokenUsage, ToolCallBlock
from .adapter import Adapters, Request
from .chunks import BlockEnd, BlockStart, Chunk, ChunkStream, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage

__all__ = ["Reply", "ScriptedModel", "call", "cut", "fail", "hang", "reply", "text"]


def _chunks(chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
    return tuple(chunks)


@frozen
class Reply:
    """One answer: chunks, then an error to raise, or a wait that only cancellation ends."""

    chunks: tuple[Chunk, ...] = field(converter=_chunks)
    error: BaseException | None = None
    hangs: bool = False


def reply(
    text: str = "",
    *,
    reasoning: str = "",
    calls: Iterable[tuple[str, str, Mapping[str, Json] | str]] = (),
    finish: str | FinishReason | None = None,
    usage: TokenUsage | None = None,
) -> Reply:
    """An answer of reasoning, text and calls, in this order.

    Args:
        text: one delta a character.
        calls: (id, tool name, arguments); arguments given as a string are sent as they are.
        finish: defaults to ``tool-calls`` or ``stop``.
        usage: defaults to ten input tokens and an output token a character, five a call.
    """
    chunks: list[Chunk] = []
    index = 0
    if reasoning:
        chunks += [
            BlockStart(index, "reasoning"),
            *(ReasoningDelta(index, c) for c in reasoning),
            BlockEnd(index, Reasoning(reasoning)),
        ]
        index += 1
    if text:
        chunks += [BlockStart(index, "text"), *(TextDelta(index, c) for c in text), BlockEnd(index, Text(text))]
        index += 1
    count = 0
    for call_id, name, arguments in calls:
        raw = arguments if isinstance(arguments, str) else dumps(dict(arguments)).decode()
        half = len(raw) // 2
        chunks += [
            BlockStart(index, "tool-call"),
            ToolCallDelta(index, call_id, name, raw[:half]),
            ToolCallDelta(index, call_id, name, raw[half:]),
            BlockEnd(index, ToolCallBlock(call_id, name, raw)),
        ]
        index += 1
        count += 1
    chunks.append(Usage(usage or TokenUsage(10, len(text) + 5 * count)))
    reason = finish or ("tool-calls" if count else "stop")
    chunks.append(Finish(reason if isinstance(reason, FinishReason) else FinishReason(reason)))
    return Reply(chunks)


def text(answer: str) -> Reply:
    """A plain answer."""
    return reply(answer)


def call(name: str, arguments: Mapping[str, Json] | str = "", id: str = "c1") -> Reply:
    """An answer of one tool call."""
    return reply(calls=[(id, name, arguments)])


def cut(answer: str) -> Reply:
    """An answer that the token limit cut off."""
    return reply(answer, finish="max-tokens")


def hang(prefix: str = "x") -> Reply:
    """An answer that begins and never goes on."""
    return Reply((BlockStart(0, "text"), TextDelta(0, prefix)), hangs=True)


def fail(message: str = "the provider failed", *, code: str = "SERVER", after: str = "", **kwargs: Any) -> Reply:
    """An answer that raises an `LlmError`, after some text."""
    chunks = (BlockStart(0, "text"), TextDelta(0, after)) if after else ()
    return Reply(chunks, error=LlmError(message, code=code, **kwargs))


class ScriptedModel:
    """An adapter, and the plugin that offers it as the provider ``scripted``.

    Args:
        replies: the script.
        otherwise: played when the script is over.

    Attributes:
        requests: every request it got.
        models: the one name it knows: ``model``.
    """

    models: Sequence[str] = ("model",)
    configured = True
    default_model = "model"

    def __init__(self, *replies: Reply, provider: str = "scripted", otherwise: Reply | None = None) -> None:
        self.provider = provider
        self.requests: list[Request] = []
        self._replies = list(replies)
        self._otherwise = otherwise

    def add(self, *replies: Reply) -> None:
        """Append to the script."""
        self._replies += replies

    def clear(self) -> None:
        """Drop what is left of the script."""
        del self._replies[len(self.requests) :]

    @hookimpl
    def llm_adapters(self, adapters: Adapters) -> None:
        """Offer this model."""
        adapters.add(self.provider, self)

    def stream(self, request: Request, model: str) -> ChunkStream:
        """Play the next reply.  Cancellation ends a hanging one."""
        self.requests.append(request)
        number = len(self.requests) - 1
        return self._play(self._replies[number] if number < len(self._replies) else self._otherwise, number)

    async def _play(self, reply: Reply | None, number: int) -> AsyncGenerator[Chunk, None]:
        if reply is None:
            raise LlmError(f"the script has no reply for request {number + 1}", code="SCRIPT_EXHAUSTED")
        for chunk in reply.chunks:
            yield chunk
        if reply.hangs:
            await trio.sleep_forever()
        if reply.error is not None:
            raise reply.error

    async def aclose(self) -> None:
        """Nothing to close."""
