"""A task list: the tool ``todo_write``, and the event ``todo/write`` that it leaves in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import hookimpl, tool_allowed

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.prompt import Sections
    from dsh.tools.tool import Tools


@hookimpl
def tools_register(tools: Tools) -> None:
    """Offer the tool."""
    from .tool import TODO_WRITE

    tools.add(TODO_WRITE)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Say when a list helps, if the agent has the tool."""
    from .tool import NAME, SECTION

    if tool_allowed(agent, NAME):
        sections.add(f"tool:{NAME}", SECTION, order=110)
