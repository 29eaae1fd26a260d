"""stderr: what happens while the answer is awaited, a short line a thing."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..jsonvalue import dumps, loads
from ..messages import text_of
from ..session.events import AssistantMessage, Event, HookDecision, PromptBlocked, Replace, ToolCall, ToolResult
from . import clean

if TYPE_CHECKING:
    from ..agents import Agent
    from ..tools.tool import Tool

__all__ = ["Progress", "one_line", "size_of", "summary_of"]

WIDTH = 100
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Progress:
    """Prints events.

    Args:
        level: 0 nothing, 1 calls, results and what the model says in between, 2 what tools answer.
    """

    def __init__(self, level: int) -> None:
        self._level = level
        self._calls: dict[tuple[str, str], tuple[str, int]] = {}
        self._tools: dict[str, Tool] = {}

    def event(self, session_id: str, event: Event, agent: Agent | None, depth: int = 0) -> None:
        """Print `event`, if it is one to print.  Never raises."""
        if self._level < 1:
            return
        data = event.data
        lines: list[str] = []
        if isinstance(event.surface_op, Replace):
            return  # what it stands for was told when it came
        if isinstance(data, ToolCall):
            self._calls[session_id, data.call_id] = (one_line(data.name), event.time)
            lines = [f"[{one_line(data.name)}] {self._title(agent, data)}"]
        elif isinstance(data, ToolResult):
            name, since = self._calls.pop((session_id, data.call_id), ("tool", event.time))
            lines = [f"[{name}] {_outcome(data, event.time - since)}"]
            if self._level > 1:
                lines += [f"  | {one_line(line)}" for line in text_of(data.content).splitlines()[:20]]
        elif isinstance(data, AssistantMessage) and any(block.type == "tool-call" for block in data.content):
            lines = [f"  {one_line(line)}" for line in text_of(data.content).strip().splitlines()[:6]]
        elif isinstance(data, PromptBlocked):
            lines = [f"blocked: {one_line(data.reason)}"]
        elif isinstance(notice := getattr(data, "notice", None), str):
            lines = [one_line(notice)]
        elif self._level > 1 and isinstance(data, HookDecision):
            lines = [
                f"({data.plugin}: {data.hook} {data.verdict}{f': {one_line(data.reason)}' if data.reason else ''})"
            ]
        self.say(*(f"{'  ' * depth}{line}" for line in lines))

    def say(self, *lines: str) -> None:
        """Print lines, whatever became of stderr."""
        if self._level < 1 or not lines:
            return
        try:
            print("\n".join(clean(line) for line in lines), file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self._level = 0  # nobody reads it

    def _title(self, agent: Agent | None, call: ToolCall) -> str:
        arguments = _parsed(call.arguments)
        if arguments is None:
            return one_line(call.arguments)
        tool = self._tool(agent, call.name)
        if tool is not None and tool.present_call is not None:
            try:
                view = tool.present_call(arguments)
            except Exception:
                view = None  # a view is decoration, and the arguments may be wrong
            if view is not None and view.title:
                return one_line(view.title)
        return one_line(_summary(arguments))

    def _tool(self, agent: Agent | None, name: str) -> Tool | None:
        if name not in self._tools and agent is not None:
            from ..tools.tool import Tools

            tools = Tools()
            try:
                agent.hook.tools_register(agent=agent, tools=tools)
            except Exception:
                return None  # the loop meets the same error and reports it
            self._tools.update(tools.by_name())
        return self._tools.get(name)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        arguments = loads(text or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def summary_of(text: str) -> str:
    """A call's arguments as it wrote them; of a single text, that."""
    arguments = _parsed(text)
    return text if arguments is None else _summary(arguments)


def _summary(arguments: Mapping[str, Any]) -> str:
    if len(arguments) == 1:
        (value,) = arguments.values()
        if isinstance(value, str):
            return value
    return dumps(arguments).decode() if arguments else ""


def _outcome(result: ToolResult, ms: int) -> str:
    text = text_of(result.content)
    if result.is_error:
        first = next((line for line in text.splitlines() if line.strip()), "")
        return f"failed after {_seconds(ms)}: {one_line(first.removeprefix('Error: '))}"
    return f"done in {_seconds(ms)}, {size_of(len(text.encode('utf-8', 'replace')))}"


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def size_of(count: int) -> str:
    """A number of bytes, for people."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def one_line(text: str) -> str:
    """`text` on one line of at most `WIDTH` characters, without control characters, which may steer a terminal."""
    line = " ".join(_CONTROLS.sub(" ", text[: 4 * WIDTH]).split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
