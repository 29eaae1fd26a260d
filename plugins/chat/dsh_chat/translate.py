"""Wire chunks into dsh's chunks."""

from __future__ import annotations

from typing import Any

import orjson

from dsh.errors import LlmError
from dsh.jsonvalue import dumps, loads
from dsh.llm.chunks import BlockEnd, BlockStart, Chunk, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh.llm.http.failures import stream_failure
from dsh.llm.http.sse import ErrorData
from dsh.llm.http.wire import OpenBlock, complains, counted, malformed, odd_end, understood
from dsh.messages import FinishReason, Reasoning, Text, ToolCallBlock
from dsh_chat.dialect import Dialect
from dsh_chat.usage import UsageReader

__all__ = ["Translator"]

_FINISHES = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "completed": "stop",
    "tool_calls": "tool-calls",
    "tool_call": "tool-calls",
    "tool_use": "tool-calls",
    "function_call": "tool-calls",
    "length": "max-tokens",
    "max_tokens": "max-tokens",
    "max_output_tokens": "max-tokens",
    "model_length": "max-tokens",
    "model_context_window_exceeded": "max-tokens",
}
_FIRST = (0, None, "0")
_TEXTS = ("text", "output_text")
_DETAILS = "reasoning_details"
"""Where routers put thoughts in pieces of several kinds, mostly beside the text of them, sometimes alone."""
PLAIN = Dialect()


