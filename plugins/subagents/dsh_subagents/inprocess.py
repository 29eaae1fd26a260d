"""Children in this program: fresh ones, and ones that begin as their parent did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from dsh import Agent, AgentOptions, TokenUsage, hookimpl, restrict_tools
from dsh.messages import PluginSource, text_of
from dsh.session.events import AssistantMessage, EndReason, Event, ToolCall, TurnEnd, usage_beside
from dsh.tools.tool import Tools

from .events import SubagentEnd
from .provider import AgentType, Answer, Child, SubagentError, Task

if TYPE_CHECKING:
    from dsh.prompt import Variables
    from dsh.session import Session

__all__ = ["AgentChild", "InProcess", "offered_tools", "spelled"]

FRESH = (
    "The subagent sees nothing of this conversation: say in the prompt everything it has to know, and what you want "
    "back."
)
SEEDED = (
    "The subagent has this conversation up to the end of the last turn, but nothing of the present one: say in the "
    "prompt what is new, and what you want back."
)
NO_TOKENS = TokenUsage()
ARGUMENTS_SHOWN = 200
"""Characters of a call's arguments that whoever reads a child's progress is shown."""


class InProcess:
    """The provider of children in this program.

    Args:
        seeded: children begin with the parent's log up to its last finished turn, so that the model's
            provider has their beginning in its cache.
        owner: the name of the plugin that owns the children.
    """

    def __init__(self, *, seeded: bool, owner: str | None = None) -> None:
        self._seeded = seeded
        self._owner = owner
        self.tool = "subagent_fork" if seeded else "subagent"
        self.wording = SEEDED if seeded else FRESH
        self.types = not seeded

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Child]:
        """Make an agent below the parent; it is disposed, with all below it, when the block ends."""
        parent = task.parent
        seed = finished(parent.session) if self._seeded else ()
        handle = parent.harness.create_agent(
            options=_options(task, seeded=bool(seed)),
            cwd=parent.session.header.cwd,
            seed=seed,
            parent=parent,
            setup=None if task.type is None else _Persona(task.type).prepare,
            owner=self._owner,
        )
        try:
            yield AgentChild(handle.agent, len(seed))
        finally:
            with trio.CancelScope(shield=True):  # its end has a bound of its own
                await handle.dispose()


def finished(session: Session) -> Sequence[Event]:
    """The events up to the end of the last turn that has ended; what follows holds calls without answers."""
    for seq in range(len(session.events) - 1, -1, -1):
        if isinstance(session.events[seq].data, TurnEnd):
            return session.events.head(seq + 1)
    return ()


def _options(task: Task, *, seeded: bool) -> AgentOptions:
    """The parent's, with what the type says.  What the parent's say of tools holds for its children as it is."""
    options = evolve(task.parent.options, one_turn=True, tools=None, without_tools=())
    header = task.parent.session.request_header()
    if header is not None and (seeded or not options.model):
        config = header.config
        options = evolve(
            options,
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            reasoning_effort=config.reasoning_effort,
        )
    kind = task.type
    if kind is None:
        return options
    return evolve(options, system_prompt=_Persona.SECTION, model=kind.model or options.model)


def offered_tools(agent: Agent) -> Collection[str]:
    """The names of all tools that plugins offer to `agent`, whether or not it has them."""
    tools = Tools()
    agent.hook.tools_register(agent=agent, tools=tools)
    return tools.by_name()


def spelled(names: Collection[str], offered: Collection[str]) -> set[str]:
    """`names`, with the tools among `offered` that they mean where only the case of letters differs."""
    meant = {name.lower() for name in names}
    return {*names, *(name for name in offered if name.lower() in meant)}


class _Persona:
    """What a child is, to the letter: what looks like a variable in it is none.  Its own children are the same."""

    SECTION = "{{subagent_persona}}"

    def __init__(self, kind: AgentType) -> None:
        self._kind = kind

    def prepare(self, agent: Agent) -> None:
        """Make `agent` one of its kind; of tools it can only have fewer, also of those that come later."""
        agent.plugins.register(self, "subagents.persona", inherit=True)
        kind = self._kind
        if kind.tools is None and not kind.without_tools:
            return
        offered = offered_tools(agent)
        only = None if kind.tools is None else spelled(kind.tools, offered)
        restrict_tools(agent, allow=only, deny=spelled(kind.without_tools, offered), lenient=True)

    @hookimpl
    def prompt_variables(self, variables: Variables) -> None:
        variables.set("subagent_persona", self._kind.prompt)


class AgentChild:
    """A child that is an agent.

    Args:
        seed: how many events of its log are its parent's.
    """

    def __init__(self, agent: Agent, seed: int) -> None:
        self._agent = agent
        self._events = agent.session.events
        self._seed = seed

    @property
    def session_id(self) -> str:
        """Of its log."""
        return self._agent.session.id

    @property
    def usage(self) -> TokenUsage:
        """What it and its own children took."""
        total = TokenUsage()
        for seq in range(self._seed, len(self._events)):
            data = self._events[seq].data
            if isinstance(data, AssistantMessage | SubagentEnd):
                used = data.usage if isinstance(data, AssistantMessage) else data.took
            else:
                used = usage_beside(data)
            total += used or NO_TOKENS
        return total

    async def ask(self, prompt: str) -> Answer:
        """Send a message, and wait until the child is idle.  Cancelling ends its turn, and closes its log."""
        result = await self._agent.run(prompt)
        reason = result.reason
        if self._agent.status == "disposed" and (reason is None or reason.kind != "completed"):
            return Answer("error", self.said(), "it was ended from outside", "DISPOSED")
        return _answer(reason, self.said())

    def tell(self, message: str) -> None:
        """Put a message into the running turn.

        Raises:
            SubagentError: the child has ended.
        """
        if self._agent.status == "disposed":
            raise SubagentError("it has ended and takes no more messages")
        self._agent.steer(message, PluginSource("subagents"))

    def said(self) -> str:
        """The last answer that is not empty."""
        for seq in range(len(self._events) - 1, self._seed - 1, -1):
            data = self._events[seq].data
            if isinstance(data, AssistantMessage) and (text := text_of(data.content)).strip():
                return text
        return ""

    def progress(self, since: int) -> tuple[Sequence[str], int]:
        """Answers, and calls on a line each; the mark is a place in its log."""
        found: list[str] = []
        for seq in range(max(since, self._seed), len(self._events)):
            data = self._events[seq].data
            if isinstance(data, AssistantMessage) and (text := text_of(data.content).strip()):
                found.append(text)
            elif isinstance(data, ToolCall):
                found.append(f"[{data.name}] {data.arguments[:ARGUMENTS_SHOWN]}")
        return found, len(self._events)


def _answer(reason: EndReason | None, said: str) -> Answer:
    if reason is None:
        return Answer("aborted", said, "it was cancelled before it began")
    match reason.kind:
        case "completed" | "max-tokens":
            return Answer(reason.kind, said)
        case "rejected":
            return Answer("refused", said, reason.reason)
        case "aborted":
            return Answer("aborted", said, reason.reason)
        case _:
            return Answer("error", said, reason.message or reason.reason or reason.kind, reason.code)
