"""What such an agent says in answer to a prompt, as the chunks of a model's answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from dsh import Agent, TokenUsage
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, Usage
from dsh.messages import FinishReason, Message, Reasoning, Text, text_of

from ..provider import SubagentError
from .client import Answered, Client, Prompt, failed
from .events import AcpTool
from .peer import Failed, Gone

__all__ = ["REFUSED", "Stream", "news"]

MOST_TEXT = 8 << 20
"""Characters that an answer may have."""
MOST_TOOLS = 10_000
"""Tools of its own that are logged for one prompt."""
REFUSED = "SUBAGENT_REFUSED"
STOPS = {"end_turn": "stop", "max_tokens": "max-tokens"}


def news(messages: Sequence[Message]) -> list[str]:
    """What of a conversation is new to an agent that keeps it itself: all behind its last answer."""
    told = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return [text for message in messages[told + 1 :] if (text := text_of(message.content)).strip()]


class Stream:
    """The answer to one prompt.

    Args:
        agent: the child, whose log it ends up in.
    """

    def __init__(self, client: Client, agent: Agent, texts: list[str]) -> None:
        self._client = client
        self._agent = agent
        self._texts = texts
        self._prompt: Prompt | None = None
        self._ready: deque[Chunk] = deque()
        self._kind = ""
        self._parts: list[str] = []
        self._index = -1
        self._length = 0
        self._tools: dict[str, AcpTool] = {}
        self._finished = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._finished:
                raise StopAsyncIteration
            if self._prompt is None:
                self._prompt = await self._client.prompt(self._texts)
            item = await self._prompt.updates.receive()
            if isinstance(item, Gone):
                raise SubagentError(f"{self._client.name} {item}", code="ACP_GONE")
            if isinstance(item, Failed):
                raise failed(self._client.name, item)
            if isinstance(item, Answered):
                self._end(item.result)
            else:
                self._update(item)
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Be done; a prompt that is not answered is cancelled."""
        prompt, self._finished = self._prompt, True
        if prompt is not None:
            await self._client.leave(prompt)

    # -- what comes

    def _update(self, update: Mapping[str, Any]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._text("text", update.get("content"))
            case "agent_thought_chunk":
                self._text("reasoning", update.get("content"))
            case "tool_call" | "tool_call_update":
                self._tool(update)

    def _text(self, kind: str, content: Any) -> None:
        text = _said(content)
        if not text:
            return
        self._length += len(text)
        if self._length > MOST_TEXT:
            name = self._client.name
            raise SubagentError(f"{name} says more than {MOST_TEXT >> 20} MiB; it was stopped", code="ACP_TOO_LONG")
        if kind != self._kind:
            self._close()
            self._kind, self._index = kind, self._index + 1
            self._ready.append(BlockStart(self._index, kind))
        self._parts.append(text)
        self._ready.append((TextDelta if kind == "text" else ReasoningDelta)(self._index, text))

    def _close(self) -> None:
        """End the block that is open, if one is."""
        if self._kind:
            text = "".join(self._parts)
            block = Text(text) if self._kind == "text" else Reasoning(text, model=f"acp/{self._client.name}")
            self._ready.append(BlockEnd(self._index, block))
        self._kind = ""
        self._parts.clear()

    def _tool(self, update: Mapping[str, Any]) -> None:
        """Log a tool of its own when it begins, and when it has ended."""
        self._close()
        id = update.get("toolCallId")
        if not isinstance(id, str):
            return
        known = self._tools.get(id)
        if known is None and len(self._tools) >= MOST_TOOLS:
            return
        session, mask = self._agent.session, self._agent.harness.secrets.mask
        title, kind, status = (
            _word(update.get(key), default)
            for key, default in (
                ("title", known.title if known else ""),
                ("kind", known.kind if known else "other"),
                ("status", known.status if known else "pending"),
            )
        )
        if session.open_turn is None:
            return
        tool = AcpTool(session.open_turn, session.open_step, id[:200], mask(title), kind, status)
        self._tools[id] = tool
        ended = ("completed", "failed")
        if known is None or (status in ended and known.status not in ended):
            session.append(tool)

    def _end(self, result: Mapping[str, Any]) -> None:
        self._close()
        self._finished = True
        usage = _usage(result.get("usage"))
        if usage is not None:
            self._ready.append(Usage(usage))
        stop = result.get("stopReason")
        name = self._client.name
        if stop in STOPS:
            reason = FinishReason(STOPS[stop])
        elif stop == "cancelled":
            reason = FinishReason("aborted", f"{name} cancelled the task itself")
        elif stop == "refusal":
            reason = FinishReason("error", f"{name} declined the task", REFUSED)
        elif stop == "max_turn_requests":
            reason = FinishReason("error", f"{name} reached a limit of its own on requests", "ACP_MAX_REQUESTS")
        else:
            reason = FinishReason("error", f"{name} stopped without a reason that is known: {stop!r:.80}", "ACP_STOP")
        self._ready.append(Finish(reason))


def _said(content: Any) -> str:
    """The text of a block of content; of a link its address."""
    if not isinstance(content, dict):
        return ""
    text = content.get("text")
    if content.get("type") == "text" and isinstance(text, str):
        return text
    uri = content.get("uri")
    return f"[{uri}]" if content.get("type") == "resource_link" and isinstance(uri, str) else ""


def _word(value: Any, default: str) -> str:
    return value[:500] if isinstance(value, str) else default


def _usage(value: Any) -> TokenUsage | None:
    """The tokens that an agent says it took; None where it says nothing, or nothing to be believed."""
    if not isinstance(value, dict):
        return None

    def count(key: str) -> int | None:
        number = value.get(key)
        return number if type(number) is int and 0 <= number < 1 << 53 else None

    taken, given = count("inputTokens"), count("outputTokens")
    if taken is None or given is None:
        return None
    thought = count("thoughtTokens")
    return TokenUsage(taken, given, count("cachedReadTokens"), count("cachedWriteTokens"), thought)
