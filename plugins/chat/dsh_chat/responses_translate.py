"""Events of OpenAI's Responses into dsh's chunks."""

from __future__ import annotations

from typing import Any

from dsh.errors import LlmError
from dsh.jsonvalue import dumps
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh.llm.http.failures import stream_failure
from dsh.llm.http.wire import OpenBlock, complains, counted, malformed, odd_end, take_event
from dsh.messages import Block, FinishReason, Reasoning, Text, ToolCallBlock
from dsh_chat.dialect import Dialect
from dsh_chat.usage import response_usage

__all__ = ["ResponsesTranslator"]

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_CUT = ("max_output_tokens", "max_tokens", "length")
_PARTS = ("output_text", "refusal", "reasoning_text", "summary_text")


class _Block(OpenBlock):
    """A block that is being received; `data` is what only the service can read of a thought."""

    __slots__ = ("data", "kind")

    def __init__(self, index: int, kind: str, key: object) -> None:
        super().__init__(index, key)
        self.kind = kind
        self.data: str | None = None


class ResponsesTranslator:
    """Takes the data of a stream's events in order and gives chunks.

    Every item of the answer that holds anything is a block.  The blocks' ends, the usage and the
    finish come together, from `finish`.
    """

    def __init__(self, provider: str, maker: str | None = None, dialect: Dialect | None = None) -> None:
        """Args: maker: the model that is asked, as in its request, by which its thoughts are known again."""
        self._provider = provider
        self._maker = maker
        self._blocks: list[_Block] = []
        self._response: dict[str, Any] = {}
        self._refused = False
        self._failure: LlmError | None = None
        self.done = False
        """The response has ended."""

    @property
    def complete(self) -> bool:
        """The service said that the answer is over, or that there will be none."""
        return self.done or self._failure is not None

    def feed(self, payload: bytes, out: list[Chunk]) -> None:
        """Add what `payload` says to `out`.

        Raises:
            LlmError: it is an error of the service, or nothing that can be understood; what came
                before it is in `out`.
        """
        take_event(self._provider, payload, self._take, out)

    def finish(self) -> list[Chunk]:
        """The blocks' ends, the usage if there was any, and the finish.

        Raises:
            LlmError: the service failed.
        """
        if self._failure is not None:
            raise self._failure
        out: list[Chunk] = [BlockEnd(block.index, self._block(block)) for block in self._blocks]
        if (usage := counted(self._response.get("usage"), response_usage)) is not None:
            out.append(Usage(usage))
        out.append(Finish(self._reason()))
        return out

    def _take(self, wire: Any, out: list[Chunk], failed: bool) -> None:
        kind = wire.get("type")
        if kind in _TEXTS:
            self._refused = self._refused or kind == "response.refusal.delta"
            self._say("text", self._key(wire), wire["delta"], out)
        elif kind in _THOUGHTS:
            self._say("reasoning", self._key(wire), wire["delta"], out)
        elif kind == "response.function_call_arguments.delta":
            # The item that says whose arguments these are may come behind them.
            key = self._key(wire)
            self._argue(self._find("tool-call", key) or self._open("tool-call", key, out), wire["delta"], out)
        elif kind == "response.function_call_arguments.done":
            if (block := self._find("tool-call", self._key(wire))) is not None:
                self._complete(block, wire.get("arguments"), out)
        elif kind == "response.reasoning_summary_part.added":
            if wire.get("summary_index") and (block := self._find("reasoning", self._key(wire))):
                self._say("reasoning", block.key, "\n\n", out)
        elif kind == "response.output_item.added":
            if wire["item"]["type"] == "function_call":
                self._open_call(wire, out)
        elif kind == "response.output_item.done":
            self._item(wire, out)
        elif kind in _ENDS:
            self._end(wire["response"], out)
        elif failed or kind == "error":
            # The response may yet say more exactly what went wrong.
            self._failure = stream_failure(self._provider, wire)
        elif kind is None:
            self._untyped(wire, out)

    def _untyped(self, wire: Any, out: list[Chunk]) -> None:
        """An answer that was not streamed, or a complaint in its place."""
        if wire.get("error") or wire.get("object") != "response":
            if "error" not in wire and not complains(wire):
                raise malformed(self._provider, wire)
            raise stream_failure(self._provider, wire)
        self._end(wire, out)

    def _end(self, response: dict[str, Any], out: list[Chunk]) -> None:
        self._response = response
        if response.get("error") or response.get("status") == "failed":
            raise stream_failure(self._provider, response)
        # Some services tell in the end alone what the answer is, or some of it.
        nothing, calls = not self._blocks, {block.id for block in self._blocks if block.kind == "tool-call"}
        for index, item in enumerate(response.get("output") or ()):
            if nothing:
                self._item({"item": item, "output_index": index}, out)
            elif item.get("type") == "function_call" and str(item.get("call_id") or item.get("id")) not in calls:
                begun = self._find("tool-call", index)
                self._item({"item": item, "output_index": index if begun and not begun.id else ("end", index)}, out)
        self._failure = None
        self.done = True

    def _key(self, wire: dict[str, Any]) -> object:
        """What an item is known by: its place, and where services do not tell it, its id."""
        index = wire.get("output_index")
        return index if index is not None else wire.get("item_id") or (wire.get("item") or {}).get("id")

    def _find(self, kind: str, key: object) -> _Block | None:
        return next((block for block in self._blocks if block.key == key and block.kind == kind), None)

    def _open(self, kind: str, key: object, out: list[Chunk]) -> _Block:
        block = _Block(len(self._blocks), kind, key)
        self._blocks.append(block)
        out.append(BlockStart(block.index, kind))
        return block

    def _say(self, kind: str, key: object, piece: str, out: list[Chunk]) -> None:
        if piece:
            block = self._find(kind, key) or self._open(kind, key, out)
            piece = block.join(piece)
            out.append(TextDelta(block.index, piece) if kind == "text" else ReasoningDelta(block.index, piece))

    def _open_call(self, wire: dict[str, Any], out: list[Chunk]) -> _Block:
        key, item = self._key(wire), wire["item"]
        block = self._find("tool-call", key) or self._open("tool-call", key, out)
        block.id, block.name = str(item.get("call_id") or item.get("id") or ""), str(item.get("name") or "")
        out.append(ToolCallDelta(block.index, block.id, block.name or None))
        return block

    def _argue(self, block: _Block, piece: str, out: list[Chunk]) -> None:
        if piece:
            out.append(ToolCallDelta(block.index, block.id, block.name or None, block.join(piece)))

    def _complete(self, block: _Block, arguments: Any, out: list[Chunk]) -> None:
        """Take over the arguments of a call as a whole, of which some pieces may not have come."""
        whole = arguments if isinstance(arguments, str) else dumps(arguments).decode() if arguments else ""
        so_far = block.text()
        if whole.startswith(so_far):
            self._argue(block, whole[len(so_far) :], out)
        elif whole:
            block.pieces, block.carry = [whole], ""

    def _item(self, wire: dict[str, Any], out: list[Chunk]) -> None:
        """An item as a whole; what its deltas did not bring is taken from it."""
        item, key = wire["item"], self._key(wire)
        kind = item.get("type")
        if kind == "function_call":
            block = self._find("tool-call", key)
            if block is None or not block.id:
                block = self._open_call(wire, out)
            self._complete(block, item.get("arguments"), out)
            return
        mine = {"message": "text", "reasoning": "reasoning"}.get(kind)
        if mine is None:
            return
        if self._find(mine, key) is None:
            parts = [part for part in (*(item.get("summary") or ()), *(item.get("content") or ())) if part]
            texts = (part.get("text") or part.get("refusal") for part in parts if part.get("type") in _PARTS)
            self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
            self._say(mine, key, "".join(filter(None, texts)), out)
        if mine == "reasoning" and (data := item.get("encrypted_content")):
            (self._find(mine, key) or self._open(mine, key, out)).data = data

    def _block(self, block: _Block) -> Block:
        """What a block has become."""
        if block.kind == "text":
            return Text(block.text())
        if block.kind == "reasoning":
            return Reasoning(block.text(), data=block.data, model=self._maker)
        return ToolCallBlock(block.id or f"call-{block.index}", block.name, block.text())

    def _reason(self) -> FinishReason:
        why = (self._response.get("incomplete_details") or {}).get("reason")
        if why in _CUT or (why is None and self._response.get("status") == "incomplete"):
            return FinishReason("max-tokens")
        if why or self._response.get("status") not in (None, "completed"):
            return odd_end(self._provider, str(why or self._response["status"]))
        if any(block.kind == "tool-call" for block in self._blocks):
            return FinishReason("tool-calls")
        return FinishReason("refusal" if self._refused else "stop")
