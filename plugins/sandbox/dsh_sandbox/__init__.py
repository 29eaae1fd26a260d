"""A sandbox around the processes that dsh starts: commands write in the workspace only, reach no network and
read no credentials.

bubblewrap does it where it works, or else Landlock.  Nothing is tried before the first command.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dsh import Deny, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, Process, ToolCall, ToolResult
    from dsh.checks import Checks
    from dsh.commands import Commands
    from dsh.decisions import ToolDecision
    from dsh.hooks import PluginManager
    from dsh.prompt import Sections
    from dsh.session.store import EventTypes

    from .box import Sandbox


class _Guard:
    """What stands before every process of one harness."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box

    @hookimpl(wrapper=True, tryfirst=True)
    async def process_prepare(self, agent: Agent | None, process: Process) -> AsyncGenerator[Process | None, Process]:
        """Confine what the others made of it."""
        prepared = yield None
        yield await self._box.confine(agent, prepared)

    @hookimpl(wrapper=True)
    def tools_pre_execute(self, call: ToolCall) -> Generator[None, ToolDecision, ToolDecision]:
        """Ask a person about a command outside, whatever else is asked about it: that is what he must know."""
        verdict = yield
        if call.arguments.get("sandbox") is None:
            return verdict
        from .outside import asked

        return asked(self._box, call, verdict)


_sandboxes: WeakKeyDictionary[Harness, Sandbox] = WeakKeyDictionary()


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    """Offer the plugin's own hooks."""
    from .hooks import SandboxHooks

    manager.add_hookspecs(SandboxHooks)


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``dsh sandbox``."""
    from .commands import configure, run

    commands.add("sandbox", "what the sandbox can do here, and a command in it", run, configure)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import SandboxExempt

    types.add(SandboxExempt)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read ``[sandbox]``."""
    from .box import Sandbox
    from .config import SandboxConfig

    box = _sandboxes[harness] = Sandbox(harness, harness.config.section("sandbox", SandboxConfig))
    # Of a process that is no agent's the hook does not tell whose it is, and so each harness has a guard of its own.
    harness.plugins.register(_Guard(box), "sandbox.guard")


@hookimpl(tryfirst=True)
async def agent_factory(harness: Harness) -> None:
    """Learn the mode that holds where the settings name none: here is the first chance to ask, before any agent."""
    from .outside import learn_default

    await learn_default(_sandboxes[harness])


@hookimpl
async def dsh_doctor(harness: Harness, checks: Checks) -> None:
    """Try the backends, and say what they cover."""
    from .commands import check

    await check(_sandboxes[harness], checks)


@hookimpl
async def dsh_unconfigure(harness: Harness) -> None:
    """Delete the commands' temporary files."""
    sandbox = _sandboxes.pop(harness, None)
    if sandbox is not None:
        import trio

        await trio.to_thread.run_sync(sandbox.close)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Tell the model what the sandbox forbids."""
    from .outside import section

    sections.add("sandbox", section(_sandboxes[agent.harness], agent), order=106)


@hookimpl(canaries=[("bash", {"command": "true", "sandbox": "outside"})])
def tools_pre_execute(agent: Agent | None, call: ToolCall) -> Deny | None:
    """Deny a command outside where none may be had, or where it is not justified."""
    if call.arguments.get("sandbox") is None:
        return None
    from .outside import denied

    return denied(None if agent is None else _sandboxes[agent.harness], call)


@hookimpl(optionalhook=True)
def shell_parameters(agent: Agent, parameters: Any) -> None:
    """Let the model ask for one command outside, where there is an inside."""
    from .outside import add_parameters

    add_parameters(_sandboxes[agent.harness], agent, parameters)


@hookimpl
def agent_disposed(agent: Agent) -> None:
    """Delete the temporary files of an agent's commands."""
    box = _sandboxes.get(agent.harness)
    if box is not None and agent.parent is None:
        box.forget(agent)


@hookimpl(wrapper=True)
def tools_execute(call: ToolCall) -> Generator[None, ToolResult, ToolResult]:
    """Let the one call out that was let out."""
    if call.name != "bash" or call.arguments.get("sandbox") != "outside":
        return (yield)
    from .box import OUTSIDE

    token = OUTSIDE.set(True)
    try:
        return (yield)
    finally:
        OUTSIDE.reset(token)
