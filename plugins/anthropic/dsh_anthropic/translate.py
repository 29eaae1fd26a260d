"""Wire events into dsh's chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh.errors import LlmError
from dsh.jsonvalue import clean, dumps, loads
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh.llm.http.failures import stream_failure
from dsh.llm.http.wire import OpenBlock, complains, counted, malformed, number_of_tokens, odd_end, take_event
from dsh.messages import Block, FinishReason, OtherBlock, Reasoning, Text, TokenUsage, ToolCallBlock
from dsh_anthropic.encode import SERVER_BLOCK

__all__ = ["PAUSE", "Translator"]

PAUSE = "pause"
"""The kind of finish that says: the service wants to be asked for the rest."""
_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool-calls",
    "max_tokens": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
    "pause_turn": PAUSE,
    "compaction": PAUSE,
    "refusal": "refusal",
}
_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_KINDS = {"text": "text", "thinking": "reasoning", "redacted_thinking": "reasoning", "tool_use": "tool-call"}


class _Block(OpenBlock):
    """A block that is being received; `wire` is how it began."""

    __slots__ = ("kind", "signature", "wire")

    def __init__(self, index: int, wire: dict[str, Any]) -> None:
        super().__init__(index)
        self.wire = wire
        self.kind = _KINDS.get(str(wire.get("type")), SERVER_BLOCK)
        self.signature: str | None = None


class Translator:
    """Takes the data of a stream's events in order and gives chunks.

    The ends of the blocks, the usage and the finish come together, from `finish`: a proxy that
    asked twice may send a second message behind the beginning of a first, which then never was.
    """

    def __init__(self, provider: str, maker: str, first: int = 0) -> None:
        """Args:
        maker: the model that is asked, as in its request, by which its thoughts are known again.
        first: the number of the first block.
        """
        self._provider = provider
        self._maker = maker
        self._first = first
        self._numbers = 0
        self._blocks: list[_Block] = []
        self._by_index: dict[Any, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._finish: str | None = None
        self._begun = False
        self.done = False
        """The message has ended."""

    @property
    def complete(self) -> bool:
        """The service said that the answer is over."""
        return self.done

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
            LlmError: the service said nothing at all (``EMPTY_RESPONSE``).
        """
        if not self._begun and not self._blocks and self._finish is None:
            raise LlmError(f"{self._provider} sent an empty answer", code="EMPTY_RESPONSE", retryable=True)
        out: list[Chunk] = [BlockEnd(block.index, self._block(block)) for block in self._blocks]
        # Of a message that never was; empty text is nothing to anybody.
        out += [BlockEnd(self._first + n, Text("")) for n in range(len(self._blocks), self._numbers)]
        if (usage := counted(self._usage, _token_usage)) is not None:
            out.append(Usage(usage))
        out.append(Finish(self._reason()))
        return out

    def _take(self, wire: Any, out: list[Chunk], failed: bool) -> None:
        kind = wire.get("type")
        if failed or kind == "error" or wire.get("error") or (kind is None and complains(wire)):
            raise stream_failure(self._provider, wire)
        if kind == "content_block_delta":
            self._delta(wire.get("index"), wire["delta"], out)
        elif kind == "content_block_start":
            self._start(wire.get("index"), wire["content_block"], out)
        elif kind == "message_start":
            self._blocks, self._by_index, self._usage = [], {}, {}
            self._begun = True
            self._count(wire["message"].get("usage"))
        elif kind == "message_delta":
            self._stop((wire.get("delta") or {}).get("stop_reason"))
            self._count(wire.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "message":
            self._whole(wire, out)
        elif kind is None:
            raise malformed(self._provider, wire)

    def _whole(self, message: dict[str, Any], out: list[Chunk]) -> None:
        """A message that was not streamed."""
        self._begun = True
        for index, block in enumerate(message["content"]):
            self._start(index, block, out)
        self._stop(message.get("stop_reason"))
        self._count(message.get("usage"))
        self.done = True

    def _stop(self, reason: Any) -> None:
        """Take over why the message ends, where that is said."""
        self._finish = str(reason) if reason else self._finish

    def _count(self, usage: Any) -> None:
        """Take over counters; they are totals, and what is not said again still holds.

        Services that do not count in the end what went in say zero of all of that; it is not said again, then.
        """
        if not isinstance(usage, dict):
            return
        silent = not any(usage.get(name) for name in _INPUTS)
        for name, value in usage.items():
            if value is not None and not (silent and name in _INPUTS and self._usage.get(name)):
                self._usage[name] = value

    def _start(self, index: Any, wire: dict[str, Any], out: list[Chunk]) -> None:
        if not isinstance(wire.get("type"), str):
            raise TypeError("a block has no type")
        block = _Block(self._first + len(self._blocks), wire)
        self._blocks.append(block)
        self._by_index[index] = block
        self._numbers = max(self._numbers, len(self._blocks))
        out.append(BlockStart(block.index, block.kind))
        if block.kind == "tool-call":
            block.id, block.name = str(wire.get("id") or ""), str(wire.get("name") or "")
            out.append(ToolCallDelta(block.index, block.id, block.name or None))
        elif block.kind == "text" and (text := wire.get("text")):
            out.append(TextDelta(block.index, block.join(text)))
        elif block.kind == "reasoning":
            block.signature = wire.get("signature") or None
            if thought := wire.get("thinking"):
                out.append(ReasoningDelta(block.index, block.join(thought)))

    def _delta(self, index: Any, delta: dict[str, Any], out: list[Chunk]) -> None:
        block, kind = self._by_index[index], delta.get("type")
        if kind == "text_delta":
            if text := delta["text"]:
                out.append(TextDelta(block.index, block.join(text)))
        elif kind == "input_json_delta":
            if piece := delta["partial_json"]:
                piece = block.join(piece)
                if block.kind == "tool-call":
                    out.append(ToolCallDelta(block.index, block.id, block.name or None, piece))
        elif kind == "thinking_delta":
            if thought := delta["thinking"]:
                out.append(ReasoningDelta(block.index, block.join(thought)))
        elif kind == "signature_delta":
            block.signature = delta["signature"] or block.signature
        elif kind == "compaction_delta":
            block.wire = {**block.wire, "content": (block.wire.get("content") or "") + (delta["content"] or "")}

    def _block(self, block: _Block) -> Block:
        """What a block has become."""
        if block.kind == "text":
            return Text(block.text())
        if block.kind == "reasoning":
            data = block.wire.get("data") if block.wire["type"] == "redacted_thinking" else None
            return Reasoning(block.text(), block.signature, data, self._maker)
        arguments = clean(block.text())
        if block.kind == "tool-call":
            if not arguments and block.wire.get("input"):
                arguments = dumps(block.wire["input"]).decode()
            return ToolCallBlock(block.id or f"call-{block.index}", block.name, arguments)
        wire = block.wire
        if arguments:
            wire = {**wire, "input": _json(arguments)}
        return OtherBlock({"type": SERVER_BLOCK, "provider": self._provider, "block": wire})

    def _reason(self) -> FinishReason:
        if self._finish is None:
            calls = any(block.kind == "tool-call" for block in self._blocks)
            return FinishReason("tool-calls" if calls else "stop")
        kind = _FINISHES.get(self._finish)
        return odd_end(self._provider, self._finish) if kind is None else FinishReason(kind)


def _json(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return {}


def _token_usage(wire: Mapping[str, Any]) -> TokenUsage:
    """`wire` is a ``usage`` object; what it leaves out stays None, and no counter is negative."""
    details = wire.get("output_tokens_details")
    into, out = _counter(wire, "input_tokens"), _counter(wire, "output_tokens")
    if into is None and out is None:
        raise ValueError("no tokens are counted")
    written, hours = _written(wire)
    return TokenUsage(
        input_tokens=into or 0,
        output_tokens=out or 0,
        cache_read_tokens=_counter(wire, "cache_read_input_tokens"),
        cache_write_tokens=written,
        reasoning_tokens=_counter(details, "thinking_tokens") if isinstance(details, dict) else None,
        cache_write_1h_tokens=hours,
    )


def _written(wire: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The tokens that were written to the cache, and of those the ones that stay for an hour; None for none of them."""
    written, parts = _counter(wire, "cache_creation_input_tokens"), wire.get("cache_creation")
    if not isinstance(parts, dict):
        return written, None
    hours, minutes = _counter(parts, "ephemeral_1h_input_tokens"), _counter(parts, "ephemeral_5m_input_tokens")
    if written is None and (hours or minutes):
        written = (hours or 0) + (minutes or 0)
    return written, min(hours, written) if hours and written else None


def _counter(wire: Mapping[str, Any], name: str) -> int | None:
    return number_of_tokens(wire.get(name))
