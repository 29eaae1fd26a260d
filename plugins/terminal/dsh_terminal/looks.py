"""Commands that only look: at what was spent, what the model sees, what runs, what was decided."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from dsh import ConfigError
from dsh.conversation import Jobs
from dsh.explain import explain_call, explain_event, explain_turn, last_denial, lines_about
from dsh.jsonvalue import dumps
from dsh.messages import USER, PluginSource, ToolCallBlock, text_of
from dsh.session.events import AssistantMessage, Replace, TurnStart, UserMessage
from dsh.structure import did_you_mean
from dsh.tools.tool import Tool, Tools

from .state import count_of, counted, filled_of

if TYPE_CHECKING:
    from pathlib import Path

    from dsh.session.log import Session

    from .talk import Talk

__all__ = [
    "agents",
    "context",
    "cost",
    "diff",
    "jobs",
    "last_exchange",
    "models_of",
    "prompt_of",
    "prompts_of",
    "split",
    "tool_names",
    "tools",
]

BYTES_A_TOKEN = 4
SHORT = 100
"""Signs of a tool's description in a list."""
FAR = 100_000
"""Events that are gone back for what was said last."""
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotepath=false", "--no-pager")


def split(text: str) -> list[str]:
    """The words of a command.

    Raises:
        ConfigError: a quotation does not end.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}", code="USAGE") from None


async def cost(talk: Talk, rest: str) -> str:
    """``/cost``"""
    models = talk.conversation.harness.models
    await models.load()
    costs = talk.state.costs(models)
    if not costs:
        return "nothing has been asked since this conversation was opened"
    lines = []
    for model, usage, dollars in costs:
        read = usage.cache_read_tokens or 0
        into = usage.input_tokens + read + (usage.cache_write_tokens or 0)
        shown = "its price is not known" if dollars is None else f"${dollars:.4f}"
        lines.append(f"{model}: {into} tokens in ({read} cached), {usage.output_tokens} out: {shown}")
    total = talk.state.cost(models)
    if len(costs) > 1 and total is not None:
        lines.append(f"together ${total:.4f}")
    return "\n".join([*lines, "since this conversation was opened here; dsh stats counts all of this folder"])


async def context(talk: Talk, rest: str) -> str:
    """``/context``"""
    session = talk.agent.session
    header = session.request_header()
    await talk.conversation.harness.models.load()
    facts = talk.conversation.harness.models.facts(talk.state.model)
    filled = filled_of(talk.state.last)
    window = f" of {facts.context_window} ({filled * 100 // facts.context_window} %)" if facts.context_window else ""
    weights: dict[str, int] = {}
    if header is not None:
        weights["system prompt"] = len((header.system or "").encode())
        weights[counted(len(header.tools or ()), "tool")] = sum(
            len(tool.name) + len(tool.description) + len(dumps(tool.parameters)) for tool in header.tools or ()
        )
    names = {"user": "prompts and context", "assistant": "answers and calls", "tool": "results"}
    messages = session.derive_messages()
    for message in messages:
        name = names.get(message.role, message.role)
        size = len(text_of(message.content).encode("utf-8", "replace"))
        size += sum(len(block.arguments) for block in message.content if isinstance(block, ToolCallBlock))
        weights[name] = weights.get(name, 0) + size
    lines = [f"the last request and its answer: {filled} tokens{window}", "about, as tokens:"]
    lines += [f"  {count_of(size // BYTES_A_TOKEN):>7}  {name}" for name, size in weights.items()]
    return "\n".join(
        [*lines, f"{counted(len(messages), 'message')}, {counted(session.last_turn, 'turn')}; /compact makes room"]
    )


def models_of(talk: Talk) -> list[str]:
    """The names of models that can be asked, as far as they are known."""
    adapters = talk.conversation.harness.llm.adapters
    return [
        f"{provider}/{model}"
        for provider, adapter in adapters.items()
        if getattr(adapter, "configured", False)
        for model in adapter.models
    ]


def _tools(talk: Talk) -> Mapping[str, Tool]:
    found = Tools()
    talk.agent.hook.tools_register(agent=talk.agent, tools=found)
    return found.by_name()


def tool_names(talk: Talk) -> list[tuple[str, str]]:
    """The tools that the model was told of."""
    header = talk.agent.session.request_header()
    return [(tool.name, tool.description.split("\n")[0]) for tool in (header.tools or () if header else ())]


async def tools(talk: Talk, rest: str) -> str:
    """``/tools``"""
    by_name = _tools(talk)
    if rest:
        tool = by_name.get(rest)
        if tool is None:
            raise ConfigError(f"there is no tool {rest}{did_you_mean(rest, by_name)}", code="USAGE")
        return f"{rest}: {tool.description}\n{dumps(tool.parameters).decode()}"
    return "\n".join(f"{name}: {_first_line(tool.description)}" for name, tool in by_name.items())


def _first_line(text: str) -> str:
    """A text's first line, as many whole words of it as there is room for."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(first) <= SHORT:
        return first
    return f"{first[:SHORT].rpartition(' ')[0] or first[:SHORT]} …"


