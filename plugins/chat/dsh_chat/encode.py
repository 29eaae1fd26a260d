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
from dsh.llm.http.heads import Heads
from dsh.llm.http.wire import written
from dsh.messages import Message, Reasoning, ToolCallBlock, ToolResultBlock, ToolSchema, text_of
from dsh_chat.dialect import Dialect, put

__all__ = ["NO_TEXT", "Encoder", "Part", "call_arguments", "call_name", "own_thought"]

_LONGEST_ID = 40
"""Services give their own calls longer ids, and refuse those of others: OpenAI takes so many characters."""
NO_TEXT = "(no output)"
_RESULT, _ANSWER = b'{"role":"tool"', b'{"role":"assistant"'
_NO_RESULT = "(the call was not answered)"
_SHAPING = (
    "dialect",
    "send_reasoning",
    "reasoning_field",
    "empty_reasoning",
    "sealed_field",
    "system_role",
    "tool_id_length",
    "after_results",
)
"""The switches by which a message's bytes differ."""
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


class Encoder:
    """Turns requests into bodies, in the dialect of one service.

    A message's encoded form is kept in its `Message.memo`.  The last message of a request also
    keeps the list of all of them, which the next request takes over, so that a request costs what
    is new in it, one comparison and one join; it is gone with the messages.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._memo_key = ":".join(str(getattr(dialect, name)) for name in _SHAPING)
        self._heads = Heads(self._encode_head)
        said = dialect.after_results
        self._bridge = None if said is None else dumps({"role": "assistant", "content": said})

    def body(self, request: Request, model: str) -> bytes:
        """The body that asks `model` for the answer to `request`."""
        head = self._heads.get(request, model)
        parts = self._parts(request.messages, request.model)
        if not parts:
            return head.removesuffix(b",") + b"]}"
        return head + b",".join(parts) + b"]}"

    def _encode_head(self, request: Request, model: str) -> bytes:
        dialect = self._dialect
        fields: dict[str, Json] = {"model": model, "stream": True}
        if dialect.stream_usage:
            fields["stream_options"] = {"include_usage": True}
        if dialect.thinking is not None:
            fields["thinking"] = {"type": dialect.thinking}
        dialect.ask_effort(fields, request.reasoning_effort or dialect.reasoning_effort)
        for name, place in (("temperature", "temperature"), ("max_tokens", dialect.max_tokens_field), ("stop", "stop")):
            value = getattr(request, name)
            if value not in (None, ()) and name not in dialect.unsupported:
                put(fields, place, list(value) if name == "stop" else value)
        fields.update(dialect.extra_body)
        if request.tools:
            fields["tools"] = [_tool(tool) for tool in request.tools]
            if dialect.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = dialect.parallel_tool_calls
        head = dumps(fields)[:-1] + b',"messages":['
        if request.system:
            head += dumps({"role": dialect.system_role, "content": request.system}) + b","
        return head

    def _parts(self, messages: tuple[Message, ...], model: str) -> list[bytes]:
        # Thoughts go to the model that had them; where none are sent, it does not matter who asks.
        maker = "" if self._dialect.send_reasoning == "never" else model
        memo_key, list_key = f"{self._memo_key}:{maker}", f"{self._memo_key}:{maker}:list"
        parts, known = self._take_over(messages, list_key)
        ordered = _Order(parts, self._result, self._bridge)
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
        if message.role == "assistant":
            return self._assistant(message, text_of(message.content), maker)
        text = written(message.content)
        if message.role == "system":
            return Part(dumps({"role": self._dialect.system_role, "content": text}))
        results = []
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                said = written(block.content) or NO_TEXT
                results.append((block.tool_call_id, self._result(block.tool_call_id, said), said))
        data = _said(text) if text or not results else b""
        return Part(data, results=tuple(results))

    def _result(self, call: str, text: str) -> bytes:
        return dumps({"role": "tool", "tool_call_id": self._id(call), "content": text})

    def _id(self, call: str) -> str:
        """The id of a call, as the service takes it."""
        length = self._dialect.tool_id_length
        if len(call) <= _LONGEST_ID if length is None else len(call) == length and call.isascii() and call.isalnum():
            return call
        from base64 import b32encode
        from hashlib import sha256

        return b32encode(sha256(call.encode("utf-8", "surrogatepass")).digest()).decode()[: length or _LONGEST_ID]

    def _assistant(self, message: Message, text: str, maker: str) -> Part:
        calls = [block for block in message.content if isinstance(block, ToolCallBlock)]
        if not calls and not text.strip():
            # Services refuse an answer that says nothing, and it is nothing to them.
            return Part(b"")
        wire: dict[str, Json] = {"role": "assistant", "content": text}
        send = self._dialect.send_reasoning
        if send == "always" or (send == "tool-calls" and calls):
            own = [block for block in message.content if isinstance(block, Reasoning) and own_thought(block, maker)]
            if self._dialect.sealed_field and (sealed := _sealed(own)):
                wire[self._dialect.sealed_field] = sealed
            elif (thought := "".join(block.text for block in own)) or self._dialect.empty_reasoning:
                wire[self._dialect.reasoning_field] = thought
        if calls:
            wire["tool_calls"] = [self._call(call) for call in calls]
        return Part(dumps(wire), calls=tuple(dict.fromkeys(call.id for call in calls)), closing=True)

    def _call(self, call: ToolCallBlock) -> Json:
        function = {"name": call_name(call), "arguments": call_arguments(call)}
        return {"id": self._id(call.id), "type": "function", "function": function}


class _Order:
    """Puts encoded messages where a service wants them, as long as nothing is open at the end."""

    __slots__ = ("_bridge", "_held", "_open", "_parts", "_result")

    def __init__(self, parts: list[bytes], result: Callable[[str, str], bytes], bridge: bytes | None) -> None:
        """Args:
        result: makes the answer to a call.
        bridge: what comes between results and what is no answer to them.
        """
        self._parts = parts
        self._result = result
        self._bridge = bridge
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
                    self._put(_said(text))
            if not self._open and self._held:
                self.close()
        if not part.data:
            return
        if part.closing and self._open:
            self.close()
        self._put(part.data)
        if part.calls:
            self._open = list(part.calls)

    def _put(self, data: bytes) -> None:
        if self._open:
            self._held.append(data)
            return
        if self._bridge and self._parts and self._parts[-1].startswith(_RESULT) and not data.startswith(_ANSWER):
            self._parts.append(self._bridge)
        self._parts.append(data)

    def close(self) -> None:
        """Answer what is open, and let go of what waited."""
        for call in self._open:
            self._parts.append(self._result(call, _NO_RESULT))
        self._open = []
        held, self._held = self._held, []
        for data in held:
            self._put(data)


def _tool(tool: ToolSchema) -> Json:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def _said(text: str) -> bytes:
    return dumps({"role": "user", "content": text})


def _sealed(thoughts: list[Reasoning]) -> list[Json]:
    """What the service itself made of its model's thoughts, as `Translator` kept it."""
    found: list[Json] = []
    for thought in thoughts:
        try:
            made = loads(thought.data) if thought.data else None
        except ValueError:
            continue
        found += made if isinstance(made, list) else []
    return found


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
