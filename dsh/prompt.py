"""The system prompt: sections, variables and tools, collected, assembled and rendered.

``{{name}}`` in a section is replaced by a variable's value.  Variables are strict: an unknown
one, one without a value, or a malformed group is an error that names the section.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import field, frozen

from .decisions import expected
from .errors import ConfigError, PromptError
from .hooks import Collector, refuse_other
from .messages import BlockLike, Message, Role, ToolSchema, blocks
from .tools.restrict import VisibleTools, check_names
from .tools.tool import Tool, Tools

if TYPE_CHECKING:
    from .agents import Agent

__all__ = ["Assembled", "Assembly", "Prefix", "Section", "Sections", "Variables", "assemble", "render"]

IDENTITY = (
    "You are dsh, a coding agent: you work on a person's files and machine through tools, "
    "and you do what you were asked, no more."
)
ENVIRONMENT = "You are working in {{cwd}} on {{platform}}. Relative paths start there."

UNLISTED = "<unlisted-tools>"
"""In ``[prompt] tool_order`` the place of the tools that are not named there."""

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_GROUP = re.compile(r"\{\{(?:([^{}]*)\}\})?")


@frozen
class Section:
    """A part of the system prompt."""

    name: str
    order: int
    text: str
    plugin: str = field(default="", eq=False)


class Sections(Collector[Section]):
    """The collector of ``prompt_sections``."""

    def add(self, name: str, text: str, order: int = 0) -> None:
        """Add a section.  Persona is 0, tools' guidance 100 to 199; empty text is left out.

        An agent's own scope may hide a section by its name.
        """
        for value in (name, text):
            refuse_other("sections.add", value, str)
        self.collect(Section(name, order, text, self.plugin), order)


class Variables(Collector[tuple[str, str | None]]):
    """The collector of ``prompt_variables``."""

    def set(self, name: str, value: str | None) -> None:
        """Define ``{{name}}``; None is "no value for this agent".

        Raises:
            PromptError: the name is not lower-case letters, digits and underscores.
        """
        refuse_other("variables.set", name, str)
        refuse_other("variables.set", value, str, type(None))
        if not _NAME.match(name):
            raise PromptError(f"{name!r} is no name for a variable: use lower-case letters, digits and _")
        self.collect((name, value))


class Prefix(Collector[Message]):
    """The collector of ``agent_session_prefix``."""

    def add(self, content: BlockLike | Message, role: Role = "user", order: int = 0) -> None:
        """Put a message before the whole history of every request of this agent."""
        self.collect(content if isinstance(content, Message) else Message(role, blocks(content)), order)


@frozen
class Assembly:
    """What a system prompt is rendered from; the tools are those the model is shown."""

    sections: tuple[Section, ...]
    variables: Mapping[str, str | None]
    tools: tuple[ToolSchema, ...]


@frozen
class Assembled:
    """A rendered prompt: the text, the schemas to show, and the tools that calls may name."""

    system: str
    schemas: tuple[ToolSchema, ...]
    tools: Mapping[str, Tool]


async def assemble(agent: Agent) -> Assembled:
    """Collect, ask ``prompt_assemble``, and render.

    Raises:
        PromptError: a section cannot be rendered.
        ConfigError: the agent's options name a tool that does not exist.
        Exception: what an implementation raised.
    """
    sections, variables, tools = Sections(), Variables(), Tools()
    _add_own(agent, sections, variables)
    agent.hook.prompt_variables(agent=agent, variables=variables)
    agent.hook.prompt_sections(agent=agent, sections=sections)
    agent.hook.tools_register(agent=agent, tools=tools)
    visible = _visible(agent, tools.layered_by_name())
    assembly = Assembly(
        tuple(sections.unique(lambda section: section.name, "section")),
        dict(variables.unique(lambda variable: variable[0], "variable")),
        tuple(tool.schema for tool in visible.now().values()),
    )
    answer = await agent.hook.prompt_assemble(agent=agent, assembly=assembly, default=lambda: assembly)
    assembly = expected("prompt_assemble", answer, Assembly)
    return Assembled(agent.harness.secrets.mask(render(assembly)), assembly.tools, visible)


def _add_own(agent: Agent, sections: Sections, variables: Variables) -> None:
    options, config = agent.options, agent.harness.config
    own, values = sections.view("dsh"), variables.view("dsh")
    own.add("harness:identity", IDENTITY, -100)
    own.add("harness:environment", ENVIRONMENT if agent.session.header.cwd else "", -90)
    persona = options.system_prompt if options.system_prompt is not None else config.system_prompt
    own.add("deployment:persona", persona or "", 0)
    appended = options.append_system_prompt if options.append_system_prompt is not None else config.append_system_prompt
    own.add("deployment:append", appended or "", 900)
    values.set("cwd", agent.session.header.cwd)
    values.set("model", options.model or None)
    values.set("platform", sys.platform)


def _visible(agent: Agent, offered: Mapping[str, tuple[Tool, int]]) -> VisibleTools:
    """The tools that the agent has, in the order in which they are shown."""
    options = agent.options
    check_names((*(options.tools or ()), *options.without_tools), offered)
    order = agent.harness.config.prompt.tool_order
    return VisibleTools(agent, {name: offered[name] for name in _ordered(offered, order)} if order else offered)


def _ordered(names: Mapping[str, object], order: Sequence[str]) -> list[str]:
    """`names`, which are sorted, with those of `order` at their places."""
    if UNLISTED in names:
        raise ConfigError(f"a tool cannot be called {UNLISTED}: it stands for all others in [prompt] tool_order")
    unknown = [name for name in order if name != UNLISTED and name not in names]
    if unknown:
        raise ConfigError(
            f"[prompt] tool_order: there is no tool {', '.join(map(repr, unknown))}"
            f" (the tools are: {', '.join(names) or 'none'})"
        )
    rest = [name for name in names if name not in order]
    return [name for place in order for name in (rest if place == UNLISTED else [place])]


def render(assembly: Assembly) -> str:
    """The sections' texts with their variables filled in, joined by blank lines; empty ones are left out.

    Raises:
        PromptError: an unknown variable, one without a value, or a malformed ``{{...}}``.
    """
    texts = (_interpolate(section, assembly.variables) for section in assembly.sections)
    return "\n\n".join(text for text in texts if text)


def _interpolate(section: Section, variables: Mapping[str, str | None]) -> str:
    text = section.text
    if "{{" not in text:
        return text
    last = text.rfind("}}")
    whose = f"section {section.name!r}" + (f" of the plugin {section.plugin}" if section.plugin else "")

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None and match.start() > last:
            return match[0]  # an opening without any closing behind it is plain text
        if name is None or not _NAME.match(name):
            raise PromptError(f"{whose}: {text[match.start() : match.start() + 30]!r} is no variable")
        if name not in variables:
            known = ", ".join(sorted(variables)) or "none"
            raise PromptError(f"{whose}: there is no variable {name!r} (there are: {known})")
        found = variables[name]
        if found is None:
            raise PromptError(f"{whose}: the variable {name!r} has no value for this agent")
        return found

    return _GROUP.sub(value, text)
