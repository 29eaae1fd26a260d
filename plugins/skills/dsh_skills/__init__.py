"""Skills: instructions that a model is told of, and loads when it needs them.

A skill is a file ``NAME/SKILL.md`` (or ``NAME.md``) in a folder for skills.  A plugin that brings one::

    @hookimpl(optionalhook=True)
    def skills_register(harness, skills):
        skills.add("release", "How releases are made here.", "1. Update the changelog. ...")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from dsh import hookimpl, hookspec, tool_allowed
from dsh.hooks.collector import Collector

if TYPE_CHECKING:
    from dsh import Agent, Harness
    from dsh.commands import Commands
    from dsh.hooks import PluginManager
    from dsh.prompt import Prefix
    from dsh.tools.tool import Tools

    from .service import SkillService

__all__ = ["SkillHooks", "Skills"]


class Skills(Collector[Any]):
    """The collector of ``skills_register``."""

    def add(
        self,
        name: str,
        description: str,
        text: str,
        *,
        when: str = "",
        hidden: bool = False,
        folder: Path | None = None,
    ) -> None:
        """Offer a skill.

        Args:
            name: lower-case words joined by hyphens.
            description: what it is for, in a sentence.
            text: the instructions.
            when: more on when to use it.
            hidden: the model is not told of it.
            folder: what relative paths in the text start from.

        Raises:
            ValueError: the name or the description is wrong.
        """
        from attrs import evolve

        from .catalogue import skill_of

        settings = {"name": name, "description": description, "whenToUse": when, "disableModelInvocation": hidden}
        skill, _ = skill_of(settings, source=self.plugin or "program", folder=folder)
        self.collect(evolve(skill, text=text))


class SkillHooks(Protocol):
    """The hook of this plugin."""

    @hookspec(collect="skills")
    def skills_register(self, harness: Harness, skills: Skills) -> None:
        """Called once, when an agent first needs to know which skills there are.

        :param harness: the program.
        :param skills: add skills to it.

        Raising ends the turn of the agent with the error, and the next one asks again.  Nothing can cancel it.
        Return None.
        """


PROBLEMS = 20
"""How many a person is told of unasked."""

_services: WeakKeyDictionary[Harness, SkillService] = WeakKeyDictionary()


@hookimpl
def dsh_add_hookspecs(manager: PluginManager) -> None:
    """Offer ``skills_register``."""
    manager.add_hookspecs(SkillHooks)


@hookimpl
def dsh_add_commands(commands: Commands) -> None:
    """Offer ``dsh skills``."""
    from .command import configure, run

    commands.add("skills", "the skills that hold here, and what is wrong with some", run, configure)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[skills]``."""
    from .service import SkillsConfig, SkillService

    _services[harness] = SkillService(harness, harness.config.section("skills", SkillsConfig))


@hookimpl
def tools_register(agent: Agent, tools: Tools) -> None:
    """Offer the tool, where there is a skill."""
    service = _services[agent.harness]
    if service.any(agent):
        tools.add(service.tool)


@hookimpl
async def agent_session_prefix(agent: Agent, prefix: Prefix) -> None:
    """Tell the model which skills there are, if it can load them."""
    from .words import listing

    service = _services[agent.harness]
    if not service.any(agent) or not tool_allowed(agent, service.tool.name):
        return
    catalogue = await service.catalogue(agent)
    for problem in catalogue.problems[:PROBLEMS]:
        agent.harness.warn(f"skills: {problem}")
    if len(catalogue.problems) > PROBLEMS:
        agent.harness.warn(f"skills: and {len(catalogue.problems) - PROBLEMS} problems more: `dsh skills` tells all")
    offered = catalogue.offered()
    if offered:
        prefix.add(listing(offered, service.config.max_description), order=20)
