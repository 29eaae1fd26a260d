"""Requests of OpenAI's Responses, as bytes."""

from __future__ import annotations

from dsh.jsonvalue import Json, dumps
from dsh.llm.adapter import Request
from dsh.messages import Block, Message, Reasoning, Text, ToolCallBlock
from dsh_chat.encode import Encoder, Part, call_arguments, call_name, own_thought

__all__ = ["ResponsesEncoder"]


class ResponsesEncoder(Encoder):
    """Turns requests into bodies; a message is several items, of which nothing is kept by the service."""

    def _encode_head(self, request: Request, model: str) -> bytes:
        dialect = self._dialect
        fields: dict[str, Json] = {"model": model, "stream": True, "store": False}
        if dialect.send_reasoning != "never":
            # What only the service can read has to come along, to be sent back.
            fields["include"] = ["reasoning.encrypted_content"]
        if (level := request.reasoning_effort or dialect.reasoning_effort) and dialect.effort_field:
            fields["reasoning"] = {"effort": dialect.efforts.get(level, level)}
        for name, place in (("temperature", "temperature"), ("max_tokens", "max_output_tokens")):
            value = getattr(request, name)
            if value is not None and name not in dialect.unsupported:
                fields[place] = value
        fields.update(dialect.extra_body)
        if request.tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in request.tools
            ]
            if dialect.parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = dialect.parallel_tool_calls
        if request.system:
            fields["instructions"] = request.system
        return dumps(fields)[:-1] + b',"input":['

    def _result(self, call: str, text: str) -> bytes:
        return dumps({"type": "function_call_output", "call_id": self._id(call), "output": text})

    def _assistant(self, message: Message, text: str, maker: str) -> Part:
        calls: dict[str, ToolCallBlock] = {}
        blocks: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolCallBlock) and block.id not in calls:
                calls[block.id] = block
                blocks.append(block)
            elif isinstance(block, Text | Reasoning) and self._is_sent(block, maker):
                blocks.append(block)
        send = self._dialect.send_reasoning
        if send == "tool-calls" and not calls:
            blocks = [block for block in blocks if not isinstance(block, Reasoning)]
        while blocks and isinstance(blocks[-1], Reasoning):
            # Thoughts are refused without what they led to.
            blocks.pop()
        return Part(b",".join(self._item(block) for block in blocks), calls=tuple(calls), closing=True)

    def _is_sent(self, block: Text | Reasoning, maker: str) -> bool:
        """Whether there is anything in it; what only the service can read goes to its maker alone."""
        if isinstance(block, Text):
            return bool(block.text.strip())
        if self._dialect.send_reasoning == "never" or not own_thought(block, maker):
            return False
        return bool(block.data or block.text) and block.signature is None

    def _item(self, block: Block) -> bytes:
        if isinstance(block, ToolCallBlock):
            call, name, arguments = self._id(block.id), call_name(block), call_arguments(block)
            return dumps({"type": "function_call", "call_id": call, "name": name, "arguments": arguments})
        if isinstance(block, Reasoning):
            return dumps(_thought(block))
        assert isinstance(block, Text)
        return dumps({"role": "assistant", "content": block.text})


def _thought(block: Reasoning) -> Json:
    if block.data is None:
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": block.text}]}
    summary = [{"type": "summary_text", "text": block.text}] if block.text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": block.data}
