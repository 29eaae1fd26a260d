"""Comparing each request with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen

from dsh import DshError, StashKey
from dsh.llm.adapter import Request
from dsh.messages import PluginSource
from dsh.prompt import Assembly, Section, render
from dsh.session.events import Event, Replace, StepStart
from dsh.session.rebuild import rebuild_request
from dsh.session.surface import event_message

from .events import PrefixChanged
from .pieces import Segment, difference, excerpt, of_message, of_tool, segments_of

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.prompt import Prefix, Sections, Variables
    from dsh.tools.tool import Tools

__all__ = ["WATCH", "PrefixConfig", "PrefixError", "Watch", "segments"]

NEAR = 50
"""How many events before a replacement may belong to it."""


class PrefixError(DshError):
    """The beginning of a request changed, and ``[prefix] strict`` forbids it."""

    default_code = "PREFIX_CHANGED"


@frozen
class PrefixConfig:
    """The table ``[prefix]``.

    Attributes:
        strict: a change that no event of the log explains ends the turn.
    """

    strict: bool = False


@define
class Parts:
    """What one step's prompt was made from: the collectors of its hooks, and what came of them."""

    sections: Sections | None = None
    variables: Variables | None = None
    tools: Tools | None = None
    assembly: Assembly | None = None

    def system(self, assemblers: Sequence[str]) -> list[Segment]:
        """The sections as they are rendered, each with its plugin."""
        if self.assembly is None:
            return []
        given = {} if self.sections is None else {item: plugin for plugin, item in self.sections.attributed()}
        found = []
        for section in self.assembly.sections:
            text = render(evolve(self.assembly, sections=(section,)))
            if text:
                plugin = given.get(section, "") or ",".join(assemblers)
                found.append(Segment("system", section.name, text, plugin))
        return found

    def variable_plugins(self, section: Section, other: Parts) -> list[str]:
        """Who set the variables of a section that have another value in `other`."""
        if self.variables is None or self.assembly is None or other.assembly is None:
            return []
        before, now = other.assembly.variables, self.assembly.variables
        changed = {
            name for name in {*before, *now} if f"{{{{{name}}}}}" in section.text and before.get(name) != now.get(name)
        }
        return sorted({plugin for plugin, (name, _) in self.variables.attributed() if name in changed})

    def tool_plugins(self) -> Mapping[str, str]:
        """The plugins of the tools, by the tools' names."""
        return {} if self.tools is None else {tool.name: plugin for plugin, tool in self.tools.attributed()}


