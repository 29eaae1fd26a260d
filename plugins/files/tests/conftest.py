from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import define, field, frozen
from dsh_files.config import FilesConfig
from dsh_files.tools import FileTools

from dsh import AgentOptions, Stash, ToolCall, ToolResult
from dsh.messages import text_of
from dsh.tools.schema import check_arguments
from dsh.tools.tool import Tool, result_of


@frozen
class Header:
    cwd: str | None


@frozen
class Session:
    id: str
    header: Header


@frozen
class Agent:
    """What the file tools want of an agent."""

    session: Session
    stash: Stash = field(factory=Stash)
    options: AgentOptions = field(factory=AgentOptions)
    parent: Agent | None = None
    depth: int = 0


@define
class Desk:
    """The three tools, used by one agent in a directory."""

    cwd: Path
    config: FilesConfig = field(factory=FilesConfig)
    agent: Agent | None = field()

    @agent.default
    def _agent(self) -> Agent:
        return Agent(Session("s", Header(str(self.cwd))))

    @property
    def tools(self) -> Mapping[str, Tool]:
        return {tool.name: tool for tool in FileTools(self.config).tools()}

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.tools[name]
        call = ToolCall("1", name, arguments, cast("Any", self.agent))
        check_arguments(tool, call.arguments)
        return result_of(await cast("Any", tool.execute(call.arguments, call)))

    async def read(self, file_path: object, **more: Any) -> str:
        return text_of((await self.call("read", file_path=str(file_path), **more)).content)

    async def write(self, file_path: object, content: str) -> str:
        return text_of((await self.call("write", file_path=str(file_path), content=content)).content)

    async def edit(self, file_path: object, old: str, new: str, **more: Any) -> str:
        result = await self.call("edit", file_path=str(file_path), old_string=old, new_string=new, **more)
        return text_of(result.content)

    def other(self, session: str = "other") -> Desk:
        """Another agent in the same directory."""
        return Desk(self.cwd, self.config, Agent(Session(session, Header(str(self.cwd)))))

    def leftovers(self) -> list[str]:
        """Staging directories that were not removed."""
        return [name for _, names, _ in os.walk(self.cwd) for name in names if name.startswith(".dsh-")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