async def agents(talk: Talk, rest: str) -> str:
    """``/agents``"""
    return "\n".join(
        f"{'  ' * agent.depth}{agent.id}: {agent.status}, {agent.options.model or talk.state.model}, "
        f"session {agent.session.id}"
        for agent in talk.conversation.harness.agents.list()
    )


async def jobs(talk: Talk, rest: str) -> str:
    """``/jobs``"""
    lines: list[str] = []
    for agent in talk.conversation.harness.agents.list():
        found = Jobs()
        agent.hook.agent_jobs(agent=agent, jobs=found)
        below = f" ({agent.id})" if agent.parent is not None else ""
        lines += [f"{job.id}{below}: {' '.join(job.title.split())[:200]}" for job in found]
        if agent.parent is not None and agent.status == "running":
            lines.append(f"{agent.id}: an agent below, {agent.session.id}")
    return "\n".join(lines) or "nothing runs in the background"


def why(talk: Talk, rest: str) -> str:
    """``/why``: the last denial, or the last turn; or what is asked for.

    Raises:
        ConfigError: there is no such thing.
    """
    session = talk.agent.session
    events = [event for event in session.events if event.type != "assistant/chunk"]
    kind, _, value = rest.partition(":")
    if kind == "call" and value:
        found = [explain_call(events, value)]
    elif kind == "turn" and value.isdecimal():
        found = explain_turn(events, int(value))
    elif kind == "seq" and value.isdecimal():
        place = next((n for n, event in enumerate(events) if event.seq == int(value)), None)
        if place is None:
            raise ConfigError(f"there is no event {value}", code="USAGE")
        found = [explain_event(events, place)]
    elif rest not in ("", "denied", "last"):
        raise ConfigError("/why [call:ID|turn:N|seq:N|denied|last]", code="USAGE")
    else:
        index = last_denial(events) if rest != "last" else None
        if index is not None:
            found = [explain_event(events, index)]
        elif rest == "denied":
            return "nothing has been denied yet"
        elif session.last_turn:
            found = explain_turn(events, session.last_turn)
        else:
            return "nothing has been decided yet"
    return "\n\n".join("\n".join(lines_about(talk.conversation.harness, one)) for one in found)


async def diff(talk: Talk, rest: str) -> str:
    """``/diff``"""
    from .shell import run_program

    cwd = talk.conversation.cwd
    changed = await run_program(
        [*GIT, "diff", "HEAD", "--stat", "-p", "--no-ext-diff", "--no-textconv", "--no-color", *rest.split()], cwd
    )
    if changed.code:
        return f"git says: {(await _why_not(cwd)) or changed.output.strip()}"
    new = await run_program([*GIT, "ls-files", "--others", "--exclude-standard", "--directory"], cwd)
    names = [f"new: {name}" for name in new.output.splitlines()] if not new.code else []
    if changed.output.strip():
        talk.screen.show(talk.painter.patch(changed.output))
    return "\n".join(names) or ("" if changed.output.strip() else "nothing has changed since the last commit")


async def _why_not(cwd: Path) -> str:
    """Why there is nothing to compare with, as git itself does not say; empty if there is."""
    from .shell import run_program

    if (await run_program([*GIT, "rev-parse", "--git-dir"], cwd)).code:
        return "this folder is in no repository"
    return "" if not (await run_program([*GIT, "rev-parse", "HEAD"], cwd)).code else "there is no commit yet"


def last_exchange(session: Session) -> tuple[str, str]:
    """What the person said last, and what was answered last; empty where there is nothing."""
    answer = ""
    for event in islice(reversed(session.events), FAR):
        data = event.data
        if isinstance(data, AssistantMessage):
            answer = answer or text_of(data.content)
        elif isinstance(data, UserMessage) and data.source == USER:
            return text_of(data.content), answer
    return "", answer


def prompts_of(session: Session) -> dict[int, str]:
    """The turns with what they began with, in short; what a plugin began one with is marked as the plugin's."""
    return {turn: " ".join(f"{by}{text}".split())[:70] for turn, (by, text) in _prompts(session).items()}


def prompt_of(session: Session, turn: int) -> str:
    """What the person said to begin a turn; empty where a plugin began it."""
    by, text = _prompts(session).get(turn, ("", ""))
    return "" if by else text


def _prompts(session: Session) -> dict[int, tuple[str, str]]:
    """Who began which turn, empty for the person, and with what; without turns that only made a summary."""
    found: dict[int, tuple[str, str]] = {}
    turn = 0
    for event in session.events:
        data = event.data
        if isinstance(data, TurnStart):
            turn = data.turn
        elif isinstance(data, UserMessage) and turn not in found and not isinstance(event.surface_op, Replace):
            by = f"[{data.source.plugin}] " if isinstance(data.source, PluginSource) else ""
            found[turn] = by, text_of(data.content)
    return found
