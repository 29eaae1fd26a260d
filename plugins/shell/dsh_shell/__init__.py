"""The shell: tools that run commands, in the foreground and in the background.

Every command leads a process group of its own and has an owner.  What it leaves running ends with
the agent it ran for, however dsh ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh import hookimpl
from dsh.errors import ConfigError

if TYPE_CHECKING:
    from dsh.agents import Agent
    from dsh.conversation import Jobs
    from dsh.harness import Harness
    from dsh.hooks import PluginManager
    from dsh.prompt import Sections
    from dsh.tools.tool import Tools
    from dsh_shell.tools import ShellTools

_shells: dict[int, ShellTools] = {}
"""By the identity of the harness: from its opening to its closing."""


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    """Offer the plugin's own hook."""
    from dsh_shell.hooks import ShellHooks

    manager.add_hookspecs(ShellHooks)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read ``[shell]`` and find the shell."""
    import os
    import shutil

    from dsh_shell.config import ShellConfig
    from dsh_shell.tools import ShellTools

    config = harness.config.section("shell", ShellConfig)
    shell = shutil.which(os.path.expanduser(config.shell or "bash"))
    if shell is None:
        if config.shell is not None:
            raise ConfigError(f"[shell] shell = {config.shell!r}: there is no such program")
        harness.warn("bash is not on PATH; commands are run with /bin/sh, which lacks bash's own syntax")
        shell = "/bin/sh"
    _shells[id(harness)] = ShellTools(config, os.path.abspath(shell), harness)


@hookimpl
async def dsh_unconfigure(harness: Harness) -> None:
    """Stop what runs for nobody, and delete the files of long outputs."""
    shell = _shells.pop(id(harness), None)
    if shell is not None:
        await shell.close()


@hookimpl
def agent_disposed(agent: Agent) -> None:
    """Delete the files of long outputs where nobody stores the session."""
    shell = _shells.get(id(agent.harness))
    if shell is not None and not agent.harness.plugins.implementations("session_open"):
        shell.forget(agent.session.id)


@hookimpl
def tools_register(agent: Agent, tools: Tools) -> None:
    """Offer the three tools."""
    tools.add(*_shells[id(agent.harness)].tools_of(agent))


@hookimpl
def agent_jobs(agent: Agent, jobs: Jobs) -> None:
    """Tell of what runs in the background."""
    shell = _shells.get(id(agent.harness))
    for task in () if shell is None else shell.running_for(agent):
        jobs.add(task.id, task.command)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Tell the model how failures show."""
    from dsh_shell.tools import SECTION

    sections.add("tool:bash", SECTION, order=105)
