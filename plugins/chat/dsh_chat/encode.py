"""Requests as bytes: every message is encoded once, and a request is a head and a join.

What is sent is valid for strict services whatever the log holds: results directly follow the
message that called, every call has one, arguments are JSON objects, nothing is empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

from dsh.jsonvalue import Json, dumps, loads
from dsh.llm.adapter import Request
from dsh.messages import Message, Reasoning, ToolCallBlock, ToolResultBlock, ToolSchema, text_of
from dsh_chat.dialect import Dialect

__all__ = ["NO_TEXT", "Encoder", "Part", "call_arguments", "call_name", "own_thought"]

_HEADS = 128
NO_TEXT = "(no output)"
_NO_RESULT = "(the call was not answered)"
_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


@frozen
class Part:
    """One message, encoded.

    Attributes:
        data: what is sent of it beside results; empty for none.
        calls: ids that must be answered after it.
        results: the id of each call, its answer, and the answer's text.
        closing: it is from the assistant, so that nothing before it can be answered any more.
    """

    data: bytes
    calls: tuple[str, ...] = ()
    results: tuple[tuple[str, bytes, str], ...] = ()
    closing: bool = False


@frozen(eq=False)
class _Head:
    """What comes before the messages, and the tools that are in it."""

    tools: tuple[ToolSchema, ...] | None
    data: bytes


class Encoder:
    """Turns requests into bodies, in the dialect of one service.

    A message's encoded form is kept in its `Message.memo`.  The last message of a request also
    keeps the list of all of them, which the next request takes over, so that a request costs what
    is new in it, one comparison and one join; it is gone with the messages.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._memo_key = f"{dialect.dialect}:{dialect.send_reasoning}:{dialect.reasoning_field}:{dialect.system_role}"
        self._heads: dict[tuple[object, ...], _Head] = {}

    def body(self, request: Request, model: str) -> bytes:
        """The body that asks `model` for the answer to `request`."""
        head = self._head(request, model)
        parts = self._parts(request.messages, request.model)
        if not parts:
            return head.removesuffix(b",") + b"]}"
        return head + b",".join(parts) + b"]}"

    def _head(self, request: Request, model: str) -> bytes:
        """Everything before the first message, with the system prompt as one."""
        key = (model, request.system, request.temperature, request.max_tokens, request.stop)
        known = self._heads.pop(key, None)
        if known is None or (known.tools is not request.tools and known.tools != request.tools):
            known = _Head(request.tools, self._encode_head(request, model))
        self._heads[key] = known
        if len(self._heads) > _HEADS:
            del self._heads[next(iter(self._heads))]
        return known.data

    def _encode_head(self, request: Request, model: str) -> bytes:
        dialect = self._dialect
        fields: dict[str, Json] = {"model": model, "stream": True}
        if dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if dialect.thinking is not None:
            fields["thinking"] = {"type": dialect.thinking}
        if dialect.reasoning_effort is not None:
            fields["reasoning_effort"] = dialect.reasoning_effort
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields[dialect.max_tokens_field] = request.max_tokens
        if request.stop:
            fields["stop"] = list(request.stop)
        fields.update(dialect.extra_body)
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
        head = dumps(fields)[:-1] + b',"messages":['
        if request.system:
            head += dumps({"role": dialect.system_role, "content": request.system}) + b","
        return head

    def _parts(self, messages: tuple[Message, ...], model: str) -> list[bytes]:
        # Thoughts go to the model that had them; where none are sent, it does not matter who asks.
        maker = "" if self._dialect.send_reasoning == "never" else model
        memo_key, list_key = f"{self._memo_key}:{maker}", f"{self._memo_key}:{maker}:list"
        parts, known = self._take_over(messages, list_key)
        ordered = _Order(parts, self._result)
        for message in messages[known:]:
            part = message.memo.get(memo_key)
            if part is None:
                part = message.memo[memo_key] = self._encode(message, maker)
            ordered.add(part)
        if not ordered.clean:
            # The list now ends in a guess that the next message may disprove.
            ordered.close()
        elif messages:
            messages[-1].memo[list_key] = (messages[:-1], parts)
        return parts

    def _take_over(self, messages: tuple[Message, ...], list_key: str) -> tuple[list[bytes], int]:
        """The list that an earlier request left, and the number of messages it stands for."""
        for last in range(len(messages) - 1, -1, -1):
            # Taken out, because whoever extends the list must be the only one to hold it.
            found = messages[last].memo.pop(list_key, None)
            if found is not None:
                before, parts = found
                if messages[:last] == before:
                    return parts, last + 1
                break
        return [], 0

    def _encode(self, message: Message, maker: str) -> Part:
        text = text_of(message.content)
        if message.role == "assistant":
            return self._assistant(message, text, maker)
        if message.role == "system":
            return Part(dumps({"role": self._dialect.system_role, "content": text}))
        results = []
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                said = text_of(block.content) or NO_TEXT
                results.append((block.tool_call_id, self._result(block.tool_call_id, said), said))
        data = _said(text) if text or not results else b""
        return Part(data, results=tuple(results))

    def _result(self, call: str, text: str) -> bytes:
        return dumps({"role": "tool", "tool_call_id": call, "content": text})

    def _assistant(self, message: Message, text: str, maker: str) -> Part:
        calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
        if not calls and not text.strip():
            # Services refuse an answer that says nothing, and it is nothing to them.
            return Part(b"")
        wire: dict[str, Json] = {"role": "assistant", "content": text}
        send = self._dialect.send_reasoning
        if send == "always" or (send == "tool-calls" and calls):
            thoughts = (
                block.text for block in message.content if isinstance(block, Reasoning) and own_thought(block, maker)
            )
            wire[self._dialect.reasoning_field] = "".join(thoughts)
        if calls:
            wire["tool_calls"] = [_call(call) for call in calls]
        return Part(dumps(wire), calls=tuple(dict.fromkeys(call.id for call in calls)), closing=True)


