"""One conversation, as compaction sees it: what it weighs, and how much of it may stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define, frozen

from dsh import StashKey, TokenUsage
from dsh.session.events import Header

from . import config_of
from .pins import gather
from .select import nodes_of
from .tokens import Estimate, Meter
from .values import History, Node, Reason

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["STATE", "Conversation", "Limits", "State"]

PINS = 0.2
"""The part of the window that what stays word for word may fill."""
LONG = 0.1
"""A result that fills this part of the window is long, whatever the settings say."""
ASK_FROM = 8000
"""Tokens from which on it is worth asking a service how large the window of its model is."""


@define
class State:
    """What is known of one session beside its log; losing it costs a try.

    Attributes:
        refused: the provider's error that the next step has to answer for.
        refusals: how many in a row, since the last answer.
        refused_at: how long the log was at the last.
        ceiling: a request of this weight was too long.
        resting: nothing is tried before the next request weighs so much.
        told: the person knows that nothing more can be done.
        failures: how often in a row a refused request could not be mended.
        wanted: a person asked for a summary, with what to keep in it.
    """

    meter: Meter
    refused: Exception | None = None
    refusals: int = 0
    refused_at: int = 0
    ceiling: int | None = None
    resting: int = 0
    told: bool = False
    failures: int = 0
    wanted: str | None = None


STATE: StashKey[State] = StashKey("compaction: state")


@frozen
class Limits:
    """Tokens: the model's window, from where on something is done, what is kept; None is unknown."""

    window: int | None
    threshold: int | None
    retain: int


class Conversation:
    """The conversation of one agent, up to now.

    Attributes:
        spent: what answers took that could not be used.
        asked: the model that gave them.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.session = agent.session
        self.config = config_of(agent.harness)
        state = self.session.stash.get(STATE, None)
        if state is None:
            state = self.session.stash[STATE] = State(Meter(Estimate(self.config.chars_per_token)))
            state.meter.begin(self.session)
        self.state = state
        self.meter = state.meter
        self.spent: TokenUsage | None = None
        self.asked: str | None = None
        self.meter.update(self.session)
        if state.ceiling is not None and self.meter.counted > state.ceiling:
            state.ceiling = None  # a longer request was answered

    def model(self, header: Header) -> str:
        """The conversation's model: the last one asked, or, after a resume, the one it is to go on with."""
        if self.meter.anchored:
            return header.config.model
        return self.agent.options.model or header.config.model

    async def limits(self, head: int, header: Header, *, refused: bool = False) -> Limits:
        """What the model takes, as far as that is known.

        Args:
            head: what stands before the conversation, in tokens.
            refused: a request of this conversation has just been refused for its length.
        """
        window, ceiling = self.config.context_window, self.state.ceiling
        if window is None:
            models, model = self.agent.harness.models, self.model(header)
            window = models.facts(model).context_window
            if window is None and self.meter.pressure(head) >= ASK_FROM:
                window = (await models.look_up(model, ask=True)).context_window
        if ceiling is not None:
            # In the long run a refusal, or the count that was made of it, may be wrong: what is known is half believed.
            window = ceiling if window is None else min(window, ceiling if refused else max(ceiling, window // 2))
        if window is None:
            return Limits(None, None, round(self.config.retain * self.meter.pressure(head)))
        threshold = int(window * self.config.threshold)
        answer = header.config.max_tokens
        if answer is not None:
            threshold = min(threshold, max(window - answer, window // 2))
        # Where system prompt and tools fill the window, less can be kept.
        room = max(threshold - round(head * self.meter.scale), 0)
        return Limits(window, threshold, min(int(window * self.config.retain), int(room * 0.4)))

    def history(self, limits: Limits, head: int, reason: Reason) -> History:
        """All of it, for those who choose."""
        nodes = nodes_of(self.session, self.meter.weights)
        # The model's tokens, in those that are reckoned.
        retain = round(limits.retain / self.meter.scale)
        return History(nodes, self.meter.pressure(head), limits.window, limits.threshold, retain, reason)

    def sizes(self, window: int | None) -> tuple[int, int, int]:
        """From how many characters on a result is long, and how many stay at its ends; fewer in a small window."""
        config = self.config
        room = math.inf if window is None else LONG * window * config.chars_per_token
        part = min(1.0, room / config.prune_over)
        head, tail = int(config.prune_head * part), int(config.prune_tail * part)
        return max(int(config.prune_over * part), head + tail + 200), head, tail

    def pinned(self, nodes: Sequence[Node], window: int | None) -> str:
        """What stays word for word when `nodes` are replaced; in a small window, less of it."""
        config, per_token = self.config, self.config.chars_per_token
        room = PINS * per_token * window if window is not None else math.inf
        limit = max(200, int(min(config.pin, room / 3)))
        pins = gather(self.session, [node.seq for node in nodes], limit, config.keep_context_of)
        return self.agent.harness.secrets.mask(pins.text(room))