@define
class Watch:
    """What an agent sent last."""

    config: PrefixConfig
    parts: Parts = field(factory=Parts)
    prefix: Prefix | None = None
    last: Request | None = None
    last_parts: Parts = field(factory=Parts)

    @property
    def prefix_length(self) -> int:
        """How many messages stand before the history."""
        return 0 if self.prefix is None else len(self.prefix)

    def check(self, agent: Agent, request: Request) -> None:
        """Compare `request` with the one before; log what differs, once.

        Raises:
            PrefixError: it differs, no event of the log explains it, and the settings are strict.
        """
        last, before = self.last, self.last_parts
        if last is None:
            last = _stored(agent, request)
        self.last, self.last_parts = request, self.parts
        if last is None or _begins_with(last, request):
            return
        change = self._change(agent, last, before, request)
        if change is None:
            return
        agent.session.append(change)
        if self.config.strict and change.segment != "model" and change.cause != "replaced":
            raise PrefixError(f"{change.notice.removeprefix('[prefix] ')} ([prefix] strict, or --strict-prefix)")

    def segments(self, agent: Agent) -> list[Segment]:
        """The segments of the last request, with their plugins."""
        if self.last is None:
            return []
        system = self.last_parts.system(_assemblers(agent))
        plugins = self.last_parts.tool_plugins()
        found = segments_of(self.last, agent.harness.codec, self.prefix_length, system)
        return [self._attributed(agent, segment, plugins) for segment in found]

    def _attributed(self, agent: Agent, segment: Segment, tools: Mapping[str, str]) -> Segment:
        if segment.kind == "tools":
            return evolve(segment, plugin=tools.get(segment.name, "") or ",".join(_assemblers(agent)))
        if segment.kind == "prefix":
            return evolve(segment, plugin=self._prefix_plugin(int(segment.name)))
        if segment.kind == "message":
            event = _event_at(agent, int(segment.name) - self.prefix_length)
            return segment if event is None else evolve(segment, plugin=_author(event))
        return segment

    # -- what differs

    def _change(self, agent: Agent, last: Request, before: Parts, request: Request) -> PrefixChanged | None:
        if last.model != request.model:
            return _changed(agent, Segment("model", "", last.model), Segment("model", "", request.model), "")
        if last.system != request.system:
            return _changed(agent, *self._system(agent, last, before, request))
        if (last.tools or ()) != (request.tools or ()):
            return _changed(agent, *self._tools(agent, last, before, request))
        return self._messages(agent, last, request)

    def _system(
        self, agent: Agent, last: Request, before: Parts, request: Request
    ) -> tuple[Segment | None, Segment | None, str]:
        """The first section that differs, as it was and as it is, and whose doing that is."""
        assemblers = _assemblers(agent)
        new = self.parts.system(assemblers)
        old = before.system(assemblers)
        if not old:
            # The request before was another process's: its text is known, but not what it was made from.
            return self._by_place(last.system or "", request.system or "", new)
        for index in range(max(len(old), len(new))):
            one = old[index] if index < len(old) else None
            two = new[index] if index < len(new) else None
            if one == two:
                continue
            if one is not None and (two is None or all(one.name != section.name for section in new)):
                return one, None, one.plugin
            if two is not None and all(two.name != section.name for section in old):
                return None, two, two.plugin
            assert one is not None
            assert two is not None
            if one.name != two.name:  # the order
                return one, two, ",".join(assemblers) or two.plugin
            return one, two, self._who_changed(two, before)
        return Segment("system", "", last.system or ""), Segment("system", "", request.system or ""), ""

    def _who_changed(self, segment: Segment, before: Parts) -> str:
        sections = () if self.parts.assembly is None else self.parts.assembly.sections
        section = next((section for section in sections if section.name == segment.name), None)
        was = () if before.assembly is None else before.assembly.sections
        if section is None or all(section != other for other in was):
            return segment.plugin
        return ",".join(self.parts.variable_plugins(section, before)) or segment.plugin

    def _by_place(self, old: str, new: str, sections: Sequence[Segment]) -> tuple[Segment, Segment, str]:
        at, end = difference(old, new), 0
        name = plugin = ""
        for section in sections:
            name, plugin = section.name, section.plugin
            end += len(section.text) + 2
            if at < end:
                break
        return Segment("system", name, old), Segment("system", name, new), plugin

    def _tools(
        self, agent: Agent, last: Request, before: Parts, request: Request
    ) -> tuple[Segment | None, Segment | None, str]:
        """The first tool that differs, as it was and as it is, and whose doing that is."""
        was, now = last.tools or (), request.tools or ()
        plugins = {**before.tool_plugins(), **self.parts.tool_plugins()}
        assemblers = ",".join(_assemblers(agent))
        for index in range(max(len(was), len(now))):
            one = was[index] if index < len(was) else None
            two = now[index] if index < len(now) else None
            if one == two:
                continue
            if one is not None and (two is None or all(one.name != tool.name for tool in now)):
                return of_tool(one), None, plugins.get(one.name, "") or assemblers
            assert two is not None
            plugin = plugins.get(two.name, "") or assemblers
            if one is None or all(two.name != tool.name for tool in was):
                return None, of_tool(two), plugin
            return of_tool(one), of_tool(two), plugin
        raise AssertionError("the tools are the same")

    def _messages(self, agent: Agent, last: Request, request: Request) -> PrefixChanged | None:
        was, now, codec = last.messages, request.messages, agent.harness.codec
        for index, message in enumerate(was):
            other = now[index] if index < len(now) else None
            if other is message or other == message:
                continue
            old = of_message(message, index, self.prefix_length, codec)
            new = None if other is None else of_message(other, index, self.prefix_length, codec)
            if new is not None and old.text == new.text:
                continue  # the values differ in what no model reads
            if index < self.prefix_length:
                return _changed(agent, old, new, self._prefix_plugin(index))
            event = _event_at(agent, index - self.prefix_length)
            replaced = event is not None and isinstance(event.surface_op, Replace)
            plugin = "" if event is None else _replacer(agent, event) if replaced else _author(event)
            return _changed(agent, old, new, plugin, "replaced" if replaced else "")
        return None

    def _prefix_plugin(self, index: int) -> str:
        owners = [] if self.prefix is None else self.prefix.attributed()
        return owners[index][0] if index < len(owners) else ""