class Translator:
    """Takes the data of a stream's events in order and gives chunks.

    There is one block of reasoning, one of text and one for each call; they are numbered as they
    appear.  Their ends, the usage and the finish come together, from `finish`.
    """

    def __init__(self, provider: str, maker: str | None = None, dialect: Dialect = PLAIN) -> None:
        """Args: maker: the model that is asked, as in its request, by which its thoughts are known again."""
        self._provider = provider
        self._maker = maker
        self._dialect = dialect
        self._thoughts = dialect.reasoning_fields
        self._sealed: list[dict[str, Any]] = []
        self._blocks: list[tuple[str, OpenBlock]] = []
        self._text: OpenBlock | None = None
        self._thought: OpenBlock | None = None
        self._calls: list[OpenBlock] = []
        self._usage: Any = None
        self._finish: str | None = None
        self._refused = False
        self.done = False
        """``[DONE]`` has come."""

    @property
    def complete(self) -> bool:
        """The service said that the answer is over."""
        return self.done or self._finish is not None

    def feed(self, payload: bytes, out: list[Chunk]) -> None:
        """Add what `payload` says to `out`.

        Raises:
            LlmError: it is an error of the service, or nothing that can be understood; what came
                before it is in `out`.
        """
        try:
            wire = orjson.loads(payload)
        except orjson.JSONDecodeError:
            if payload.startswith(b"[DONE]"):
                self.done = True
                return
            wire = understood(self._provider, payload)
        if wire.__class__ is not dict:
            wire = understood(self._provider, payload)
        self.take(wire, out, payload.__class__ is ErrorData)

    def take(self, wire: Any, out: list[Chunk], failed: bool = False) -> None:
        """`feed` for JSON that is parsed already; a whole answer that was not streamed will do as well."""
        try:
            choices = wire.get("choices")
            if failed or wire.get("error") or (choices is None and self._is_complaint(wire)):
                raise stream_failure(self._provider, wire)
            if usage := wire.get("usage"):
                self._count(usage)
            for choice in choices or ():
                if choice.get("index") not in _FIRST:
                    continue
                delta = choice.get("delta")
                if delta is None:
                    delta = self._whole(choice)
                if delta:
                    self._delta(delta, out)
                if reason := choice.get("finish_reason"):
                    self._finish = str(reason)
                    # Groq has its counters in a place of their own, and Moonshot in this one.
                    if not self._usage:
                        self._count((wire.get("x_groq") or {}).get("usage") or choice.get("usage"))
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise malformed(self._provider, wire) from error

    def finish(self) -> list[Chunk]:
        """The blocks' ends, the usage if there was any, and the finish.

        Raises:
            LlmError: the service said nothing at all (``EMPTY_RESPONSE``).
        """
        if not self._blocks and self._finish is None and self._usage is None:
            raise LlmError(f"{self._provider} sent an empty answer", code="EMPTY_RESPONSE", retryable=True)
        out: list[Chunk] = []
        for kind, block in self._blocks:
            if kind == "text":
                out.append(BlockEnd(block.index, Text(block.text())))
            elif kind == "reasoning":
                sealed = dumps(self._sealed).decode() if self._sealed else None
                out.append(BlockEnd(block.index, Reasoning(block.text(), data=sealed, model=self._maker)))
            else:
                call = ToolCallBlock(block.id or f"call-{block.index}", block.name, block.text())
                out.append(BlockEnd(block.index, call))
        if (usage := counted(self._usage, UsageReader.of(self._dialect))) is not None:
            out.append(Usage(usage))
        out.append(Finish(self._reason()))
        return out

    def _count(self, usage: Any) -> None:
        """Take over counters, which are totals: the last ones hold, unless there is nothing in them but zeros."""
        if usage and (not self._usage or not isinstance(usage, dict) or _says_anything(usage)):
            self._usage = usage

    def _reason(self) -> FinishReason:
        if self._finish is None:
            return FinishReason("tool-calls" if self._calls else "stop")
        kind = _FINISHES.get(self._finish.lower())
        if kind is None:
            return odd_end(self._provider, self._finish)
        return FinishReason("refusal" if self._refused and kind == "stop" else kind)

    def _delta(self, delta: dict[str, Any], out: list[Chunk]) -> None:
        content = delta.get("content")
        if content and content.__class__ is str and (len(delta) == 1 or (len(delta) == 2 and "role" in delta)):
            self._say(content, out)
            return
        for name in self._thoughts:
            thought = delta.get(name)
            if thought and thought.__class__ is str:
                self._think(thought, out)
                break
        else:
            if isinstance(details := delta.get(_DETAILS), list):
                for piece in details:
                    thought = (piece.get("text") or piece.get("summary")) if isinstance(piece, dict) else None
                    if thought and isinstance(thought, str):
                        self._think(thought, out)
        if self._dialect.sealed_field and (sealed := delta.get(self._dialect.sealed_field)):
            self._seal(sealed, out)
        if content:
            if content.__class__ is str:
                self._say(content, out)
            else:
                self._parts(content, out)
        if calls := delta.get("tool_calls"):
            for call in [calls] if isinstance(calls, dict) else calls:
                if call is not None:
                    self._call(call, out)
        if function := delta.get("function_call"):
            # The form before there were several calls in an answer.
            self._call({"function": function}, out)
        if (refusal := delta.get("refusal")) and refusal.__class__ is str:
            self._refused = True
            self._say(refusal, out)

    def _say(self, text: str, out: list[Chunk]) -> None:
        block = self._text
        if block is None:
            block = self._text = self._open("text", out)
        if block.carry or "\ud800" <= text[-1] <= "\udbff":
            text = block.join(text)
        else:
            block.pieces.append(text)
        out.append(TextDelta(block.index, text))

    def _think(self, text: str, out: list[Chunk]) -> None:
        block = self._thought
        if block is None:
            block = self._thought = self._open("reasoning", out)
        if block.carry or "\ud800" <= text[-1] <= "\udbff":
            text = block.join(text)
        else:
            block.pieces.append(text)
        out.append(ReasoningDelta(block.index, text))

    def _seal(self, pieces: Any, out: list[Chunk]) -> None:
        """Keep what goes back as it came; text that comes in pieces is joined."""
        if self._thought is None:
            self._thought = self._open("reasoning", out)
        for piece in pieces:
            last = self._sealed[-1] if self._sealed else {}
            same = all(last.get(name) == piece.get(name) for name in ("type", "index", "id"))
            if not same or piece.get("data"):
                self._sealed.append(dict(piece))
                continue
            for name, value in piece.items():
                joined = name in ("text", "summary") and isinstance(last.get(name), str) and isinstance(value, str)
                if value:
                    last[name] = last[name] + value if joined else value

    def _open(self, kind: str, out: list[Chunk], key: object = None) -> OpenBlock:
        block = OpenBlock(len(self._blocks), key)
        self._blocks.append((kind, block))
        out.append(BlockStart(block.index, kind))
        return block

    def _parts(self, parts: Any, out: list[Chunk]) -> None:
        """Content that is a list of parts, thoughts among them."""
        if isinstance(parts, dict) and parts.get("type") in _TEXTS:
            parts = [parts]
        if not isinstance(parts, list):
            raise TypeError("content is neither text nor a list of parts")
        for part in parts:
            if part is None:
                continue
            if part.get("type") == "thinking":
                thinking = part.get("thinking")
                pieces = [thinking] if isinstance(thinking, str) else [p.get("text") for p in thinking or ()]
                for piece in filter(None, pieces):
                    self._think(piece, out)
            elif part.get("type") in _TEXTS and part.get("text"):
                self._say(part["text"], out)

    def _call(self, wire: dict[str, Any], out: list[Chunk]) -> None:
        function = wire.get("function") or {}
        call_id, name, arguments = wire.get("id"), function.get("name"), function.get("arguments")
        call_id = str(call_id) if call_id is not None else ""
        name = name if isinstance(name, str) else ""
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = dumps(arguments).decode()
        index = wire.get("index")
        if isinstance(index, str) and index.isdecimal() and len(index) < 10:
            index = int(index)
        block = self._find(index, call_id, name, arguments)
        if block is None:
            block = self._open("tool-call", out, index)
            self._calls.append(block)
        block.id = call_id or block.id
        block.name = name or block.name
        if arguments:
            arguments = block.join(arguments)
        out.append(ToolCallDelta(block.index, block.id, block.name or None, arguments))

    def _find(self, index: Any, call_id: str, name: str, arguments: str) -> OpenBlock | None:
        """The call that a fragment continues; None if it starts one.

        The index decides.  Where it is missing, or used twice, a new id starts a new call.
        """
        mine = [block for block in self._calls if block.key == index] if index is not None else self._calls
        if not mine:
            unnumbered = bool(self._calls) and self._calls[-1].key is None and not call_id and not name
            return self._calls[-1] if unnumbered else None
        last = mine[-1]
        if call_id and last.id and call_id != last.id:
            return next((block for block in mine if block.id == call_id), None)
        if not call_id or not last.id:
            whole = bool(name and last.name and arguments.lstrip().startswith("{")) and _is_object(last.text())
            return None if whole else last
        return last

    def _whole(self, choice: dict[str, Any]) -> Any:
        """A message that was not streamed, as one delta."""
        message = choice.get("message")
        if message is None and isinstance(text := choice.get("text"), str):
            return {"content": text}  # from a server that knows no messages
        if isinstance(message, dict) and choice.get("finish_reason") and self._is_known(message):
            return None
        if isinstance(message, dict) and isinstance(message.get("tool_calls"), list):
            calls = [{**call, "index": n} for n, call in enumerate(message["tool_calls"])]
            return {**message, "tool_calls": calls}
        return message

    def _is_known(self, message: dict[str, Any]) -> bool:
        """Whether `message`, behind an answer that came in pieces, says the same once more."""
        text = "" if self._text is None else self._text.text()
        ids = {block.id for block in self._calls}
        calls = message.get("tool_calls") or ()
        return bool(self._blocks) and (message.get("content") or "") == text and all(c.get("id") in ids for c in calls)

    def _is_complaint(self, wire: dict[str, Any]) -> bool:
        return wire.get("object") == "error" or wire.get("type") == "error" or complains(wire)


def _says_anything(usage: dict[str, Any]) -> bool:
    """Whether any counter of `usage` is more than nothing."""
    return any(value not in (None, 0, 0.0, "0", "") and not isinstance(value, dict | list) for value in usage.values())


def _is_object(text: str) -> bool:
    try:
        return isinstance(loads(text), dict)
    except ValueError:
        return False
