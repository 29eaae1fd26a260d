"""What is known of an agent's children: those at work, those that have ended, and what the log has to say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from attrs import define, field

from dsh import Agent, StashKey
from dsh.session.events import Event

from .events import LOST, SubagentEnd, SubagentStart
from .provider import Child, ChildInfo

if TYPE_CHECKING:
    from dsh.session import Session

__all__ = ["Family", "Running", "alive_below", "family_if_any", "family_of", "lost_children", "root_of"]

REMEMBERED = 100
"""How many children that have ended an agent can still ask about."""
_LINKS = b'{"type":"subagent/'


@define(eq=False)
class Running:
    """A child at work.

    Attributes:
        child: None until it is there.
        scope: cancelled to end it.
        stopped: its parent's model wanted it stopped.
        mark: up to where its parent has read what it does.
        quiet: it was cancelled with its parent, which is not asked because of it, not even if it had finished already.
        logged: its start is in its parent's log.
        opened: it is there, or will never be.
        done: it has ended.
        failure: why it never was there.
    """

    info: ChildInfo
    child: Child | None = None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    stopped: bool = False
    mark: int = 0
    quiet: bool = False
    logged: bool = False
    opened: trio.Event = field(factory=trio.Event)
    done: trio.Event = field(factory=trio.Event)
    failure: str | None = None


@define(eq=False)
class Family:
    """The children of one agent.

    Attributes:
        number: of the last child.
        live: at work, by id.
        ended: how children ended, by id, without what they said.
        owed: starts and ends that are not in the log yet, since nothing may stand outside of a turn.
        news: set when a child in the background has ended or somebody sends the agent a message.
        told: a message came since the turn last looked.
        wakes: how often in a row children had an idle agent's model asked.
        waking: one has it asked now, and the turn has not begun.
    """

    number: int = 0
    live: dict[str, Running] = field(factory=dict)
    ended: dict[str, tuple[ChildInfo, str]] = field(factory=dict)
    owed: list[SubagentStart | SubagentEnd] = field(factory=list)
    news: trio.Event = field(factory=trio.Event)
    told: bool = False
    wakes: int = 0
    waking: bool = False

    def next_id(self) -> str:
        """An id that no child of this agent has had."""
        self.number += 1
        return f"subagent-{self.number}"

    def remember(self, info: ChildInfo, reason: str) -> None:
        """Note how a child ended."""
        self.live.pop(info.id, None)
        self.ended[info.id] = (info, reason)
        while len(self.ended) > REMEMBERED:
            del self.ended[next(iter(self.ended))]

    def background(self) -> list[Running]:
        """Those at work in the background."""
        return [running for running in self.live.values() if running.info.background]


_FAMILY: StashKey[Family] = StashKey("subagents: children")
_ALIVE: StashKey[set[Running]] = StashKey("subagents: at work below a root")


def family_of(agent: Agent) -> Family:
    """The children of `agent`."""
    if _FAMILY not in agent.stash:
        family = Family()
        # A log that begins with another's begins with the names of that one's children.
        for event in _links(agent.session, agent.session.header.seed_length or 0):
            if isinstance(event.data, SubagentStart):
                family.number = max(family.number, _number(event.data.id))
        agent.stash[_FAMILY] = family
    return agent.stash[_FAMILY]


def family_if_any(agent: Agent) -> Family | None:
    """The children of `agent`, if it ever had some."""
    return agent.stash.get(_FAMILY, None)


def root_of(agent: Agent) -> Agent:
    """The agent at the top."""
    while agent.parent is not None:
        agent = agent.parent
    return agent


def alive_below(root: Agent) -> set[Running]:
    """All children at work below a root agent, however deep."""
    return root.stash.setdefault(_ALIVE, set())


def lost_children(agent: Agent) -> list[ChildInfo]:
    """Take up what the log of a resumed agent says of its children; those in the background that are gone unheard."""
    session = agent.session
    family, open_ones = family_of(agent), dict[str, ChildInfo]()
    own = session.header.seed_length or 0
    for event in _links(session, len(session.events)):
        data = event.data
        if isinstance(data, SubagentStart):
            family.number = max(family.number, _number(data.id))
        if event.seq < own:
            continue
        if isinstance(data, SubagentStart):
            open_ones[data.id] = ChildInfo(
                data.id,
                data.provider,
                data.description,
                data.session_id,
                data.agent_type,
                data.background,
                data.call_id,
            )
        elif isinstance(data, SubagentEnd) and data.id in open_ones:
            info = open_ones[data.id]
            if not (info.background and data.reason == "disposed"):
                family.remember(open_ones.pop(data.id), data.reason)
    lost = [info for info in open_ones.values() if info.background]
    for info in open_ones.values():
        family.remember(info, LOST)
        family.owed.append(SubagentEnd(info.id, LOST, info.session_id, background=info.background))
    return lost


def _links(session: Session, length: int) -> Iterator[Event]:
    """The events about children among the first `length`; nothing else is decoded."""
    events = session.events
    return (events[seq] for seq in range(length) if events.line(seq).startswith(_LINKS))


def _number(id: str) -> int:
    number = id.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
