"""What plugins own: agents that were made, and tasks that were started, in the name of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .agents import Agent
from .errors import AgentError, PluginError
from .hooks.relay import build
from .hooks.spec import did_you_mean
from .tasks import Tasks

if TYPE_CHECKING:
    from .harness import Harness

__all__ = ["Owned"]


class Owned:
    """Agents and tasks by the name of the plugin that owns them; whoever unloads it ends them."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._agents: dict[str, list[Agent]] = {}
        self._tasks: dict[str, Tasks] = {}

    def check(self, owner: str | None) -> None:
        """Refuse an owner that nobody could unload.

        Raises:
            AgentError: there is no such plugin.
        """
        if owner is not None and not self._harness.plugins.has_plugin(owner):
            names = [name for name, _ in self._harness.plugins.list_name_plugin()]
            raise AgentError(f"there is no plugin {owner!r} to own this{did_you_mean(owner, names)}")

    def add_agent(self, owner: str, agent: Agent) -> None:
        """Note that `owner` owns `agent`."""
        self._agents.setdefault(owner, []).append(agent)

    def forget(self, agent: Agent) -> None:
        """`agent` is gone."""
        for agents in self._agents.values():
            if agent in agents:
                agents.remove(agent)

    def start_soon(self, owner: str, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None) -> None:
        """Run `function` in a task of `owner`.

        Raises:
            AgentError: there is no such plugin.
        """
        self.check(owner)
        harness = self._harness
        if owner not in self._tasks:
            self._tasks[owner] = Tasks(harness.nursery, lambda exc: harness.warn_error(f"a task of {owner}", exc))
        self._tasks[owner].start_soon(function, *args, name=name)

    def agents_of(self, owner: str) -> list[Agent]:
        """The live agents of `owner`."""
        return list(self._agents.get(owner, ()))

    def __contains__(self, owner: str) -> bool:
        return bool(self._agents.get(owner)) or owner in self._tasks

    async def close(self, owner: str | None = None) -> None:
        """End the tasks of `owner`, or all, and wait for their end."""
        names = list(self._tasks) if owner is None else [owner]
        closing = [self._tasks.pop(name) for name in names if name in self._tasks]
        for tasks in closing:
            tasks.cancel()
        for tasks in closing:
            await tasks.close()

    def plugins_of(self, owner: str) -> list[str]:
        """`owner` and the plugins that it registered in its name, as ``owner.part``; itself last."""
        names = [name for name, _ in self._harness.plugins.list_name_plugin()]
        return [*(name for name in names if name.startswith(f"{owner}.")), owner]

    async def unconfigure(self, owner: str) -> None:
        """Await the ``dsh_unconfigure`` of `owner` and its parts alone."""
        plugins, names = self._harness.plugins, self.plugins_of(owner)
        own = [(impl, 0) for impl in plugins.implementations("dsh_unconfigure") if impl.plugin_name in names]
        await build(plugins.specs["dsh_unconfigure"], own, plugins.settings)(harness=self._harness)

    def refuse_guards(self, name: str) -> None:
        """Refuse to unload what the program may not run without.

        Raises:
            PluginError: there is no such plugin, it is required, or it offers to make agents.
        """
        from .config import GUARDS

        harness = self._harness
        if not harness.plugins.has_plugin(name):
            known = [known for known, _ in harness.plugins.list_name_plugin()]
            raise PluginError(f"there is no plugin {name!r} to unload{did_you_mean(name, known)}")
        if name.partition(".")[0] in (*GUARDS, *harness.config.plugins.required):
            raise PluginError(f"the plugin {name} is a required guard and cannot be unloaded while a program runs")
        if any(impl.plugin_name == name for impl in harness.plugins.implementations("agent_factory")):
            raise PluginError(f"the plugin {name} makes agents and cannot be unloaded while a program runs")