class _Order:
    """Puts encoded messages where a service wants them, as long as nothing is open at the end."""

    __slots__ = ("_held", "_open", "_parts", "_result")

    def __init__(self, parts: list[bytes], result: Callable[[str, str], bytes]) -> None:
        """Args: result: makes the answer to a call."""
        self._parts = parts
        self._result = result
        self._open: list[str] = []
        self._held: list[bytes] = []

    @property
    def clean(self) -> bool:
        """All calls are answered."""
        return not self._open

    def add(self, part: Part) -> None:
        """Append `part`; what comes between a call and its result waits for the result."""
        if part.results:
            for call, answer, text in part.results:
                if call in self._open:
                    self._open.remove(call)
                    self._parts.append(answer)
                else:
                    # Nobody called, so services take it only as something a person said.
                    (self._held if self._open else self._parts).append(_said(text))
            if not self._open and self._held:
                self.close()
        if not part.data:
            return
        if part.closing and self._open:
            self.close()
        (self._held if self._open else self._parts).append(part.data)
        if part.calls:
            self._open = list(part.calls)

    def close(self) -> None:
        """Answer what is open, and let go of what waited."""
        for call in self._open:
            self._parts.append(self._result(call, _NO_RESULT))
        self._open = []
        self._parts.extend(self._held)
        self._held.clear()


def _tool(tool: ToolSchema) -> Json:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _said(text: str) -> bytes:
    return dumps({"role": "user", "content": text})


def _call(call: ToolCallBlock) -> Json:
    function = {"name": call_name(call), "arguments": call_arguments(call)}
    return {"id": call.id, "type": "function", "function": function}


def call_name(call: ToolCallBlock) -> str:
    """The name of `call`, as services take it."""
    return _BAD_IN_NAME.sub("_", call.name)[:64] or "unknown_tool"


def call_arguments(call: ToolCallBlock) -> str:
    """The arguments of `call` if they are a JSON object, as strict services demand; an empty object otherwise."""
    try:
        return call.arguments if isinstance(loads(call.arguments), dict) else "{}"
    except ValueError:
        return "{}"


def own_thought(thought: Reasoning, maker: str) -> bool:
    """Whether `maker` had that thought, as far as anybody wrote it down."""
    return thought.model is None or thought.model == maker
