"""Where a conversation is cut: never between a call and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsh import Session
from dsh.messages import Message, ToolCallBlock, ToolResultBlock
from dsh.session.surface import event_message

from .values import CompactionError, Cut, History, Node

__all__ = ["checked", "cuttable", "newest", "nodes_of"]


def nodes_of(session: Session, weights: Mapping[int, int]) -> tuple[Node, ...]:
    """What the model sees of a session, event by event.

    Args:
        weights: the tokens of each event.
    """
    seqs = session.surface.seqs
    messages = [event_message(session.events[seq]) for seq in seqs]
    free = cuttable(messages)
    return tuple(
        Node(seq, message, weights.get(seq, 0), free[place])
        for place, (seq, message) in enumerate(zip(seqs, messages, strict=True))
    )


def cuttable(messages: Sequence[Message | None]) -> list[bool]:
    """For each message whether all calls before it are answered before it; one more for the end."""
    found: list[bool] = []
    waiting: set[str] = set()
    for message in messages:
        found.append(not waiting)
        for block in message.content if message is not None else ():
            if isinstance(block, ToolCallBlock):
                waiting.add(block.id)
            elif isinstance(block, ToolResultBlock):
                waiting.discard(block.tool_call_id)
    return [*found, not waiting]


def newest(history: History) -> Cut:
    """Keep the newest messages that weigh `History.retain` or a little more, and one exchange at least."""
    nodes = history.nodes
    kept = 0
    for place in range(len(nodes) - 1, 0, -1):
        kept += nodes[place].tokens
        if kept >= history.retain and nodes[place].cuttable:
            return Cut(nodes[place].seq)
    return Cut(None)


def checked(history: History, cut: Cut) -> int:
    """How many messages are replaced by a cut; 0 if there is none.

    Raises:
        CompactionError: it cannot be made there.
    """
    if cut.before is None:
        return 0
    for place, node in enumerate(history.nodes):
        if node.seq == cut.before:
            if not node.cuttable:
                raise CompactionError(
                    f"the conversation cannot be cut before event {cut.before}: a call before it is answered only "
                    "there or later; answer compaction_select with a node that is `cuttable`"
                )
            return place
    raise CompactionError(f"the conversation cannot be cut before event {cut.before}, which is not a part of it")
