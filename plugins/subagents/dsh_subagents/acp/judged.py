"""What an agent of another program asks of its parent: judged by the parent's gates, done by the parent's tools."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import trio
from attrs import evolve

from dsh import Agent, Tool, ToolCall, ToolError, ToolResult
from dsh.hooks.trace import HeldTraces, held
from dsh.jsonvalue import Json, dumps
from dsh.messages import text_of
from dsh.paths import judged_path, open_resolved
from dsh.session.events import ErrorInfo
from dsh.tools import pipeline
from dsh.tools.restrict import VisibleTools
from dsh.tools.tool import Tools

from .events import AcpCall, AcpResult
from .peer import INVALID, Refusal

__all__ = ["DENIED", "Calls", "tools_of"]

DENIED = -32003
"""The code of the error that a call gets which is not permitted, or failed."""
READ_MOST = 8 << 20
"""Bytes of a file that are read for the agent at most."""


def tools_of(agent: Agent) -> VisibleTools:
    """The tools that `agent` has."""
    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    return VisibleTools(agent, tools.layered_by_name())


class Calls:
    """The calls of one child.

    Args:
        agent: the child, whose gates are its parent's.

    Attributes:
        asking: the ids of the calls that are only judged.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.asking: set[str] = set()
        self._number = 0
        self._seen: set[str] = set()

    async def judge(self, method: str, name: str, arguments: Mapping[str, Json], tool: Tool | None) -> ToolResult:
        """Ask the gates about a call that the other program makes itself; an error result is a no.

        Raises:
            Refusal: nothing is being worked on.
        """
        return await self._through(method, name, arguments, tool, None)

    async def do(
        self,
        method: str,
        name: str,
        arguments: Mapping[str, Json],
        execute: Callable[[Mapping[str, Json], ToolCall, Tool], Awaitable[Any]] | None = None,
        allowed: Callable[[], None] | None = None,
    ) -> ToolResult:
        """Make a call of one of the parent's tools, which passes everything that the parent's own would.

        Args:
            execute: takes the place of the tool's own function, behind all hooks.
            allowed: called when the gates have let it pass.

        Raises:
            Refusal: the parent has no such tool, it was denied, it failed, or nothing is being worked on.
        """
        tools = tools_of(self.agent)
        if name not in tools:
            raise Refusal(DENIED, f"not permitted: there is no tool {name} for it here")
        tool = tools[name]

        async def run(call: ToolCall) -> ToolResult:
            if allowed is not None:
                allowed()
            known: Mapping[str, Tool] = tools
            if execute is not None:
                own = execute

                async def instead(given: Mapping[str, Json], made: ToolCall) -> Any:
                    return await own(given, made, tool)

                known = {name: evolve(tool, execute=instead)}
            return await pipeline.run(self.agent.hook, known, call)

        result = await self._through(method, name, arguments, tool, run)
        if result.is_error:
            raise Refusal(DENIED, text_of(result.content).removeprefix("Error: "))
        return result

    async def _through(
        self,
        method: str,
        name: str,
        arguments: Mapping[str, Json],
        tool: Tool | None,
        run: Callable[[ToolCall], Awaitable[ToolResult]] | None,
    ) -> ToolResult:
        """Judge, run and review a call, with both events in the log."""
        agent, session = self.agent, self.agent.session
        turn, step = session.open_turn, session.open_step
        if turn is None or agent.status != "running":
            raise Refusal(INVALID, "there is no prompt that this could be for")
        self._number += 1
        call = ToolCall(f"acp-{self._number}", name, arguments, agent, turn, step or 0, tool)
        secrets = agent.harness.secrets
        shown = secrets.mask(dumps(call.arguments).decode())
        session.append(AcpCall(turn, step, call.id, method, name, shown))
        result = ToolResult("Error: cancelled", is_error=True)
        if run is None:
            self.asking.add(call.id)
        own = HeldTraces()
        own.release(agent.plugins.settings)  # what hooks decide here stands in the child's log at once
        try:
            with held(own):
                judged = await pipeline.judge(agent.hook, call)
                result = judged.denial or ToolResult("allowed")
                if judged.denial is None and run is not None:
                    result = await run(call)
                if judged.denial is not None or run is not None:
                    result = (await pipeline.review(agent.hook, call, result, secrets.mask_output)).result
        finally:
            self.asking.discard(call.id)
            if session.open_turn == turn:
                error = None if result.error is None else ErrorInfo(result.error.name, result.error.code)
                session.append(AcpResult(turn, session.open_step, call.id, result.content, result.is_error, error))
        return result

    # -- files

    async def read(self, path: str, line: int | None, limit: int | None) -> str:
        """The text of a file, or `limit` lines of it from `line` on, counted from 1; as `do`."""

        async def execute(given: Mapping[str, Json], call: ToolCall, tool: Tool) -> ToolResult:
            await _look(tool, path, call)
            self._seen.add(path)
            text = await trio.to_thread.run_sync(_text, _place(path, call), abandon_on_cancel=True)
            return ToolResult(_lines(text, line, limit))

        return text_of((await self.do("fs/read_text_file", "read", {"file_path": path}, execute)).content)

    async def write(self, path: str, content: str) -> None:
        """Make `content` the text of a file; as `do`."""

        async def execute(given: Mapping[str, Json], call: ToolCall, tool: Tool) -> Any:
            # What it has read by way of this program must be as it was; what it read itself, nobody can tell.
            reading = tools_of(self.agent).get("read")
            if path not in self._seen and reading is not None:
                with suppress(ToolError):  # there is none yet, or writing will say what is wrong with it
                    await _look(reading, path, call)
            output: Any = tool.execute(given, call)
            return await output if hasattr(output, "__await__") else output

        await self.do("fs/write_text_file", "write", {"file_path": path, "content": content}, execute)
        self._seen.add(path)


async def _look(tool: Tool, path: str, call: ToolCall) -> None:
    """Have the parent's tool read a line of a file: it refuses what it does not read, and notes which version it saw.

    Raises:
        ToolError: it refused.
    """
    output: Any = tool.execute({"file_path": path, "limit": 1}, call)
    result = await output if hasattr(output, "__await__") else output
    if isinstance(result, ToolResult) and result.is_error:
        raise ToolError(text_of(result.content).removeprefix("Error: "))


def _place(path: str, call: ToolCall) -> str:
    """Where a file is; where it was judged to be, if somebody did."""
    cwd = None if call.agent is None else call.agent.session.header.cwd
    return judged_path(call) or os.path.realpath(os.path.join(cwd or os.getcwd(), path))


def _text(place: str) -> str:
    descriptor = open_resolved(place, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(READ_MOST + 1)
    if len(data) > READ_MOST:
        raise ToolError(f"{place} has more than {READ_MOST >> 20} MiB")
    return data.decode("utf-8", "replace")


def _lines(text: str, line: int | None, limit: int | None) -> str:
    if line is None and limit is None:
        return text
    first = max((line or 1) - 1, 0)
    lines = text.splitlines(keepends=True)[first:]
    return "".join(lines if limit is None else lines[: max(limit, 0)])
