"""A guard of the prompt's prefix: whatever makes a request begin otherwise than the one before it, is named.

A provider keeps what it has read of a conversation, and reads it for a fraction of the price as long as the next
request begins with the very same bytes.  This plugin compares them, and logs a `PrefixChanged` that says which
part changed, where, and which plugin's doing it was.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, Request
    from dsh.llm.chunks import ChunkStream
    from dsh.prompt import Assembly, Prefix, Sections, Variables
    from dsh.session.store import EventTypes
    from dsh.tools.tool import Tools

    from .pieces import Segment
    from .watch import PrefixConfig, Watch

__all__ = ["segments"]

_configs: WeakKeyDictionary[Harness, PrefixConfig] = WeakKeyDictionary()


def segments(agent: Agent) -> list[Segment]:
    """The segments of an agent's last request in the order in which they were sent, with the plugins behind them.

    Each has its canonical text and the text's hash; there are none before the first request.
    """
    from .watch import segments

    return segments(agent)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import PrefixChanged

    types.add(PrefixChanged)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[prefix]``."""
    from .watch import PrefixConfig

    _configs[harness] = harness.config.section("prefix", PrefixConfig)


# What the collectors hold is looked at only when something changed: keeping them costs nothing.


@hookimpl
def prompt_variables(agent: Agent, variables: Variables) -> None:
    """Begin a step's parts; the variables are asked for first."""
    from .watch import Parts

    watch = _watch(agent)
    watch.parts = Parts(variables=variables)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Keep who gives which section."""
    _watch(agent).parts.sections = sections


@hookimpl
def tools_register(agent: Agent, tools: Tools) -> None:
    """Keep who gives which tool."""
    _watch(agent).parts.tools = tools


@hookimpl
def agent_session_prefix(agent: Agent, prefix: Prefix) -> None:
    """Keep who gives which message."""
    _watch(agent).prefix = prefix


@hookimpl(wrapper=True, tryfirst=True)
def prompt_assemble(agent: Agent) -> Generator[None, Assembly, Assembly]:
    """Keep what the system prompt is rendered from."""
    assembly = yield
    _watch(agent).parts.assembly = assembly
    return assembly


@hookimpl(wrapper=True, tryfirst=True)
def llm_stream(agent: Agent | None, request: Request) -> Generator[None, ChunkStream, ChunkStream]:
    """Compare a step's request with the one before it; other requests, such as for a summary, are left alone."""
    if agent is not None and agent.session.open_step is not None:
        _watch(agent).check(agent, request)
    return (yield)


def _watch(agent: Agent) -> Watch:
    from .watch import WATCH, Watch

    watch: Watch | None = agent.stash.get(WATCH, None)
    if watch is None:
        watch = agent.stash[WATCH] = Watch(_configs[agent.harness])
    return watch
