"""Old results, shortened where they stand; a cheap way to make room, used seldom and then for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from dsh.session import Event
from dsh.session.events import Replace, ToolResult

from .events import CompactPrune
from .prune import shorter_result
from .select import newest
from .state import Conversation, Limits

__all__ = ["giants", "old", "prune", "shorten"]

ENOUGH = 0.8
"""Shortening is enough, if the next request then weighs less than this part of the threshold."""


def old(talk: Conversation, limits: Limits) -> list[Event]:
    """Long results before the newest messages."""
    history = talk.history(limits, 0, "pressure")
    cut = newest(history).before
    if cut is None:
        return []
    found = []
    for node in history.nodes:
        if node.seq == cut:
            break
        event = talk.session.events[node.seq]
        if _shorter(talk, event, limits) is not None:
            found.append(event)
    return found


def giants(talk: Conversation, limits: Limits) -> list[Event]:
    """Results that alone weigh more than all that is to be kept, wherever they stand."""
    per_token, weights = talk.config.chars_per_token, talk.meter.weights
    least = max(limits.retain, 2 * talk.sizes(limits.window)[0] / per_token)
    events = [talk.session.events[seq] for seq, tokens in weights.items() if tokens > least]
    return [event for event in events if _shorter(talk, event, limits) is not None]


def prune(talk: Conversation, limits: Limits, head: int) -> bool:
    """Shorten all old results at once, if the next request is small enough then; whether that was done."""
    if not talk.config.prune or limits.threshold is None:
        return False
    events = old(talk, limits)
    saved = 0
    for event in events:
        shorter = evolve(event, data=_shorter(talk, event, limits))
        saved += talk.meter.weights[event.seq] - talk.meter.estimate.event(shorter)
    left = talk.meter.pressure(head) - round(saved * talk.meter.scale)
    return left < limits.threshold * ENOUGH and shorten(talk, events, limits)


def shorten(talk: Conversation, events: Sequence[Event], limits: Limits) -> bool:
    """Put shortened results in the place of long ones; whether there were any."""
    done: list[int] = []
    before, turn = talk.meter.total, talk.session.open_turn
    try:
        for event in {event.seq: event for event in events}.values():
            shorter = _shorter(talk, event, limits)
            if shorter is not None:
                talk.session.append(shorter, replace=Replace(event.seq, event.seq), sources=[event.seq])
                done.append(event.seq)
    finally:
        talk.meter.update(talk.session)
    if done and turn is not None:
        talk.session.append(CompactPrune(turn, tuple(done), before - talk.meter.total))
    return bool(done)


def _shorter(talk: Conversation, event: Event, limits: Limits) -> ToolResult | None:
    return shorter_result(event, *talk.sizes(limits.window))
