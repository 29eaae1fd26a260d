"""Subagents: a model hands work to children of its own, in the foreground or behind it, and gets their results.

A child runs under its parent's plugins, gates, budget and working directory, and ends with it.

A plugin that runs children in a way of its own implements ``subagent_providers``; what a provider
is, `dsh_subagents.provider` says::

    @hookimpl(optionalhook=True)
    def subagent_providers(harness, providers):
        providers.add("remote", RemoteProvider())
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol, cast
from weakref import WeakKeyDictionary

from attrs import define

from dsh import PluginError, hookimpl, hookspec
from dsh.hooks.collector import Collector

if TYPE_CHECKING:
    from dsh import Agent, Block, Harness
    from dsh.agents import AgentStatus, StartSource
    from dsh.conversation import Jobs
    from dsh.decisions import ContinuationDecision
    from dsh.hooks import PluginManager
    from dsh.messages import MessageSource
    from dsh.session.store import EventTypes
    from dsh.tools.tool import Tools

    from .provider import ChildInfo, Outcome, Provider
    from .settings import SubagentsConfig
    from .tools import SubagentTools
    from .work import Subagents

__all__ = ["Providers", "SubagentHooks", "subagents_of"]


class Providers(Collector["tuple[str, Provider]"]):
    """The collector of ``subagent_providers``."""

    def add(self, name: str, provider: Provider, *, order: int = 0) -> None:
        """Have children run by `provider`.

        Args:
            name: what the log calls it; every name is taken once.
        """
        self.collect((name, provider), order)


class SubagentHooks(Protocol):
    """The hooks of this plugin."""

    @hookspec(collect="providers")
    def subagent_providers(self, harness: Harness, providers: Providers) -> None:
        """Called when a harness opens: who runs children.

        :param harness: the harness.
        :param providers: add providers to it.

        Raising discards the collection and keeps the harness from opening.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def subagent_start(self, agent: Agent, child: ChildInfo) -> None:
        """Called when a child is there, before it is asked anything.

        :param agent: its parent.
        :param child: who it is.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def subagent_end(self, agent: Agent, child: ChildInfo, outcome: Outcome) -> None:
        """Called when a child has ended and nothing of it is left running, however it ended.

        :param agent: its parent.
        :param child: who it was.
        :param outcome: what it came to.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """


@define(eq=False)
class _State:
    config: SubagentsConfig
    subagents: Subagents | None = None
    tools: SubagentTools | None = None


_states: WeakKeyDictionary[Harness, _State] = WeakKeyDictionary()


def subagents_of(harness: Harness) -> Subagents:
    """What hands work to children, for programs: `Subagents.run` and `Subagents.start`."""
    found = _states[harness].subagents
    assert found is not None, "the harness is not open"
    return found


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    manager.add_hookspecs(SubagentHooks)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    from .acp.events import AcpCall, AcpResult, AcpTool
    from .events import SubagentEnd, SubagentStart

    for kind in (AcpCall, AcpResult, AcpTool):
        types.add(kind)
    types.add(SubagentStart)
    types.add(SubagentEnd)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read ``[subagents]``."""
    from .settings import SubagentsConfig

    _states[harness] = _State(harness.config.section("subagents", SubagentsConfig))


@hookimpl(tryfirst=True)
async def agent_factory(harness: Harness) -> None:
    """Ask who runs children: every plugin is configured by now, and there are no agents yet."""
    from .tools import SubagentTools
    from .types import Types
    from .work import Subagents

    state, providers = _states[harness], Providers()
    cast("SubagentHooks", harness.hook).subagent_providers(harness=harness, providers=providers)
    found = dict(providers.unique(lambda offered: offered[0], "provider of subagents"))
    by_tool: dict[str, str] = {}
    for name, provider in found.items():
        if provider.tool is None:
            continue
        if provider.tool in by_tool:
            raise PluginError(
                f"two providers of subagents offer the tool {provider.tool!r}: {by_tool[provider.tool]} and {name}"
            )
        by_tool[provider.tool] = name
    state.subagents = Subagents(harness, state.config, found)
    state.tools = SubagentTools(state.subagents, Types(harness, state.config))


