"""A scripted model that also writes summaries, and agents whose conversations outgrow it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import dsh_compaction
import pytest
from dsh_compaction.events import CompactSummary
from dsh_compaction.summarise import rebuild_summary
from dsh_compaction.words import OPENING, QUESTION

from dsh import Agent, Request, Text
from dsh.config import Config
from dsh.llm.chunks import ChunkStream
from dsh.llm.scripted import Reply, ScriptedModel, text
from dsh.messages import ToolCallBlock, ToolResultBlock
from dsh.session import Session, rebuild_request
from dsh.session.events import StepStart, UserMessage
from dsh.testing import memory_agent

HEAD = QUESTION[:60]


def asks_for_summary(request: Request) -> bool:
    block = request.messages[-1].content[0]
    return isinstance(block, Text) and block.text.startswith(HEAD)


class Writer(ScriptedModel):
    """Plays its script to steps, and other replies to requests for a summary.

    Attributes:
        summaries: replies to such requests; when they are used up, it always writes the same.
        asked: the requests for summaries.
        steps: the requests of steps.
    """

    def __init__(self, *replies: Reply, summaries: tuple[Reply, ...] = (), otherwise: Reply | None = None) -> None:
        super().__init__(*replies, otherwise=otherwise)
        self.summaries = list(summaries)
        self.asked: list[Request] = []
        self.steps: list[Request] = []

    def stream(self, request: Request, model: str) -> ChunkStream:
        if not asks_for_summary(request):
            self.steps.append(request)
            self.requests.append(request)
            return self._play(self._at(len(self.requests) - 1), len(self.requests) - 1)
        self.asked.append(request)
        reply = self.summaries.pop(0) if self.summaries else text(f"summary number {len(self.asked)}")
        return self._play(reply, len(self.asked))

    def _at(self, number: int) -> Reply | None:
        return self._replies[number] if number < len(self._replies) else self._otherwise


@asynccontextmanager
async def _talk(
    model: ScriptedModel,
    settings: Mapping[str, Any] | None = None,
    plugins: Mapping[str, object] | None = None,
    tables: Mapping[str, Any] | None = None,
    **more: Any,
) -> AsyncIterator[Agent]:
    config = Config(tables={"compaction": {"context_window": 4000, **(settings or {})}, **(tables or {})})
    given = {"compaction": dsh_compaction, **(plugins or {})}
    async with memory_agent(model=model, plugins=given, config=config, **more) as agent:
        yield agent


def _check(session: Session, model: Writer | None = None) -> None:
    """What must hold of every conversation, however often it was compacted.

    Each step's request can be made again from the log, and so can each request for a summary; calls and results
    pair; there is one summary at the beginning at most, and nothing but what came after it behind.
    """
    steps = [event.data for event in session.events if isinstance(event.data, StepStart)]
    rebuilt, before = [], 0
    for step in steps:
        try:
            header, messages = rebuild_request(session.events, step.turn, step.step)
        except ValueError:
            continue  # it ended before a model was asked
        rebuilt.append((header.system, header.tools, tuple(messages)))
        before = len(header.message_prefix or ())
    if model is not None:
        assert [(sent.system, sent.tools, sent.messages) for sent in model.steps] == rebuilt
        for told in (event for event in session.events if isinstance(event.data, CompactSummary)):
            if told.data.instruction is not None:
                again = rebuild_summary(session.events, told.seq)
                assert any(sent.messages == again.messages and sent.system == again.system for sent in model.asked)
    for *_, messages in rebuilt:
        open_calls: set[str] = set()
        for message in messages:
            for block in message.content:
                if isinstance(block, ToolCallBlock):
                    open_calls.add(block.id)
                elif isinstance(block, ToolResultBlock):
                    open_calls.remove(block.tool_call_id)
        assert not open_calls
        summaries = [
            number
            for number, message in enumerate(messages)
            for block in message.content
            if isinstance(block, Text) and OPENING in block.text
        ]
        assert summaries in ([], [before])
    stands_for: list[int] = []
    for place, seq in enumerate(session.surface):
        event = session.events[seq]
        is_summary = event.surface_op != "append" and isinstance(event.data, UserMessage)
        assert not is_summary or place == 0
        if not is_summary:
            # A shortened result stands where the long one stood.
            while event.surface_op != "append":
                assert event.source_event_seqs is not None
                event = session.events[event.source_event_seqs[0]]
            stands_for.append(event.seq)
    assert stands_for == sorted(stands_for)


@pytest.fixture
def writer() -> type[Writer]:
    return Writer


@pytest.fixture
def talk() -> Callable[..., AbstractAsyncContextManager[Agent]]:
    """An agent with this plugin and a window of 4000 tokens."""
    return _talk


@pytest.fixture
def check() -> Callable[..., None]:
    return _check
