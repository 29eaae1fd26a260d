"""What of an answer has reached whoever looks on."""

from __future__ import annotations

from collections.abc import Sequence

from ..llm.chunks import BlockEnd, TextDelta
from ..messages import Text
from .events import AssistantChunk, Event, StepStart

__all__ = ["text_shown"]

AGAIN = "retry/wait"
"""The event behind which the same request was sent anew."""


def text_shown(events: Sequence[Event]) -> bool:
    """Whether text of the answer that is arriving, or just failed, was told to whoever listens to the log.

    Reasoning and calls do not count: they are not the answer, and calls have not run.
    """
    for event in reversed(events):
        data = event.data
        if isinstance(data, StepStart) or event.type == AGAIN:
            return False
        if not isinstance(data, AssistantChunk):
            continue
        chunk = data.chunk
        if isinstance(chunk, TextDelta) and chunk.text.strip():
            return True
        if isinstance(chunk, BlockEnd) and isinstance(chunk.block, Text) and chunk.block.text.strip():
            return True
    return False