WATCH: StashKey[Watch] = StashKey("prefix: what was sent last")


def segments(agent: Agent) -> list[Segment]:
    """What `dsh_prefix.segments` answers."""
    watch = agent.stash.get(WATCH, None)
    return [] if watch is None else watch.segments(agent)


def _changed(agent: Agent, old: Segment | None, new: Segment | None, plugin: str, cause: str = "") -> PrefixChanged:
    known = new or old
    assert known is not None
    one, two = "" if old is None else old.text, "" if new is None else new.text
    at = difference(one, two)
    return PrefixChanged(
        agent.session.open_turn or 0,
        agent.session.open_step or 0,
        known.kind,
        known.name,
        plugin,
        cause or ("added" if old is None else "removed" if new is None else "changed"),
        at,
        excerpt(one, at),
        excerpt(two, at),
        "" if old is None else old.hash,
        "" if new is None else new.hash,
    )


def _begins_with(last: Request, request: Request) -> bool:
    """Whether a provider can use what it knows of `last`; the same objects are not looked into."""
    return (
        last.model == request.model
        and last.system == request.system
        and last.tools == request.tools
        and request.messages[: len(last.messages)] == last.messages
    )


def _stored(agent: Agent, request: Request) -> Request | None:
    """The last request in the log of a session that another process, or its parent, began."""
    events = agent.session.events
    steps = [event.data for event in events if isinstance(event.data, StepStart)]
    for data in reversed(steps[:-1]):  # the last one is open
        try:
            header, messages = rebuild_request(events, data.turn, data.step)
        except (ValueError, DshError):
            continue  # it asked no model
        return Request(header.config.model, tuple(messages), header.system, header.tools)
    return None


def _assemblers(agent: Agent) -> list[str]:
    """The plugins that may change what was collected."""
    names = {impl.plugin_name for impl in agent.plugins.implementations("prompt_assemble")}
    return sorted(names - {"prefix"})


def _event_at(agent: Agent, index: int) -> Event | None:
    """The event that the history's message `index` stands for."""
    events, count = agent.session.events, -1
    for seq in agent.session.surface:
        event = events[seq]
        count += event_message(event) is not None
        if count == index:
            return event
    return None


def _author(event: Event) -> str:
    """The plugin whose words an event says it carries."""
    source = getattr(event.data, "source", None)
    return source.plugin if isinstance(source, PluginSource) else ""


def _replacer(agent: Agent, event: Event) -> str:
    """The plugin that an event takes others' place for: a plugin by the name that it has here, if that is told.

    The event itself says it, as its source or in the facts about a result, or the plugin's own event before it.
    """
    packages = {
        _package(plugin): name for name, plugin in agent.harness.plugins.list_name_plugin() if plugin is not None
    }
    said = [_author(event), *_named(getattr(event.data, "meta", None))]
    here = next((name for name in said if name in packages.values()), "")
    return here or _logger(agent, event, packages) or next(filter(None, said), "")


def _named(facts: object, depth: int = 2) -> Iterator[str]:
    """Who the facts about a result say has made it what it is: a text under ``by`` or ``plugin``, also further in."""
    if not isinstance(facts, Mapping) or not depth:
        return
    for name in ("by", "plugin"):
        if isinstance(found := facts.get(name), str):
            yield found
    for value in facts.values():
        yield from _named(value, depth - 1)


def _logger(agent: Agent, event: Event, packages: Mapping[str, str]) -> str:
    """The plugin whose own event stands nearest before `event`: who replaces something says so in the log."""
    events = agent.session.events
    for seq in range(event.seq - 1, max(-1, event.seq - NEAR), -1):
        package = type(events[seq].data).__module__.partition(".")[0]
        if package != "dsh" and package in packages:
            return packages[package]
    return ""


def _package(plugin: object) -> str:
    name = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    return name.partition(".")[0]
