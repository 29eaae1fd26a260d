"""The skills of each agent, and the tool that loads one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import trio
from attrs import field, frozen
from attrs.validators import ge

from dsh import StashKey, Tool, ToolCall, ToolError
from dsh.frontmatter import FrontMatterError
from dsh.jsonvalue import Json

from .catalogue import NAME, Catalogue, Root, Skill, any_files, collect, roots
from .words import content_of

if TYPE_CHECKING:
    from dsh import Agent, Harness

__all__ = ["SkillService", "SkillsConfig"]

DESCRIPTION = (
    "Load a skill: instructions for a particular kind of work, by the name under which it is listed. "
    "Read all of it, then do what it says."
)
PARAMETERS: Json = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "The name of the skill, as it is listed."}},
    "required": ["name"],
}


@frozen
class SkillsConfig:
    """The table ``[skills]``.

    Attributes:
        folders: more folders to look in; ``~`` is understood.
        max_description: characters of a description that the model sees before it loads a skill.
    """

    folders: tuple[str, ...] = ()
    max_description: int = field(default=500, validator=ge(1))


_PLACES: StashKey[list[Root]] = StashKey("skills: folders")
_ANY: StashKey[bool] = StashKey("skills: whether there may be any")
_CATALOGUE: StashKey[Catalogue] = StashKey("skills: those of the agent")


class SkillService:
    """The skills of a program's agents.

    Attributes:
        tool: loads a skill.
    """

    def __init__(self, harness: Harness, config: SkillsConfig) -> None:
        self.harness = harness
        self.config = config
        self.tool = Tool("skill", DESCRIPTION, PARAMETERS, self._load, parallel=True, effect="none")
        self._given: list[Skill] | None = None

    def any(self, agent: Agent) -> bool:
        """Whether the agent may have skills; looked up once, so that its tools stay the same."""
        found = agent.stash.get(_ANY, None)
        if found is None:
            found = agent.stash[_ANY] = bool(self.given()) or any_files(self._places(agent))
        return found

    async def catalogue(self, agent: Agent) -> Catalogue:
        """The agent's skills; read once."""
        found = agent.stash.get(_CATALOGUE, None)
        if found is None:
            given = self.given()
            found = await trio.to_thread.run_sync(collect, self._places(agent), given)
            agent.stash[_CATALOGUE] = found
        return found

    def given(self) -> list[Skill]:
        """What plugins bring."""
        from . import SkillHooks, Skills

        if self._given is None:
            skills = Skills()
            cast(SkillHooks, self.harness.hook).skills_register(harness=self.harness, skills=skills)
            self._given = skills.unique(lambda skill: str(skill.name), "skill")
        return self._given

    def places(self, cwd: str | None) -> list[Root]:
        """Where the skills of work in `cwd` are looked for."""
        more = [Path(os.path.expanduser(folder)) for folder in self.config.folders]
        return roots(None if cwd is None else Path(cwd), self.harness.home, Path.home(), more)

    def _places(self, agent: Agent) -> list[Root]:
        return agent.stash.setdefault(_PLACES, self.places(agent.session.header.cwd))

    async def _load(self, arguments: Mapping[str, Json], call: ToolCall) -> str:
        name = arguments["name"].strip()
        if NAME.match(name) is None:
            raise ToolError(f"{name!r} is no name of a skill: they are lower-case words joined by -", code="SKILL_NAME")
        if call.agent is None:
            raise ToolError("skills belong to an agent, and this call has none", code="NO_AGENT")
        catalogue = await self.catalogue(call.agent)
        skill = catalogue.skills.get(name)
        if skill is None:
            known = ", ".join(skill.name for skill in catalogue.offered()) or "none"
            raise ToolError(f"there is no skill {name} (the skills are: {known})", code="SKILL_UNKNOWN")
        if skill.hidden:
            raise ToolError(f"the skill {name} is for the person to use, not for you", code="SKILL_HIDDEN")
        try:
            return await trio.to_thread.run_sync(content_of, skill)
        except (OSError, FrontMatterError) as error:
            raise ToolError(f"the skill {name} cannot be read any more: {error}", code="SKILL_UNREADABLE") from error
