"""A summary, from the choice of what it replaces to its place in the log."""

from __future__ import annotations

from typing import cast

from attrs import evolve, frozen

from dsh import AgentError, PluginSource, Text
from dsh.session.events import EndReason, Header, Replace, Trigger, TurnEnd, TurnStart, UserMessage

from . import CompactionHooks
from .events import CompactEnd, CompactStart, CompactSummary, Range
from .select import checked, newest
from .state import Conversation, Limits
from .summarise import Summariser, summary_request
from .values import CompactionError, Cut, History, Node, Reason, Shadowed, Summary
from .words import framed, question

__all__ = ["SOURCE", "Plan", "by_hand", "planned", "summarise", "worth"]

SOURCE = PluginSource("compact")
"""Who the summary is from, in every log of this format."""
LEAST = 300
"""Tokens that a summary should replace at least, where nobody asked for it."""
FLUSH_SECONDS = 10.0


@frozen
class Plan:
    """What would be replaced: so many of the nodes; and what stays word for word."""

    history: History
    count: int
    pinned: str

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those that are replaced."""
        return self.history.nodes[: self.count]

    @property
    def tokens(self) -> int:
        """What they weigh."""
        return sum(node.tokens for node in self.nodes)


def planned(talk: Conversation, history: History, cut: Cut) -> Plan:
    """The plan that a cut makes.

    Raises:
        CompactionError: the conversation cannot be cut there.
    """
    count = checked(history, cut)
    return Plan(history, count, talk.pinned(history.nodes[:count], history.window) if count else "")


def worth(talk: Conversation, plan: Plan) -> bool:
    """Whether replacing it can gain something, beside a frame and what is pinned."""
    nodes, history = plan.nodes, plan.history
    if not nodes or (len(nodes) == 1 and _is_summary(talk, nodes[0])):
        return False
    frame = talk.meter.estimate.text(framed("", plan.pinned))
    if history.reason == "manual":
        return plan.tokens > frame + 50
    least = (history.window or 0) // 50 if history.reason == "pressure" else 0
    return plan.tokens >= max(LEAST, least, round(1.5 * frame))


def _is_summary(talk: Conversation, node: Node) -> bool:
    event = talk.session.events[node.seq]
    return event.surface_op != "append" and isinstance(event.data, UserMessage)


def _hooks(talk: Conversation) -> CompactionHooks:
    return cast(CompactionHooks, talk.agent.hook)


async def _chosen(talk: Conversation, limits: Limits, head: int, reason: Reason) -> Plan:
    history = talk.history(limits, head, reason)
    cut = await _hooks(talk).compaction_select(agent=talk.agent, history=history, default=lambda: newest(history))
    return planned(talk, history, cut)


async def summarise(talk: Conversation, turn: int, limits: Limits, head: int, reason: Reason, more: str = "") -> bool:
    """Put a summary in the place of the beginning of the conversation, in the open turn.

    Args:
        more: what a person wants kept.

    Returns:
        False if that is not worth it; nothing was asked then.

    Raises:
        CompactionError, LlmError: there is no summary; the log says so, and nothing was replaced.

    Cancelling closes the request; the log says so, and nothing was replaced.
    """
    plan = await _chosen(talk, limits, head, reason)
    if not worth(talk, plan):
        return False
    start = talk.session.append(CompactStart(turn))
    error: str | None = "cancelled"
    try:
        summary = await _written(talk, plan, more)
        _land(talk, plan, summary, start.seq)
        error = None
    except Exception as exc:
        error = talk.agent.harness.secrets.mask(str(exc) or type(exc).__name__)
        raise
    finally:
        wasted = talk.spent if error is not None else None
        talk.session.append(CompactEnd(turn, error, wasted, None if wasted is None else talk.asked))
        talk.meter.update(talk.session)
    return True


async def by_hand(talk: Conversation, limits: Limits, head: int, more: str) -> Plan | None:
    """Summarise the conversation of an idle agent, in a turn of its own; None if that is not worth it.

    Raises:
        CompactionError, LlmError: there is no summary; nothing has changed.
        AgentError: the agent began to work meanwhile; nothing has changed.

    Being cancelled, it has changed nothing, unless the summary was in the log already.
    """
    import trio

    session = talk.session
    plan = await _chosen(talk, limits, head, "manual")
    if not worth(talk, plan):
        return None
    summary = await _written(talk, plan, more)
    if session.open_turn is not None or talk.agent.status != "idle":
        raise AgentError("the agent began to work while its conversation was summarised; try again", code="BUSY")
    _refuse_changed(talk, plan)
    turn = session.last_turn + 1
    # There is no checkpoint from here to the turn's end, so that nobody else can open one.
    session.append(TurnStart(turn, Trigger("injection", SOURCE)))
    try:
        start = session.append(CompactStart(turn, asked=True))
        error: str | None = "failed"
        try:
            _land(talk, plan, summary, start.seq)
            error = None
        finally:
            session.append(CompactEnd(turn, error))
    finally:
        session.append(TurnEnd(turn, EndReason("completed")))
        talk.meter.update(session)
    with trio.move_on_after(FLUSH_SECONDS, shield=True):
        await talk.agent.harness.sessions.flush(session)
    return plan


def last_header(talk: Conversation) -> Header:
    """The header of the last request.

    Raises:
        CompactionError: there was none yet.
    """
    header = talk.session.request_header()
    if header is None:
        raise CompactionError("nothing was asked in this conversation yet, so there is nothing to summarise")
    return header


async def _written(talk: Conversation, plan: Plan, more: str) -> Summary:
    """The summary, checked.

    Raises:
        CompactionError: it cannot be used.
    """
    config, header, history = talk.config, last_header(talk), plan.history
    messages = tuple(node.message for node in plan.nodes if node.message is not None)
    model = config.model or talk.model(header)
    request = summary_request(header, messages, question(more), model=model, max_tokens=config.max_tokens)
    request = evolve(request, session_id=talk.session.id)
    shadowed = Shadowed(
        request, messages, plan.tokens, plan.pinned, history.window, history.reason, more, talk.meter.scale
    )

    async def default() -> Summary:
        summariser = Summariser(talk.agent, config, shadowed)
        try:
            return await summariser.run()
        finally:
            talk.spent, talk.asked = summariser.usage, model

    summary = await _hooks(talk).compaction_summarise(agent=talk.agent, shadowed=shadowed, default=default)
    if not summary.text.strip():
        raise CompactionError("the summary is empty")
    if talk.meter.estimate.text(framed(summary.text, plan.pinned)) >= plan.tokens:
        raise CompactionError("the summary is not shorter than the conversation that it is to replace")
    return summary


def _refuse_changed(talk: Conversation, plan: Plan) -> None:
    seqs = tuple(node.seq for node in plan.nodes)
    if talk.session.surface.seqs[: len(seqs)] != seqs:
        raise CompactionError("the conversation was changed while it was summarised; it stays as it is")


def _land(talk: Conversation, plan: Plan, summary: Summary, start: int) -> None:
    """Replace what was summarised.

    Raises:
        CompactionError: somebody else has replaced a part of it meanwhile.
    """
    session = talk.session
    _refuse_changed(talk, plan)
    seqs = tuple(node.seq for node in plan.nodes)
    text = talk.agent.harness.secrets.mask(summary.text)
    told = session.append(
        CompactSummary(
            summary=(Text(text),),
            shadowed_range=Range(seqs[0], seqs[-1]),
            shadowed_seqs=seqs,
            shadowed_token_count=plan.tokens,
            model=summary.model or "plugin",
            max_tokens=summary.max_tokens,
            usage=summary.usage,
            instruction=summary.instruction,
            level=summary.level,
            room=summary.room,
        )
    )
    message = UserMessage((Text(framed(text, plan.pinned)),), SOURCE)
    session.append(message, replace=Replace(seqs[0], seqs[-1]), sources=[start, told.seq, *seqs])
