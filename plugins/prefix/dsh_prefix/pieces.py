"""The segments of a request: its parts in the order in which a provider caches them, and who contributed each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from attrs import field, frozen

from dsh.jsonvalue import dumps
from dsh.llm.adapter import Request
from dsh.messages import Message, ToolSchema
from dsh.session.codec import Codec

__all__ = ["Segment", "difference", "excerpt", "of_message", "of_tool", "segments_of"]

AROUND = 40
"""Characters of an excerpt on each side of a difference."""


@frozen
class Segment:
    """A part of a request.

    Attributes:
        kind: ``model``, ``system``, ``tools``, ``prefix`` or ``message``.
        name: the section, the tool, or the number of the message from 0.
        text: its canonical text: the rendered section, or JSON.
        plugin: who contributed it; empty where nobody can be named.
    """

    kind: str
    name: str
    text: str
    plugin: str = field(default="", eq=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical text's UTF-8 bytes, in hex."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


def segments_of(request: Request, codec: Codec, prefix: int = 0, system: Sequence[Segment] = ()) -> list[Segment]:
    """All segments of a request.

    Args:
        prefix: how many of its messages stand before the history.
        system: the sections of the system prompt, where they are known; otherwise it is one segment.
    """
    whole = [Segment("system", "", request.system)] if request.system else []
    return [
        Segment("model", "", request.model),
        *(system or whole),
        *(of_tool(tool) for tool in request.tools or ()),
        *(of_message(message, index, prefix, codec) for index, message in enumerate(request.messages)),
    ]


def of_tool(tool: ToolSchema, plugin: str = "") -> Segment:
    """The segment of a tool."""
    record = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return Segment("tools", tool.name, dumps(record).decode(), plugin)


def of_message(message: Message, index: int, prefix: int, codec: Codec, plugin: str = "") -> Segment:
    """The segment of the message at `index`; those before `prefix` are no part of the history."""
    text = dumps({"role": message.role, "content": codec.to_json(message.content)}).decode()
    return Segment("prefix" if index < prefix else "message", str(index), text, plugin)


def difference(before: str, after: str) -> int:
    """Where two texts first differ, from 0; their common length if one begins with the other."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def excerpt(text: str, at: int) -> str:
    """The text around a place."""
    start, end = max(0, at - AROUND // 2), at + AROUND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
