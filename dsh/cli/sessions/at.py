"""The conversation as the model saw it at some event: before a compaction, or after."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ...jsonvalue import Json, dumps
from ...messages import Block, Reasoning, Text, ToolCallBlock, ToolResultBlock
from ...session.surface import Surface, event_message
from .. import clean
from ..progress import one_line

if TYPE_CHECKING:
    from ...session.codec import Codec
    from ...session.store import StoredSession

__all__ = ["seq_of", "shown"]

_AT = re.compile(r"(?:seq:)?(?P<seq>\d{1,12})")


def seq_of(at: str) -> int:
    """The number of the event that ``--at`` names.

    Raises:
        ConfigError: it names none.
    """
    match = _AT.fullmatch(at)
    if match is None:
        raise ConfigError(f"--at {at}: sessions show takes the number of an event, as in --at 41", code="USAGE")
    return int(match["seq"])


def shown(stored: StoredSession, seq: int, codec: Codec, *, as_json: bool) -> Iterator[str]:
    """What the model sees once the event `seq` is in the log, line by line; as JSON, a message a line.

    Raises:
        ConfigError: there is no such event.
        CorruptSession: the log cannot be read up to there.
    """
    events = stored.events
    if seq >= len(events):
        last = f"the last event is {len(events) - 1}" if len(events) else "it has no events"
        raise ConfigError(f"--at {seq}: the session {stored.header.id} is not so long: {last}", code="USAGE")
    surface = Surface(events[number] for number in range(seq + 1))
    for number in surface:
        event = events[number]
        message = event_message(event)
        if message is None:
            continue
        if as_json:
            record: dict[str, Json] = {
                "seq": number,
                "role": message.role,
                "content": codec.to_json(message)["content"],
            }
            yield dumps(record).decode()
            continue
        stands_for = (
            "" if event.surface_op == "append" else f", in place of {len(event.source_event_seqs or ())} events"
        )
        yield f"[{number}] {message.role} ({event.type}{stands_for}):"
        for block in message.content:
            yield from (f"  {clean(line)}" for line in _lines(block))


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Text | Reasoning):
        yield from block.text.splitlines()
    elif isinstance(block, ToolCallBlock):
        yield f"[{one_line(block.name)}] {one_line(block.arguments)}"
    elif isinstance(block, ToolResultBlock):
        for inner in block.content:
            yield from (f"| {line}" for line in _lines(inner))
    else:
        yield f"({block.type})"
