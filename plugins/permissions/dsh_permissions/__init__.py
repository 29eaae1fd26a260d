"""Permissions: rules, modes and, where a person should say, an approval decide which tools run.

Every call is judged before it runs: a path by where it really leads, a command by everything that it would run.  A
rule that denies is final; what nobody decides, a person is asked about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import Ask, Deny, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall
    from dsh.checks import Checks
    from dsh.commands import Commands
    from dsh.conversation import StatusParts
    from dsh.decisions import ToolDecision
    from dsh.hooks import PluginManager
    from dsh.session.store import EventTypes


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``dsh permissions`` and ``/permissions``."""
    from .check import configure, run
    from .mode import slash
    from .verdict import MODES

    commands.add("permissions", "what may be done unasked: check a call, list the rules", run, configure)
    commands.add_slash("permissions", "[MODE]: the rules, and the mode; or another mode from now on", slash, MODES)


@hookimpl
def status_parts(agent: Agent, parts: StatusParts) -> None:
    """Show the mode."""
    from .guard import guard_of

    parts.add(guard_of(agent.harness).mode, order=-10)


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    """Offer `permission_ask`."""
    from .hooks import PermissionHooks

    manager.add_hookspecs(PermissionHooks)


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the events of approvals."""
    from .events import PermissionAsked, PermissionDecided, PermissionGranted, PermissionMode

    types.add(PermissionAsked)
    types.add(PermissionDecided)
    types.add(PermissionGranted)
    types.add(PermissionMode)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the rules, and say what is not in force."""
    from .approve import install
    from .guard import guard_of

    guard = guard_of(harness)
    install(harness, guard)
    if guard.mode == "bypass":
        harness.warn("permissions are bypassed: tools run unasked, but for what a rule denies")
    if guard.ignored:
        harness.warn(f"not in force, since the folder is not trusted: {'; '.join(guard.ignored)}")


@hookimpl(tryfirst=True)
def agent_prompt_submit(agent: Agent) -> None:
    """Log a switch of the mode that was made while no turn was open."""
    from .mode import note_switch

    note_switch(agent)


@hookimpl
async def dsh_doctor(harness: Harness, checks: Checks) -> None:
    """Try the grammar of commands, and say what is in force."""
    from .guard import guard_of

    guard_of(harness).check(checks)


@hookimpl
def agent_created(agent: Agent) -> None:
    """Go back to the first mode, and refuse rules that can match nothing, now that the tools are known."""
    from .guard import guard_of
    from .mode import back_to_first

    back_to_first(agent)
    guard = guard_of(agent.harness)
    if agent.parent is None and guard.rules.rules:
        for complaint in guard.check_names(agent):
            if complaint not in guard.said:
                guard.said.add(complaint)
                agent.harness.warn(complaint)


@hookimpl(
    canaries=[
        ("bash", {"command": "env -i dsh-canary x"}),  # which needs no grammar; dsh_doctor tries one that does
        ("write", {"file_path": "/tmp/../dsh-canary"}),
    ]
)
async def tools_pre_execute(agent: Agent | None, call: ToolCall) -> ToolDecision | None:
    """Judge the call."""
    from .guard import guard_of, load_grammar, only_guard

    guard = only_guard() if agent is None else guard_of(agent.harness)
    if guard is None:
        return Ask("nothing tells by which rules this call is to be judged")
    await load_grammar(call)
    verdict = guard.judge(agent, call)
    if verdict is None or verdict.kind == "allow":
        return None  # no objection, which is nothing to log with every call
    reason = verdict.reason.encode(errors="replace").decode()  # names of files need not be text
    return Ask(reason) if verdict.kind == "ask" else Deny(reason)
