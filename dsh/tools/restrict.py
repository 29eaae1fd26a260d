"""Which of the tools that plugins offer an agent has: what its options say, and what plugins took away since.

Both are looked at whenever tools are shown to the model and again when one is called, so that a
call of a tool that was taken away is as unknown as one that never existed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..errors import AgentError, ConfigError
from ..hooks.spec import did_you_mean
from ..stash import StashKey
from .tool import Tool, Tools

if TYPE_CHECKING:
    from ..agents import Agent

__all__ = ["VisibleTools", "check_names", "restrict_tools", "tool_allowed"]


class _Restriction(NamedTuple):
    """Names that are left, and names that are taken away.

    Attributes:
        top: the highest layer of plugins that `allow` looks at; tools from above it stay.
    """

    allow: frozenset[str] | None
    deny: frozenset[str]
    top: int


_MADE: StashKey[list[_Restriction]] = StashKey("restrictions of tools")


def restrict_tools(
    agent: Agent, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None, lenient: bool = False
) -> Callable[[], None]:
    """Take tools away from `agent` and its children, from now on, also in a turn that runs.

    Several restrictions add up, and a child can only have fewer tools than its parent.  What is
    registered in the scope of `agent`, or of a child, was meant for that agent: `allow` leaves it alone.

    Args:
        allow: the names of the only tools that are left.
        deny: the names of tools that are taken away, whoever offers them.
        lenient: names that nobody offers are no mistake; what is offered later holds to them, too.

    Returns:
        what lifts this restriction again; calling it twice does no harm.

    Raises:
        ValueError: neither was given.
        ConfigError: there is no tool of a name, and not `lenient`; the message says which there are.
        AgentError: the agent is disposed.
        Exception: what an implementation of ``tools_register`` raised.
    """
    if allow is None and deny is None:
        raise ValueError("restrict_tools needs allow, deny, or both")
    if agent.status == "disposed":
        raise AgentError(f"cannot restrict the tools of agent {agent.id!r}: it is disposed", code="DISPOSED")
    made = _Restriction(None if allow is None else frozenset(allow), frozenset(deny or ()), agent.depth)
    if not lenient:
        tools = Tools()
        agent.hook.tools_register(agent=agent, tools=tools)
        check_names([*sorted(made.allow or ()), *sorted(made.deny)], tools.by_name())
    restrictions = agent.stash.setdefault(_MADE, [])
    restrictions.append(made)

    def lift() -> None:
        restrictions[:] = [other for other in restrictions if other is not made]

    return lift


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Complain about names of tools that nobody offers.

    Raises:
        ConfigError: there are some.
    """
    known = list(known)
    unknown = [f"{name!r}{did_you_mean(name, known)}" for name in names if name not in known]
    if unknown:
        raise ConfigError(f"there is no tool {', '.join(unknown)} (the tools are: {', '.join(known) or 'none'})")


def tool_allowed(agent: Agent, name: str, layer: int = 0) -> bool:
    """Whether `agent` has the tool `name`, if it is offered.

    Args:
        layer: of the plugin that offers it: 0 the program's, 1 in a root agent's scope, 2 in its child's.
    """
    return _left_by(_restrictions(agent), name, layer)


def _left_by(restrictions: Iterable[_Restriction], name: str, layer: int) -> bool:
    for restriction in restrictions:
        if name in restriction.deny:
            return False
        if restriction.allow is not None and layer <= restriction.top and name not in restriction.allow:
            return False
    return True


def _restrictions(agent: Agent) -> Iterator[_Restriction]:
    current: Agent | None = agent
    while current is not None:
        options = current.options
        if options.tools is not None or options.without_tools:
            only = None if options.tools is None else frozenset(options.tools)
            yield _Restriction(only, frozenset(options.without_tools), current.depth + 1)
        yield from current.stash.get(_MADE, ())
        current = current.parent


class VisibleTools(Mapping[str, Tool]):
    """The tools that an agent has at the moment, of those that were collected for it."""

    def __init__(self, agent: Agent, tools: Mapping[str, tuple[Tool, int]]) -> None:
        self._agent = agent
        self._tools = tools

    def __getitem__(self, name: str) -> Tool:
        tool, layer = self._tools[name]
        if not tool_allowed(self._agent, name, layer):
            raise KeyError(name)
        return tool

    def __iter__(self) -> Iterator[str]:
        return iter(self.now())

    def __len__(self) -> int:
        return len(self.now())

    def now(self) -> dict[str, Tool]:
        """All of them, as they are at the moment."""
        # With each step every tool is looked at, so what holds for all of them is gathered once.
        restrictions = tuple(_restrictions(self._agent))
        return {name: tool for name, (tool, layer) in self._tools.items() if _left_by(restrictions, name, layer)}

    def masked(self, name: str) -> bool:
        """Whether the agent may not have a tool of that name, whether or not there is one."""
        return name not in self and (name in self._tools or not tool_allowed(self._agent, name))
