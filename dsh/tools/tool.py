"""Tools, calls and results: the values that the pipeline and its hooks pass around."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from ..errors import PluginError
from ..hooks import Collector, refuse_other
from ..jsonvalue import Json, freeze
from ..messages import Block, BlockLike, ToolSchema, blocks

if TYPE_CHECKING:
    from ..agents import Agent
    from .views import CallView, ResultView

__all__ = ["Effect", "Tool", "ToolCall", "ToolErrorInfo", "ToolOutput", "ToolResult", "Tools"]


Effect: TypeAlias = Literal["none", "read", "write", "execute", "fetch"]
"""What a tool touches: nothing outside of the session, files it reads or writes, a shell, the network."""


@frozen
class ToolErrorInfo:
    """What went wrong, for programs: the error's class name and code."""

    name: str
    code: str


@frozen(eq=False)
class ToolCall:
    """One call on its way through the pipeline.

    Attributes:
        id: the call's id, unique in the session.
        name: the tool's name, as the model wrote it.
        arguments: the parsed arguments, a JSON object that cannot be changed.
        agent: who calls; None for a call made outside of any agent.
        turn, step: where in the log the call stands; 0 outside of a turn.
        tool: the agent's tool of that name; None where it has none, or where nobody looked.
        missing: what the model is told where somebody looked and the agent has no such tool.
    """

    id: str
    name: str
    arguments: Mapping[str, Json] = field(converter=freeze)
    agent: Agent | None = None
    turn: int = 0
    step: int = 0
    tool: Tool | None = field(default=None, repr=False)
    missing: str | None = field(default=None, repr=False)


def _meta(value: Json) -> Json:
    return None if value is None else freeze(value)


@frozen
class ToolResult:
    """What a call came to.

    Attributes:
        content: what the model reads.
        is_error: the call failed.
        error: name and code of the failure, where it has them.
        meta: JSON for user interfaces and plugins; it is logged and never reaches the model.
    """

    content: tuple[Block, ...] = field(converter=blocks)
    is_error: bool = False
    error: ToolErrorInfo | None = None
    meta: Json = field(default=None, converter=_meta)


ToolOutput: TypeAlias = "BlockLike | ToolResult"
"""What a tool may return: a string, blocks, or a whole result."""


@frozen(eq=False)
class Tool:
    """A tool that the model can call.  Most are made by the decorator `dsh.tool`.

    Attributes:
        name: what the model calls it by: letters, digits, ``_`` and ``-``, at most 64.
        description: what the model reads of it.
        parameters: a JSON schema of type object.
        execute: called with the arguments, already checked against `parameters`, and the call;
            may be ``async``.  What it raises becomes an error result.  A cancelled turn cancels it.
        parallel: safe to run beside other calls of the same step.
        present_call, present_result: how a user interface shows a call and its result; pure
            functions that get unchecked arguments and answer None where they cannot tell.
        effect: what calling it touches, for those who judge calls; None: not said, so that a careful judge asks.
        subject: the name of the argument that says what is touched: the path, the command, the address.
        check: called with checked arguments and the call before a person is asked about it, and raises what
            `execute` would raise as things stand, so that nobody says yes to what then fails.  It looks at little,
            waits for nothing and changes nothing.
    """

    name: str
    description: str
    parameters: Mapping[str, Json] = field(converter=freeze)
    execute: Callable[[Mapping[str, Json], ToolCall], ToolOutput | Awaitable[ToolOutput]]
    parallel: bool = False
    present_call: Callable[[Mapping[str, Any]], CallView | None] | None = None
    present_result: Callable[[Mapping[str, Any], ToolResult], ResultView | None] | None = None
    effect: Effect | None = None
    subject: str | None = None
    check: Callable[[Mapping[str, Json], ToolCall], None] | None = None
    schema: ToolSchema = field(init=False)

    @schema.default
    def _schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, self.parameters)


class Tools(Collector[Tool]):
    """The collector of ``tools_register``."""

    def add(self, tool: Tool, *more: Tool, order: int = 0) -> None:
        """Offer tools to the agent.  Of several with one name an agent's own scope wins; two in one
        scope are an error.

        Raises:
            PluginError: one is no `Tool`; the decorator `dsh.tool` makes one of a function.
        """
        for item in (tool, *more):
            if inspect.isfunction(item):
                whose = f" of the plugin {self.plugin}" if self.plugin else ""
                raise PluginError(
                    f"tools.add takes a Tool, not the function {item.__name__}{whose}: mark it with @tool, of dsh"
                )
            refuse_other("tools.add", item, Tool)
            self.collect(item, order)

    def by_name(self) -> dict[str, Tool]:
        """The tools, sorted by name.

        Raises:
            PluginError: two plugins of one scope add a tool of the same name.
        """
        return {name: tool for name, (tool, _) in self.layered_by_name().items()}

    def layered_by_name(self) -> dict[str, tuple[Tool, int]]:
        """Like `by_name`, each tool with the layer of the plugin that offers it; 0 is the program's."""
        tools = self.layered(lambda tool: tool.name, "tool")
        return {tool.name: (tool, layer) for tool, layer in sorted(tools, key=lambda pair: pair[0].name)}


def result_of(output: Any) -> ToolResult:
    """A tool's return value as a result."""
    if isinstance(output, ToolResult):
        return output
    if output is None:
        return ToolResult(())
    if isinstance(output, str | Iterable):
        return ToolResult(output)
    return ToolResult(blocks(output))