@hookimpl
def subagent_providers(harness: Harness, providers: Providers) -> None:
    """Children in this program, and agents of other programs, if the settings name some."""
    import sys

    from .inprocess import InProcess

    owner = harness.plugins.get_name(sys.modules[__name__])
    providers.add("spawn", InProcess(seeded=False, owner=owner))
    providers.add("fork", InProcess(seeded=True, owner=owner), order=1)
    agents = _states[harness].config.acp
    if agents:
        from .acp.provider import AcpProvider

        providers.add("acp", AcpProvider(agents, owner), order=2)


@hookimpl
def tools_register(agent: Agent, tools: Tools) -> None:
    """Offer the tools."""
    state = _states[agent.harness]
    offered = () if state.tools is None else state.tools.of(agent)
    if offered:
        tools.add(*offered)


@hookimpl
def agent_session_start(agent: Agent, source: StartSource) -> None:
    """Settle, in a resumed session, the children that ended with the program."""
    if source != "resume":
        return
    from .family import lost_children
    from .report import lost_notice

    lost = lost_children(agent)
    if not lost:
        return
    subagents_of(agent.harness).record(agent, lost_notice(lost))


@hookimpl
def agent_jobs(agent: Agent, jobs: Jobs) -> None:
    """What works behind a person's back."""
    from .family import family_if_any

    family = family_if_any(agent)
    for running in () if family is None else family.background():
        jobs.add(running.info.id, running.info.description)


@hookimpl
def agent_queued(agent: Agent, source: MessageSource, steering: bool) -> None:
    """Have a turn that waits for children hear what is sent to it."""
    from .family import family_if_any

    family = family_if_any(agent)
    if family is None:
        return
    if source.kind == "user":
        family.wakes = 0
    if steering:
        family.told = True
        family.news.set()


@hookimpl
def agent_status(agent: Agent, status: AgentStatus) -> None:
    """The turn that children wanted begins."""
    from .family import family_if_any

    family = family_if_any(agent)
    if family is not None and status == "running":
        family.waking = False


@hookimpl
def agent_prompt_submit(agent: Agent, content: tuple[Block, ...]) -> None:
    """Log, now that a turn is open, the starts and ends that came while none was.  No opinion about the prompt."""
    from .family import family_if_any

    if family_if_any(agent) is not None:
        subagents_of(agent.harness).settle_owed(agent)


@hookimpl(tryfirst=True)
async def agent_pre_step(agent: Agent) -> None:
    """What was sent until now is in the request to come."""
    from .family import family_if_any

    family = family_if_any(agent)
    if family is not None:
        family.told = False


@hookimpl(wrapper=True, tryfirst=True)
async def agent_turn_continuation(agent: Agent) -> AsyncGenerator[ContinuationDecision | None, ContinuationDecision]:
    """Wait for children in the background, where nobody would hear of them later."""
    from dsh import Continue, Stop

    from .family import family_if_any

    decision = yield None
    waits = agent.options.one_turn and family_if_any(agent) is not None and isinstance(decision, Stop)
    if waits and await subagents_of(agent.harness).wait_for_news(agent):
        decision = Continue()
    yield decision


@hookimpl
def agent_cancel(agent: Agent) -> None:
    """A cancel reaches the children in the background, too: whoever runs them, and whether or not a turn runs."""
    from .family import family_if_any

    if family_if_any(agent) is not None:
        subagents_of(agent.harness).cancel_background(agent)


@hookimpl
async def agent_settle(agent: Agent) -> None:
    """Whatever aborted the turn: it has ended when they have."""
    from .family import family_if_any

    if family_if_any(agent) is not None:
        await subagents_of(agent.harness).end_background(agent)
