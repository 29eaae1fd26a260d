"""Reading, writing and editing files: the tools ``read``, ``write`` and ``edit``.

A file is changed only in the state in which the session's agent last saw it.  ``README.md`` tells
the rules and the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import StashKey, hookimpl, tool_allowed

if TYPE_CHECKING:
    from dsh import Agent, Harness, Tool
    from dsh.prompt import Sections
    from dsh.tools.tool import Tools

TOOLS: StashKey[tuple[Tool, ...]] = StashKey("files: the tools")


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Refuse wrong settings when the harness opens, not when the first agent starts."""
    from .config import FilesConfig

    harness.config.section("files", FilesConfig)


@hookimpl
def tools_register(agent: Agent, tools: Tools) -> None:
    """Offer the three tools, made once for each agent."""
    found = agent.stash.get(TOOLS, None)
    if found is None:
        from .config import FilesConfig
        from .tools import FileTools

        found = agent.stash.setdefault(TOOLS, FileTools(agent.harness.config.section("files", FilesConfig)).tools())
    tools.add(*found)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Say how to use those of the tools that the agent has."""
    from .prompts import SECTIONS

    for name, (order, text) in SECTIONS.items():
        if tool_allowed(agent, name):
            sections.add(f"tool:{name}", text, order)
