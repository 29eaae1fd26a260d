"""Canaries: calls that a guard must deny, tried before it is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve

from .decisions import Deny
from .errors import PluginError
from .hooks.markers import impl_options
from .hooks.relay import build
from .tools.tool import ToolCall, Tools

if TYPE_CHECKING:
    from pluggy import HookImpl

    from .agents import Agent
    from .harness import Harness

__all__ = ["run_canaries"]

GATE = "tools_pre_execute"


async def run_canaries(harness: Harness) -> int:
    """Ask every guard that names canaries about each of them, alone, for a throwaway agent.

    Returns:
        how many canaries were tried.

    Raises:
        PluginError: a guard did not deny; it cannot be trusted.

    Cancelling ends the throwaway agent.
    """
    guards = [impl for impl in harness.plugins.implementations(GATE) if impl_options(impl.function).canaries]
    if not guards:
        return 0
    handle = harness.create_unstored("canary")
    tried = 0
    try:
        for impl in guards:
            for name, arguments in impl_options(impl.function).canaries:
                await _try(harness, handle.agent, impl, name, arguments)
                tried += 1
    finally:
        await handle.dispose()
    return tried


async def _try(harness: Harness, agent: Agent, impl: HookImpl, name: str, arguments: Mapping[str, Any]) -> None:
    # A first call imports what it needs, and is slow for that alone.
    settings = evolve(harness.plugins.settings, on_slow=None)
    alone = build(harness.plugins.specs[GATE], [(impl, 0)], settings)
    verdict = await alone(agent=agent, call=ToolCall("canary", name, arguments, agent))
    if not isinstance(verdict, Deny) or verdict.reason.startswith(f"the plugin {impl.plugin_name} "):
        tools = Tools()
        agent.hook.tools_register(agent=agent, tools=tools)
        tools.by_name()  # raises, if it is for the tools that a guard cannot judge
        raise PluginError(
            f"the guard {impl.plugin_name} does not work: it should deny {name} with {dict(arguments)}, "
            f"and answered {verdict!r}; fix it, or run without it (--no-plugin {impl.plugin_name})"
        )
