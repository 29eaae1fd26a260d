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
    from dsh.harness import Harness
    from dsh.prompt import Sections
    from dsh.tools.tool import Tools
    from dsh_shell.tools import ShellTools

_shells: dict[int, ShellTools] = {}
"""By the identity of the harness: from its opening to its closing."""


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
def tools_register(agent: Agent, tools: Tools) -> None:
    """Offer the three tools."""
    tools.add(*_shells[id(agent.harness)].tools)


@hookimpl
def prompt_sections(agent: Agent, sections: Sections) -> None:
    """Tell the model how failures show."""
    from dsh_shell.tools import SECTION

    sections.add("tool:bash", SECTION, order=105)
