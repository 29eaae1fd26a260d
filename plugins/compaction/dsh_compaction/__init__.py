"""Compaction: a conversation that outgrows the window of its model goes on, with a summary in place of its beginning.

Before each step the size of the next request is reckoned.  Near the window's limit old tool results are
shortened; where that does not do, the model is asked for a summary, which takes the place of everything
but the last messages.  The same happens when a provider says that a request was too long.

How to choose what is summarised, and who writes the summary, are hooks: `CompactionHooks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from dsh import hookimpl, hookspec

if TYPE_CHECKING:
    from dsh import Agent, Harness, NextStep
    from dsh.commands import Commands
    from dsh.hooks import PluginManager
    from dsh.hookspecs import Default
    from dsh.session.store import EventTypes

    from .config import CompactionConfig
    from .values import Cut, History, Shadowed, Summary

__all__ = ["CompactionHooks", "Cut", "History", "Shadowed", "Summary"]

_configs: WeakKeyDictionary[Harness, CompactionConfig] = WeakKeyDictionary()


def __getattr__(name: str) -> Any:
    if name in ("Cut", "History", "Shadowed", "Summary"):
        from . import values

        return getattr(values, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CompactionHooks(Protocol):
    """The hooks of this plugin; implementing one takes ``optionalhook=True``."""

    @hookspec(firstresult=True, answers=["dsh_compaction.values.Cut"])
    async def compaction_select(self, agent: Agent, history: History, *, default: Default[Cut] = None) -> Cut:
        """Asked when a conversation is to be summarised: how much of it.

        :param agent: whose conversation it is.
        :param history: its messages, what they weigh, and where it may be cut.
        :returns: `Cut`, with the first message that is kept; everything before it is summarised.

        Raising ends the turn with the error, and cancelling ends it as aborted; the conversation stays as it is.
        None leaves the answer to the next implementation, and at last to this plugin.
        """

    @hookspec(firstresult=True, answers=["dsh_compaction.values.Summary"])
    async def compaction_summarise(
        self, agent: Agent, shadowed: Shadowed, *, default: Default[Summary] = None
    ) -> Summary:
        """Asked for the summary of what is about to be replaced.

        :param agent: whose conversation it is.
        :param shadowed: the messages to replace, and the request that the default would send.
        :returns: the `Summary`; it has to be shorter than what it takes the place of.

        Raising ends the turn with the error, and cancelling ends it as aborted; the conversation stays as it is.
        None leaves the answer to the next implementation, and at last to this plugin, which asks the model.
        """


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    """Offer the hooks."""
    manager.add_hookspecs(CompactionHooks)


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``/compact``, which is also ``dsh sessions compact``."""

    async def compact(agent: Agent, text: str) -> str:
        from .compactor import compact_now

        return await compact_now(agent, text)

    commands.add_slash("compact", "[WHAT TO KEEP]: put a summary in the place of the conversation so far", compact)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the events."""
    from .events import CompactEnd, CompactPrune, CompactStart, CompactSummary

    types.add(CompactStart)
    types.add(CompactSummary)
    types.add(CompactEnd)
    types.add(CompactPrune)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[compaction]``."""
    from .config import CompactionConfig

    _configs[harness] = harness.config.section("compaction", CompactionConfig)


def config_of(harness: Harness) -> CompactionConfig:
    """The settings of a harness."""
    return _configs[harness]


@hookimpl(trylast=True)
async def agent_pre_step(agent: Agent, turn: int, system: str) -> None:
    """Make the next request fit, if it may not."""
    if not agent.session.has_header:
        return  # nothing was asked yet, and most programs ask once: they need not import what compacts
    from .compactor import before_step

    await before_step(agent, turn, system)


@hookimpl
def agent_request_error(agent: Agent, error: Exception) -> NextStep | None:
    """Have a request that was too long followed by a step that begins with compaction, if that can help."""
    if getattr(error, "code", None) != "CONTEXT_OVERFLOW":
        return None
    from .compactor import after_overflow

    return after_overflow(agent, error)
