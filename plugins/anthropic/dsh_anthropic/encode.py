"""Requests as bytes: every message is encoded once, and a request is a head and a join.

What is sent is valid whatever the log holds: user and assistant take turns and a user begins,
results come first in the message behind their calls, every call has one, input is an object,
nothing is empty.  The marks for the service's cache are put in afterwards, so that without them
each request extends the bytes of the one before.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from dsh.jsonvalue import Json, dumps, loads
from dsh.llm.adapter import Request
from dsh.llm.http.heads import Heads
from dsh.llm.http.wire import written
from dsh.messages import (
    Block,
    Message,
    OtherBlock,
    Reasoning,
    Text,
    ToolCallBlock,
    ToolResultBlock,
    ToolSchema,
)
from dsh_anthropic.effort import LEAST_BUDGET, put_effort
from dsh_anthropic.order import Order, Part, text_block
from dsh_anthropic.settings import ServiceSettings

__all__ = ["SERVER_BLOCK", "Encoder"]

SERVER_BLOCK = "anthropic"
"""The type of the blocks that stand for the service's own ones, in an `OtherBlock`."""
_NO_TEXT = "(no output)"
_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class Encoder:
    """Turns requests into bodies for one service.

    A message's encoded form is kept in its `Message.memo`.  The last message of a request also
    keeps the order of all of them, which the next request takes over and extends.
    """

    def __init__(self, provider: str, settings: ServiceSettings) -> None:
        self._provider = provider
        self._settings = settings
        self._heads = Heads(self._encode_head)
        self._forgotten = ("anthropic:forgotten", provider)
        control = {"type": "ephemeral"} if settings.cache == "5m" else {"type": "ephemeral", "ttl": settings.cache}
        self._mark = b"" if settings.cache == "off" else b',"cache_control":' + dumps(control)

    def body(self, request: Request, model: str, so_far: Sequence[Block] = ()) -> bytes:
        """The body that asks `model` for the answer to `request`, or for the rest of it behind `so_far`."""
        messages, list_key = request.messages, ("list", self._provider, request.model)
        order, known = _take_over(messages, list_key)
        for message in messages[known:]:
            order.add(self._part(message, request.model))
        begun = self._assistant(so_far, request.model, rest_to_come=True).blocks if so_far else ()
        turns = order.turns(self._mark, begun)
        if messages:
            messages[-1].memo[list_key] = (messages[:-1], order)
        return self._heads.get(request, model) + b",".join(turns) + b"]}"

    def forget_thoughts(self, request: Request) -> bool:
        """Leave the thoughts in the messages of `request` out from now on; False if none would be sent."""
        found = False
        for message in request.messages:
            message.memo.pop(("list", self._provider, request.model), None)
            if self._forgotten in message.memo:
                continue
            if any(_goes_back(block, request.model) for block in message.content if isinstance(block, Reasoning)):
                message.memo[self._forgotten] = found = True
                message.memo.pop((self._provider, request.model), None)
        return found

    def _encode_head(self, request: Request, model: str) -> bytes:
        settings = self._settings
        limit = settings.limit(model) if request.max_tokens is None else request.max_tokens
        fields: dict[str, Json] = {"model": model, "max_tokens": limit, "stream": True}
        if request.reasoning_effort is not None:
            put_effort(fields, model, request.reasoning_effort, limit)
        else:
            self._think(fields, limit)
        if request.temperature is not None and fields.get("thinking", {}).get("type") in (None, "disabled"):
            # Who thinks does so at a temperature of its own, and refuses another.
            fields["temperature"] = request.temperature
        if stop := [word for word in request.stop or () if word.strip()]:
            fields["stop_sequences"] = stop
        fields.update(settings.extra_body)
        head = dumps(fields)[:-1]
        tools = [dumps(_tool(tool)) for tool in request.tools or ()]
        tools += [dumps(tool) for tool in settings.server_tools]
        if tools:
            tools[-1] = tools[-1][:-1] + self._mark + b"}"
            head += b',"tools":[' + b",".join(tools) + b"]"
        if request.system and request.system.strip():
            head += b',"system":[' + text_block(request.system)[:-1] + self._mark + b"}]"
        return head + b',"messages":['

    def _think(self, fields: dict[str, Json], limit: int) -> None:
        """Ask for what the settings say of thinking."""
        settings = self._settings
        budget = min(settings.thinking_budget or 0, limit - 1)
        if budget >= LEAST_BUDGET:
            fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
        elif settings.thinking is not None:
            fields["thinking"] = {"type": settings.thinking}
        if settings.effort is not None:
            fields["output_config"] = {"effort": settings.effort}

    def _part(self, message: Message, model: str) -> Part:
        key = (self._provider, model)
        part: Part | None = message.memo.get(key)
        if part is None:
            part = message.memo[key] = self._encode(message, model)
        return part

    def _encode(self, message: Message, model: str) -> Part:
        if message.role == "assistant":
            thoughts = self._forgotten not in message.memo
            return self._assistant(message.content, model, thoughts=thoughts)
        results = []
        blocks = []
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                said = written(block.content)
                said = said if said.strip() else _NO_TEXT
                results.append((_id(block.tool_call_id), _result(block, said), text_block(said)))
            elif isinstance(block, Text) and block.text.strip():
                text = block.text if message.role == "user" else f"<system>\n{block.text}\n</system>"
                blocks.append(text_block(text))
            elif instead := written((block,)).strip():
                blocks.append(text_block(instead))
        return Part("user", tuple(blocks), results=tuple(results))

    def _assistant(
        self, content: Sequence[Block], model: str, *, thoughts: bool = True, rest_to_come: bool = False
    ) -> Part:
        """Args: rest_to_come: the answer is to be taken up where it ends, also within the service's own work."""
        blocks: list[tuple[Block, bytes]] = []
        calls: list[str] = []
        answered = {_server(block).get("tool_use_id") for block in content}
        for block in content:
            if isinstance(block, Text) and block.text.strip():
                blocks.append((block, text_block(block.text)))
            elif isinstance(block, Reasoning) and thoughts and _goes_back(block, model):
                blocks.append((block, _thought(block)))
            elif isinstance(block, ToolCallBlock) and (call := _id(block.id)) not in calls:
                calls.append(call)
                blocks.append((block, _call(block, call)))
            elif isinstance(block, OtherBlock) and block.data.get("provider") == self._provider:
                wire = _server(block)
                open_call = str(wire.get("type", "")).endswith("tool_use") and wire.get("id") not in answered
                if wire and (rest_to_come or not open_call):
                    blocks.append((block, dumps(wire)))
        while blocks and isinstance(blocks[-1][0], Reasoning) and not rest_to_come:
            # Thoughts that led to nothing are refused at the end of a message.
            blocks.pop()
        return Part("assistant", tuple(data for _, data in blocks), tuple(calls))


