"""The default strategy: ask the model, with the conversation as it is in front of the question."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import attrs
import trio
from attrs import define, evolve

from dsh import Agent, CallConfig, LlmError, Message, Request, Text, TokenUsage, ToolCallBlock
from dsh.llm.assembler import Assembler
from dsh.messages import text_of
from dsh.session import Event
from dsh.session.events import Header
from dsh.session.header import fold_all
from dsh.session.surface import derive, event_message
from dsh.tasks import single

from .config import CompactionConfig
from .events import CompactSummary
from .prune import shorter_message
from .select import cuttable
from .tokens import Estimate
from .values import CompactionError, Shadowed, Summary
from .words import framed, question, unframed

__all__ = ["Summariser", "rebuild_summary", "reduced", "summary_request"]

LEVELS = 3
"""How often the input is reduced at most; each time to a good deal less."""
LONGER = 4
"""After an answer that was cut off, perhaps by long thoughts, the next one may be so many times as long."""
LESS = 0.85
"""A request that was too long is only sent again with less than this part of its weight."""
LIMIT = 2000
"""Characters of a result or an argument in a reduced conversation."""
TRANSIENT = 2
"""How often a request is sent again that may work later."""
WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds until then, where the provider names none; twice as long the second time; and at most."""


def summary_request(
    header: Header, messages: Sequence[Message], text: str, *, model: str = "", max_tokens: int | None = None
) -> Request:
    """The request for a summary of a conversation: its own next request, but for the question at the end.

    Args:
        header: of the conversation's last request.
        messages: the conversation, without what the header puts before it.
        text: the question.
        model: another than the conversation's.
    """
    config = header.config
    asked = Message("user", (Text(text),))
    # Every setting of the conversation has its namesake in a request.
    settings = {name: getattr(config, name) for name in attrs.fields_dict(CallConfig)}
    settings |= {"model": model or config.model, "max_tokens": max_tokens}
    return Request(
        messages=(*(header.message_prefix or ()), *messages, asked),
        system=header.system,
        tools=header.tools,
        **settings,
    )


def reduced(messages: Sequence[Message], level: int, room: int | None, estimate: Estimate) -> list[Message]:
    """A conversation that is shorter, and still whole in its calls and results.

    Args:
        level: 0 not at all; from 1 on long results and arguments are shortened, the more the higher; from 2 on
            the oldest messages, but for the very first, are left out as well, until the rest weighs `room`.
    """
    if level == 0:
        return list(messages)
    shorter = [shorter_message(message, LIMIT >> (level - 1)) for message in messages]
    if level == 1 or room is None:
        return shorter
    free = cuttable(shorter)
    weights = [estimate.message(message) for message in shorter]
    first = shorter[:1] if len(free) > 1 and free[1] else []
    left = sum(weights) - (weights[0] if first else 0)
    start = len(first)
    for place in range(start, len(shorter)):
        if left <= room and free[place]:
            break
        left -= weights[place]
        start = place + 1
    while start < len(shorter) and not free[start]:
        start += 1
    if start == len(first):
        return shorter
    gap = Message("user", (Text(f"[{start - len(first)} older messages were left out here]"),))
    return [*first, gap, *shorter[start:]]


def rebuild_summary(events: Sequence[Event], seq: int) -> Request:
    """The request that a summary was the answer to, made again from the log.

    Args:
        seq: of the ``compact/summary``.

    Raises:
        ValueError: there is no such event, or no model was asked.
    """
    data = events[seq].data
    if not isinstance(data, CompactSummary) or data.instruction is None:
        raise ValueError(f"event {seq} is no summary that a model was asked for")
    header = fold_all(events[:seq])
    if header is None:
        raise ValueError(f"the log has no request header before event {seq}")
    messages = derive(events[:seq])[: _count(events[:seq], data)]
    shorter = reduced(messages, data.level or 0, data.room, Estimate())
    return summary_request(header, shorter, data.instruction, model=data.model, max_tokens=data.max_tokens)


def _count(events: Sequence[Event], data: CompactSummary) -> int:
    return sum(event_message(events[seq]) is not None for seq in data.shadowed_seqs)


