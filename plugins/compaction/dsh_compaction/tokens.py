"""What a conversation weighs: estimates, and what the provider itself has counted."""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import define, field

from dsh.jsonvalue import dumps
from dsh.messages import Block, Message, OtherBlock, Reasoning, Text, ToolCallBlock, ToolResultBlock, ToolSchema
from dsh.session import Event, Session
from dsh.session.events import AssistantMessage, Header, Replace, RequestHeader, RequestHeaderDelta
from dsh.session.surface import event_message

__all__ = ["Estimate", "Meter"]

BLOCK = 4
"""Tokens of the marks around a block, and around a message."""
PICTURE = 1600
"""Tokens of a picture or another attachment, whose length in bytes says nothing."""
ATTACHMENTS = ("image", "document", "audio", "video", "file")
DOUBTFUL = 4.0
"""A count this many times below the estimate is no count of this conversation."""


@define
class Estimate:
    """Reckons tokens from characters; `per_token` are characters of ASCII."""

    per_token: float = 4.0

    def text(self, text: str) -> int:
        """Tokens of a text."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        return math.ceil(size / self.per_token)

    def block(self, block: Block) -> int:
        """Tokens of a block."""
        if isinstance(block, Text):
            return self.text(block.text) + BLOCK
        if isinstance(block, Reasoning):
            return self.text(block.text) + self.text(block.data or "") + BLOCK
        if isinstance(block, ToolCallBlock):
            return self.text(block.name) + self.text(block.arguments) + BLOCK
        if isinstance(block, ToolResultBlock):
            return sum(map(self.block, block.content)) + BLOCK
        return PICTURE if is_attachment(block) else self.text(dumps(block.data).decode()) + BLOCK

    def message(self, message: Message) -> int:
        """Tokens of a message."""
        return sum(map(self.block, message.content)) + BLOCK

    def messages(self, messages: Iterable[Message]) -> int:
        """Tokens of several messages."""
        return sum(map(self.message, messages))

    def event(self, event: Event) -> int:
        """Tokens of what the model sees of an event."""
        message = event_message(event)
        return 0 if message is None else self.message(message)

    def head(self, system: str | None, tools: Iterable[ToolSchema] | None, prefix: Iterable[Message] | None) -> int:
        """Tokens of what stands before the conversation."""
        tokens = self.text(system) if system else 0
        for tool in tools or ():
            tokens += self.text(tool.name) + self.text(tool.description)
            tokens += self.text(dumps(tool.parameters).decode()) + BLOCK
        return tokens + self.messages(prefix or ())


def is_attachment(block: Block) -> bool:
    """Whether a block is a picture or the like."""
    return isinstance(block, OtherBlock) and block.type.split("_")[-1] in ATTACHMENTS


@define
class _Anchor:
    """A provider's count: the tokens of a request with its answer, and what the estimate was for the same."""

    tokens: int
    surface: int
    head: int


@define
class Meter:
    """The size of a session's next request, kept up to date with the log.

    The provider's count of the last answer that had one is the anchor, whatever came or was replaced since is
    added or taken off as estimated.  Everything is made from the log, none of it is remembered elsewhere.

    Attributes:
        total: the estimate of all that is on the surface.
        last_answer: the seq of the last answer; -1 before the first.
        anchored: a request was made since the meter began to look.
    """

    estimate: Estimate
    weights: dict[int, int] = field(factory=dict)
    total: int = 0
    last_answer: int = -1
    anchored: bool = False
    _seen: int = 0
    _surface: list[int] = field(factory=list)
    _anchor: _Anchor | None = None
    _header: tuple[Header | None, int] = (None, 0)

    def begin(self, session: Session) -> None:
        """Take what is on the surface now, without reading all of a long log."""
        newest = -1
        for seq in session.surface:
            event = session.events[seq]
            self._add(seq, self.estimate.event(event))
            if event.surface_op is not None and event.surface_op != "append":
                newest = max(newest, seq)
        # What was counted before a replacement cannot be compared with what is there now.
        for seq in reversed(session.surface.seqs):
            event = session.events[seq]
            if isinstance(event.data, AssistantMessage):
                self.last_answer = max(self.last_answer, seq)
                counted = _counted(event.data)
                if seq > newest and counted and self._anchor is None:
                    behind = sum(self.weights[other] for other in self.weights if other > seq)
                    self._set_anchor(counted, self.total - behind, session)
                    break
        self._surface = list(session.surface)
        self._seen = len(session.events)

    def _add(self, seq: int, tokens: int) -> None:
        self.weights[seq] = tokens
        self.total += tokens

    def update(self, session: Session) -> None:
        """Read what is new in the log."""
        events = session.events
        for seq in range(self._seen, len(events)):
            event = events[seq]
            if isinstance(event.data, RequestHeader | RequestHeaderDelta):
                self.anchored = True
            operation = event.surface_op
            if operation is None:
                continue
            surface = self._surface
            if isinstance(operation, Replace):
                first, last = surface.index(operation.start), surface.index(operation.end)
                for gone in surface[first : last + 1]:
                    self.total -= self.weights.pop(gone)
                surface[first : last + 1] = [seq]
            else:
                surface.append(seq)
            self._add(seq, self.estimate.event(event))
            if isinstance(event.data, AssistantMessage):
                self.last_answer = seq
                counted = _counted(event.data)
                if counted:
                    self._set_anchor(counted, self.total, session)
        self._seen = len(events)

    def _set_anchor(self, counted: int, surface: int, session: Session) -> None:
        head = self.head(session)
        if counted * DOUBTFUL >= surface + head:
            self._anchor = _Anchor(counted, surface, head)

    def head(self, session: Session) -> int:
        """The estimate of what stands before the conversation in the last request."""
        header = session.request_header()
        if header is not self._header[0]:
            found = 0 if header is None else self.estimate.head(header.system, header.tools, header.message_prefix)
            self._header = (header, found)
        return self._header[1]

    def pressure(self, head: int) -> int:
        """Tokens of the next request.

        Args:
            head: the estimate of what stands before the conversation in it.
        """
        anchor = self._anchor
        plain = self.total + head
        if anchor is None:
            return plain
        grown = (self.total - anchor.surface) + (head - anchor.head)
        # What is new may be denser than what was counted; what is gone was a part of it.
        scale = max(1.0, self.scale) if grown > 0 else self.scale
        return max(anchor.tokens + round(grown * scale), 0)

    @property
    def counted(self) -> int:
        """The provider's last count; 0 if there is none."""
        return 0 if self._anchor is None else self._anchor.tokens

    @property
    def scale(self) -> float:
        """How many tokens the provider counts for an estimated one; 1 as long as it has counted nothing."""
        anchor = self._anchor
        if anchor is None:
            return 1.0
        return min(DOUBTFUL, max(1 / DOUBTFUL, anchor.tokens / max(anchor.surface + anchor.head, 1)))


def _counted(answer: AssistantMessage) -> int:
    """The tokens of the request and its answer, as the provider counted them; 0 if it did not."""
    usage = answer.usage
    if usage is None:
        return 0
    taken = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return taken + usage.output_tokens if taken > 0 else 0