def _take_over(messages: tuple[Message, ...], list_key: tuple[str, ...]) -> tuple[Order, int]:
    """The order that an earlier request left, and the number of messages in it."""
    for last in range(len(messages) - 1, -1, -1):
        # Taken out, because whoever extends it must be the only one to hold it.
        found = messages[last].memo.pop(list_key, None)
        if found is not None:
            before, order = found
            if messages[:last] == before:
                return order, last + 1
            break
    return Order(), 0


def _goes_back(thought: Reasoning, model: str) -> bool:
    """Whether `model` had that thought, and can check that nobody changed it."""
    return thought.model == model and (bool(thought.signature) or thought.data is not None)


def _thought(block: Reasoning) -> bytes:
    if block.data is not None:
        return dumps({"type": "redacted_thinking", "data": block.data})
    return dumps({"type": "thinking", "thinking": block.text, "signature": block.signature})


def _server(block: Block) -> Json:
    """The service's own block that `block` stands for; empty if it is none."""
    if isinstance(block, OtherBlock) and block.type == SERVER_BLOCK:
        wire = block.data.get("block")
        if isinstance(wire, dict):
            return wire
    return {}


def _call(block: ToolCallBlock, call: str) -> bytes:
    name = _BAD_IN_NAME.sub("_", block.name)[:64] or "unknown_tool"
    return dumps({"type": "tool_use", "id": call, "name": name, "input": _input(block.arguments)})


def _input(text: str) -> Json:
    """The object that `text` is, as the service demands; an empty one if it is none."""
    try:
        value = loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _result(block: ToolResultBlock, said: str) -> bytes:
    wire: dict[str, Json] = {"type": "tool_result", "tool_use_id": _id(block.tool_call_id), "content": said}
    if block.is_error:
        wire["is_error"] = True
    return dumps(wire)


def _id(call: str) -> str:
    """`call` as the service takes it; ids that are different stay so."""
    if call and not _BAD_IN_NAME.search(call):
        return call
    return f"{_BAD_IN_NAME.sub('_', call)}_{zlib.crc32(call.encode('utf-8', 'surrogatepass')):08x}"


def _tool(tool: ToolSchema) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