@define
class Summariser:
    """Asks until there is an answer that can be used, with a bound.

    Attributes:
        usage: of all answers.
        level, room: how far the conversation had to be reduced.
        cut: an answer was cut off, so that the next one may be longer.
    """

    agent: Agent
    config: CompactionConfig
    shadowed: Shadowed
    usage: TokenUsage | None = None
    level: int = 0
    room: int | None = None
    cut: bool = False

    async def run(self) -> Summary:
        """The summary.

        Raises:
            CompactionError: no answer could be used, or the request is too long however far it is reduced.
            LlmError: the provider failed.

        Cancelling closes the request.
        """
        self._begin()
        complaint, tries, waits = "", 0, 0
        while True:
            text = question(self.shadowed.more, complaint)
            try:
                summary = await self._ask(text)
            except LlmError as error:
                if error.code == "CONTEXT_OVERFLOW":
                    self._reduce(error)
                    continue
                if not error.retryable or waits >= TRANSIENT:
                    raise
                waits += 1
                await trio.sleep(min(error.retry_after or WAIT * 2 ** (waits - 1), LONGEST_WAIT))
                continue
            tries += 1
            complaint = self._complaint(summary)
            if not complaint:
                return self._made(summary, text)
            if tries >= self.config.tries:
                raise CompactionError(
                    f"the model wrote no summary that can be used in {tries} tries: {complaint}; "
                    "name another model with `compaction.model`, or go on in a new session"
                )

    # -- the input

    def _begin(self) -> None:
        """Do not send what is known to be too long."""
        window = self.shadowed.window
        if window is None:
            return
        while self.level < LEVELS and self._weight() > max(window - self._answer(), window // 4):
            self.level += 1
            self._set_room()

    def _weight(self) -> int:
        request = self._request(question(self.shadowed.more))
        estimate = Estimate(self.config.chars_per_token)
        head = estimate.head(request.system, request.tools, ())
        return round((head + estimate.messages(request.messages)) * self.shadowed.scale)

    def _answer(self) -> int:
        """Tokens that the summary may have."""
        window, most = self.shadowed.window, self.config.max_tokens * (LONGER if self.cut else 1)
        return most if window is None else min(most, max(window // (4 if self.cut else 8), 256))

    def _reduce(self, error: LlmError) -> None:
        """Go on to a level at which the request is a good deal shorter."""
        before = self._weight()
        while self.level < LEVELS:
            self.level += 1
            self._set_room()
            if self._weight() < before * LESS:
                return
        raise CompactionError(
            f"the request for a summary is too long even without its older messages ({error}); "
            "name a model with a larger window as `compaction.model`, or go on in a new session"
        ) from error

    def _set_room(self) -> None:
        if self.level > 1:
            whole = Estimate().messages(reduced(self.shadowed.messages, 1, None, Estimate()))
            self.room = whole >> (self.level - 1)

    def _request(self, text: str) -> Request:
        asked = self.shadowed.request
        count = len(asked.messages) - 1 - len(self.shadowed.messages)
        body = reduced(self.shadowed.messages, self.level, self.room, Estimate())
        last = Message("user", (Text(text),))
        return evolve(asked, messages=(*asked.messages[:count], *body, last), max_tokens=self._answer())

    # -- the answer

    async def _ask(self, text: str) -> Assembler:
        agent, answer = self.agent, Assembler()
        stream = await agent.harness.llm.stream(self._request(text), agent)
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    answer.feed(chunk)
        except ExceptionGroup as group:
            raise single(group) from None  # what a nursery of the adapter wrapped
        finish = answer.finish
        if answer.usage is not None:
            self.usage = answer.usage if self.usage is None else self.usage + answer.usage
        if finish is not None and finish.kind in ("error", "aborted"):
            code = finish.code or ("ABORTED" if finish.kind == "aborted" else None)
            raise LlmError(finish.message or "the provider reported an error", code=code)
        return answer

    def _complaint(self, answer: Assembler) -> str:
        """Why an answer cannot be used; empty if it can."""
        content = answer.content()
        text = unframed(text_of(content))
        if answer.finish is not None and answer.finish.kind == "max-tokens":
            limit, self.cut = self._answer(), True
            return f"it was cut off at {limit} tokens; be shorter"
        if answer.finish is not None and answer.finish.kind == "refusal":
            return "it refused; nothing is asked for but what has been done and what is left to do"
        if any(isinstance(block, ToolCallBlock) for block in content):
            return "it called a tool; write text only"
        if not text:
            return "it had no text"
        estimate = Estimate(self.config.chars_per_token)
        if estimate.text(framed(text, self.shadowed.pinned)) >= self.shadowed.tokens:
            return "it was not shorter than the conversation that it is to replace; be shorter"
        return ""

    def _made(self, answer: Assembler, text: str) -> Summary:
        asked = self.shadowed.request
        said = self.agent.harness.secrets.mask(unframed(text_of(answer.content())))
        return Summary(said, asked.model, self.usage, self._answer(), text, self.level, self.room)
