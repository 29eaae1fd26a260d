"""The commands that an agent of another program has run: calls of the parent's ``bash``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import trio
from attrs import define, field

from dsh.jsonvalue import Json
from dsh.messages import text_of

from .judged import DENIED, Calls, tools_of
from .peer import INVALID, Refusal

__all__ = ["Terminals", "command_line"]

AT_ONCE = 16
"""Terminals that an agent may have at once."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@define(eq=False)
class _Terminal:
    """A command and what it printed, which is known when it has ended."""

    limit: int | None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    let: trio.Event = field(factory=trio.Event)
    done: trio.Event = field(factory=trio.Event)
    refused: Refusal | None = None
    killed: bool = False
    output: str = ""
    exit_code: int | None = None
    signal: str | None = None

    @property
    def status(self) -> dict[str, Json]:
        return {"exitCode": self.exit_code, "signal": self.signal}


class Terminals:
    """The terminals of one child.

    Args:
        nursery: where commands run; cancelling it stops them.
    """

    def __init__(self, calls: Calls, nursery: trio.Nursery) -> None:
        self._calls = calls
        self._nursery = nursery
        self._all: dict[str, _Terminal] = {}
        self._number = 0

    async def create(self, params: Mapping[str, Any]) -> Json:
        """Start a command; the answer comes when the gates have let it pass.

        Raises:
            Refusal: they have not, or the parent has no ``bash``.
        """
        if len(self._all) >= AT_ONCE:
            raise Refusal(DENIED, f"there are {AT_ONCE} terminals; release some")
        tool = tools_of(self._calls.agent).get("bash")
        known: Any = {} if tool is None else tool.parameters.get("properties")
        cwd = self._calls.agent.session.header.cwd
        arguments = command_line(params, cwd, has_workdir="workdir" in known)
        limit = params.get("outputByteLimit")
        terminal = _Terminal(limit if type(limit) is int and limit >= 0 else None)
        self._number += 1
        id = f"terminal-{self._number}"
        self._all[id] = terminal
        self._nursery.start_soon(self._run, terminal, arguments)
        try:
            await terminal.let.wait()
        except trio.Cancelled:
            terminal.scope.cancel()
            raise
        if terminal.refused is not None:
            del self._all[id]
            raise terminal.refused
        return {"terminalId": id}

    async def _run(self, terminal: _Terminal, arguments: Mapping[str, Json]) -> None:
        try:
            with terminal.scope:
                result = await self._calls.do("terminal/create", "bash", arguments, allowed=terminal.let.set)
                terminal.output = text_of(result.content)
                meta = result.meta if isinstance(result.meta, dict) else {}
                code, name = meta.get("exitCode", 0), meta.get("signal")
                terminal.exit_code = code if type(code) is int else None
                terminal.signal = name if isinstance(name, str) else None
        except Refusal as refusal:
            terminal.refused = refusal
            terminal.output, terminal.exit_code = str(refusal), 1
        except Exception as error:
            terminal.refused = Refusal(DENIED, str(error))
            terminal.output, terminal.exit_code = str(error), 1
        finally:
            if terminal.scope.cancelled_caught:
                terminal.signal = "SIGTERM"
            terminal.done.set()
            terminal.let.set()

    def output(self, id: Any) -> Json:
        """What a command printed."""
        terminal = self._find(id)
        data = terminal.output.encode()
        cut = terminal.limit is not None and len(data) > terminal.limit
        if cut:
            data = data[len(data) - (terminal.limit or 0) :]
        said: dict[str, Json] = {"output": data.decode("utf-8", "ignore"), "truncated": cut}
        if terminal.done.is_set():
            said["exitStatus"] = terminal.status
        return said

    async def wait(self, id: Any) -> Json:
        """Wait for a command's end."""
        terminal = self._find(id)
        await terminal.done.wait()
        return terminal.status

    async def kill(self, id: Any) -> Json:
        """Stop a command, and wait until it has stopped."""
        terminal = self._find(id)
        terminal.scope.cancel()
        await terminal.done.wait()
        return {}

    async def release(self, id: Any) -> Json:
        """Stop a command, and forget it."""
        await self.kill(id)
        self._all.pop(id, None)
        return {}

    def stop(self) -> None:
        """Stop all commands, without waiting for that."""
        for terminal in self._all.values():
            terminal.scope.cancel()

    def _find(self, id: Any) -> _Terminal:
        terminal = self._all.get(id) if isinstance(id, str) else None
        if terminal is None:
            raise Refusal(INVALID, f"there is no terminal {id!r:.80}")
        return terminal


def command_line(params: Mapping[str, Any], cwd: str | None, *, has_workdir: bool) -> dict[str, Json]:
    """The arguments of ``bash`` for a command, its arguments, variables and directory.

    Raises:
        Refusal: they are none.
    """
    command, words = params.get("command"), params.get("args") or []
    if not isinstance(command, str) or not command.strip():
        raise Refusal(INVALID, "command must be text")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Refusal(INVALID, "args must be a list of texts")
    # Without arguments it may be a whole line for a shell, and agents send such.
    line = shlex.join([command, *words]) if words else command
    settings = [_setting(item) for item in params.get("env") or [] if isinstance(item, dict)]
    if settings:
        line = " ".join([*settings, line]) if words else f"export {' '.join(settings)}; {line}"
    arguments: dict[str, Json] = {"command": line}
    wanted = params.get("cwd")
    if isinstance(wanted, str) and wanted and wanted != cwd:
        if has_workdir:
            arguments["workdir"] = wanted
        else:
            arguments["command"] = f"cd {shlex.quote(wanted)} && {line}"
    return arguments


def _setting(item: Mapping[str, Any]) -> str:
    name, value = item.get("name"), item.get("value")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(value, str):
        raise Refusal(INVALID, f"{name!r:.80} is no name of a variable, or its value is no text")
    return f"{name}={shlex.quote(value)}"
