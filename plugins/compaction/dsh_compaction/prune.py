"""Long results and arguments, shortened: head and tail stay, and what was cut is said."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from dsh.jsonvalue import dumps, loads
from dsh.messages import Block, Message, Text, ToolCallBlock, ToolResultBlock
from dsh.session import Event
from dsh.session.events import ToolResult

from .tokens import is_attachment

__all__ = ["shorter_content", "shorter_message", "shorter_result", "shorter_text"]


def shorter_text(text: str, head: int, tail: int, again: str = "; ask again for the part that you need") -> str:
    """The first `head` and the last `tail` characters of a text, with what was cut out said between them."""
    end = len(text) - tail
    lines = text.count("\n", head, end)
    cut = f"{end - head} characters" + (f" in {lines} lines" if lines > 1 else "")
    said = f"\n[... {cut} were cut out here to keep the conversation short{again} ...]\n"
    return text[:head] + said + text[end:]


def shorter_content(content: Iterable[Block], over: int, head: int, tail: int) -> tuple[Block, ...] | None:
    """The blocks of a result, long texts shortened and attachments named; None if nothing is long."""
    found: list[Block] = []
    changed = False
    for block in content:
        if isinstance(block, Text) and len(block.text) > over:
            block, changed = Text(shorter_text(block.text, head, tail)), True
        elif is_attachment(block):
            kind = block.type.split("_")[-1]
            block, changed = Text(f"[{kind} left out to keep the conversation short; repeat the call to see it]"), True
        found.append(block)
    return tuple(found) if changed else None


def shorter_result(event: Event, over: int, head: int, tail: int) -> ToolResult | None:
    """A result that may take the place of the one in `event`; None if that is short, or no result."""
    data = event.data
    if not isinstance(data, ToolResult):
        return None
    content = shorter_content(data.content, over, head, tail)
    if content is None:
        return None
    mark = {"by": "compaction", "of": event.seq}
    meta = {**data.meta, "pruned": mark} if isinstance(data.meta, dict) else {"pruned": mark}
    return evolve(data, content=content, meta=meta)


def shorter_message(message: Message, limit: int) -> Message:
    """A message without more than `limit` characters in a result, an argument or a text; calls stay calls."""
    head, tail = limit * 3 // 4, limit // 4
    content: list[Block] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            shorter = shorter_content(block.content, limit + 200, head, tail)
            block = block if shorter is None else evolve(block, content=shorter)
        elif isinstance(block, ToolCallBlock) and len(block.arguments) > limit + 200:
            block = evolve(block, arguments=_shorter_arguments(block.arguments, head, tail))
        elif isinstance(block, Text) and len(block.text) > 4 * limit:
            block = Text(shorter_text(block.text, 3 * limit, limit, again=""))
        elif is_attachment(block):
            block = Text(f"[{block.type} left out]")
        content.append(block)
    return message if tuple(content) == message.content else Message(message.role, content)


def _shorter_arguments(raw: str, head: int, tail: int) -> str:
    """Arguments that are still an object, with long texts in it shortened."""
    try:
        values = loads(raw)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return dumps({"cut": shorter_text(raw, head, tail)}).decode()
    short = {
        name: shorter_text(value, head, tail) if isinstance(value, str) and len(value) > head + tail + 200 else value
        for name, value in values.items()
    }
    shorter = dumps(short).decode()
    return shorter if len(shorter) < len(raw) else dumps({"cut": shorter_text(raw, head, tail)}).decode()
