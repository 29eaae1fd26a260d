"""When a conversation is compacted, and what is tried in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from dsh import LlmError, NextStep
from dsh.session.events import Header

from .replace import by_hand, last_header, planned, summarise, worth
from .results import giants, old, prune, shorten
from .select import newest
from .state import Conversation, Limits
from .values import CompactionError, Reason

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["after_overflow", "before_step", "compact_now"]

REST = 0.05
"""The part of the window that a conversation has to grow by until something is tried again that did not help."""
MUCH = 0.7
"""Shortened results are enough for a refused request, if the conversation then weighs less than this part of it."""
MOST_FAILURES = 2
"""How often in a row a refused request may find no way out, until the next one is not tried to be mended."""


async def before_step(agent: Agent, turn: int, system: str) -> None:
    """Do what is due before a request.

    Raises:
        CompactionError: the last request was refused for its length, and nothing can be done about it.
    """
    talk = Conversation(agent)
    state, header = talk.state, talk.session.request_header()
    refused, state.refused = state.refused, None
    if header is None:
        return
    head = talk.meter.head(talk.session)
    if system != (header.system or ""):
        head += talk.meter.estimate.text(system) - talk.meter.estimate.text(header.system or "")
    if refused is not None:
        await _mend(talk, turn, head, header, refused)
    elif state.wanted is not None:
        more, state.wanted = state.wanted, None
        limits = evolve(await talk.limits(head, header), retain=0)
        await _tried(talk, turn, limits, head, "manual", more)
    elif talk.config.enabled:
        await _relieve(talk, turn, head, header)


def after_overflow(agent: Agent, error: Exception) -> NextStep | None:
    """Whether a refused request is to be followed by another step; if not, a note on the error says why."""
    talk = Conversation(agent)
    state, config = talk.state, talk.config
    if not config.enabled:
        error.add_note("compaction is off: compaction.enabled is false; `dsh sessions compact ID` works all the same")
        return None
    if talk.meter.last_answer > state.refused_at:
        state.refusals = 0
    state.refused_at = len(talk.session.events)
    if state.failures >= MOST_FAILURES:
        error.add_note(
            "compaction has failed before in this conversation and is not tried again; "
            "go on in a new session, or name a model with a larger window"
        )
        return None
    if state.refusals >= config.overflows:
        state.failures += 1
        error.add_note(
            f"compaction made the conversation shorter {state.refusals} times, which was not enough; "
            "go on in a new session, or name a model with a larger window"
        )
        return None
    if not _can_shorten(talk):
        error.add_note(
            "compaction finds nothing in the conversation that could be summarised; "
            "ask for less at once, use fewer tools, or name a model with a larger window"
        )
        return None
    pressure = talk.meter.pressure(talk.meter.head(talk.session))
    state.ceiling = pressure if state.ceiling is None else min(state.ceiling, pressure)
    state.refusals += 1
    state.refused = error
    return NextStep()


async def _relieve(talk: Conversation, turn: int, head: int, header: Header) -> None:
    """Compact if the next request is near the limit; a failure costs no more than a warning."""
    state, pressure = talk.state, talk.meter.pressure(head)
    if pressure < state.resting:
        return
    limits = await talk.limits(head, header)
    if limits.threshold is None or limits.window is None or pressure < limits.threshold:
        return
    state.resting = pressure + round(limits.window * REST)
    if prune(talk, limits, head):
        _rest(talk, head, limits)
        return
    done = await _tried(talk, turn, limits, head, "pressure")
    if talk.meter.pressure(head) >= limits.threshold and talk.config.prune:
        # What is left at the end may be one giant of a result; and without a summary, everything helps.
        long = giants(talk, limits) if done else [*old(talk, limits), *giants(talk, limits)]
        done = shorten(talk, long, limits) or done
    if done:
        _rest(talk, head, limits)
    elif done is not None and not state.told:
        state.told = True
        talk.agent.harness.warn(
            f"compaction: the next request takes about {pressure} of {limits.window} tokens, and nothing of the "
            "conversation can be summarised; system prompt and tools may be what is large"
        )


def _rest(talk: Conversation, head: int, limits: Limits) -> None:
    """Something was done: look again when it is due, but not at every step."""
    pressure = talk.meter.pressure(head)
    over = limits.threshold is not None and pressure >= limits.threshold
    talk.state.resting = pressure + round((limits.window or 0) * REST) if over else 0
    talk.state.failures = 0


async def _mend(talk: Conversation, turn: int, head: int, header: Header, refused: Exception) -> None:
    """A request was refused for its length: make the next one shorter, or say that it cannot be done."""
    state, before = talk.state, talk.meter.total
    limits = await talk.limits(head, header, refused=True)
    limits = evolve(limits, retain=limits.retain // 4)
    if talk.config.prune:
        shorten(talk, [*old(talk, limits), *giants(talk, limits)], limits)
    problem = "nothing of it can be summarised"
    if talk.meter.total > before * MUCH:
        try:
            await summarise(talk, turn, limits, head, "overflow")
        except (CompactionError, LlmError) as error:
            problem = str(error)
    if talk.meter.total < before:
        state.resting = state.failures = 0
        return
    state.failures += 1
    raise CompactionError(
        f"the provider refused a request for its length ({refused}), and compaction could not shorten the "
        f"conversation: {problem}. Go on in a new session, or name a model with a larger window",
        code="CONTEXT_OVERFLOW",
    ) from refused


async def _tried(
    talk: Conversation, turn: int, limits: Limits, head: int, reason: Reason, more: str = ""
) -> bool | None:
    """Summarise where the turn can go on without; None if it failed, which is a warning then."""
    try:
        return await summarise(talk, turn, limits, head, reason, more)
    except (CompactionError, LlmError) as error:
        talk.agent.harness.warn(f"compaction: the conversation was not summarised: {error}")
        return None


def _can_shorten(talk: Conversation) -> bool:
    """Whether anything at all could be done about a request that is too long."""
    limits = Limits(None, None, 0)
    if talk.config.prune and (old(talk, limits) or giants(talk, limits)):
        return True
    history = talk.history(limits, 0, "overflow")
    return worth(talk, planned(talk, history, newest(history)))


async def compact_now(agent: Agent, text: str) -> str:
    """What ``/compact`` does.

    Args:
        text: what to keep, in a person's words; may be empty.

    Returns:
        what was done, for the person.

    Raises:
        CompactionError, LlmError: there is no summary; nothing has changed.
        AgentError: the agent began to work meanwhile; nothing has changed.
    """
    talk = Conversation(agent)
    if agent.status == "running":
        talk.state.wanted = text.strip()
        return "the conversation will be summarised before the next request"
    header, before = last_header(talk), talk.meter.total
    head = talk.meter.head(talk.session)
    limits = evolve(await talk.limits(head, header), retain=0)
    plan = await by_hand(talk, limits, head, text.strip())
    if plan is None:
        return "there is nothing worth summarising yet"
    talk.state.refusals = talk.state.failures = talk.state.resting = 0
    many = f"{plan.count} message{'' if plan.count == 1 else 's'}"
    return f"summarised {many}: about {before} tokens have become {talk.meter.total}"
