"""The provider of children that are other programs, and speak the Agent Client Protocol.

Such a child is an agent of dsh, too, whose model is the other program: so it has a log, gates, limits and an
end like all others.  What the other program asks for is judged by the parent's gates.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from dsh import Agent, AgentOptions, Allow, Ask, GiveUp, ToolCall, hookimpl
from dsh.durations import spoken
from dsh.messages import Text
from dsh.prompt import Assembly
from dsh.session.events import AssistantChunk, AssistantMessage
from dsh.tasks import single

from ..inprocess import AgentChild
from ..provider import Answer, Child, SubagentError, Task
from .client import Client
from .events import AcpCall, AcpTool
from .judged import tools_of
from .peer import Peer
from .process import AgentProcess, start
from .settings import AcpConfig
from .stream import REFUSED, Stream, news

if TYPE_CHECKING:
    from collections.abc import Generator

    from dsh import CallConfig, Request
    from dsh.decisions import RequestErrorDecision
    from dsh.llm.chunks import ChunkStream

__all__ = ["AcpProvider"]

START_SECONDS = 60.0
"""How long an agent may take until it has begun a session."""
DRAIN_SECONDS = 1.0
"""How long output is waited for that a process which has exited left behind."""
TOOLS = ("read", "write", "bash")
"""The parent's tools that such an agent can make use of."""


class AcpProvider:
    """Runs the agents of the settings.

    Args:
        agents: by name, which is that of the kind of child.
        owner: the name of the plugin that owns the children.
    """

    tool = None
    wording = ""
    types = True

    def __init__(self, agents: Mapping[str, AcpConfig], owner: str | None = None) -> None:
        self._agents = agents
        self._owner = owner

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Child]:
        """Start the program and begin a session; both have ended, with all that they started, when the block ends.

        Raises:
            SubagentError: it cannot be started, or talked to.
        """
        name = "" if task.type is None else task.type.name
        if name not in self._agents:
            known = ", ".join(self._agents) or "none"
            raise SubagentError(f"there is no agent {name!r} in [subagents.acp] (there are: {known})")
        config, parent = self._agents[name], task.parent
        cwd = _folder(config, parent)
        raised: BaseException | None = None
        serving = trio.CancelScope(shield=True)  # who is cancelled wants to hear what the program answers to that
        try:
            async with trio.open_nursery() as nursery:
                try:
                    async with _running(config, cwd, parent) as process:
                        commands = await _nursery(nursery, serving)
                        client = Client(name, config.permission, commands)
                        peer = Peer(process.stdin, client)
                        commands.start_soon(_talk, peer, process)
                        commands.start_soon(process.listen)
                        await _begin(client, peer, parent, cwd, config)
                        async with self._agent(task, client, cwd) as agent:
                            yield AcpChild(agent, client, config)
                except BaseException as error:
                    raised = error
                    raise
                finally:
                    serving.cancel()
        except BaseExceptionGroup as group:
            # What was raised in the block, without the nursery's wrapping.
            raise (raised if raised is not None and group.subgroup(lambda e: e is raised) else single(group)) from None

    @asynccontextmanager
    async def _agent(self, task: Task, client: Client, cwd: str) -> AsyncIterator[Agent]:
        """The agent that the program is the model of."""
        parent = task.parent
        handle = parent.harness.create_agent(
            options=_options(parent, client.name),
            cwd=cwd,
            parent=parent,
            setup=lambda agent: _register(agent, client),
            owner=self._owner,
        )
        client.serve(handle.agent)
        try:
            yield handle.agent
        finally:
            with trio.CancelScope(shield=True):  # its end has a bound of its own
                await handle.dispose()


def _folder(config: AcpConfig, parent: Agent) -> str:
    base = parent.session.header.cwd or os.getcwd()
    return os.path.normpath(os.path.join(base, os.path.expanduser(config.cwd))) if config.cwd else base


@asynccontextmanager
async def _running(config: AcpConfig, cwd: str, parent: Agent) -> AsyncIterator[AgentProcess]:
    async def prepare(wanted: Any) -> Any:
        return await parent.hook.process_prepare(agent=parent, process=wanted, default=lambda: wanted)

    process = await start(config, cwd, prepare)
    try:
        yield process
    finally:
        with trio.CancelScope(shield=True):
            await process.end(config.eof_grace, config.term_grace)


async def _nursery(around: trio.Nursery, scope: trio.CancelScope) -> trio.Nursery:
    """A nursery for what is to go on until `scope` is cancelled, and no longer.

    Cancelled, this leaves the cancelling of `scope` to the caller.
    """
    found: list[trio.Nursery] = []
    opened = trio.Event()

    async def hold() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                found.append(nursery)
                opened.set()
                await trio.sleep_forever()

    # Not `start`: cancelled, that would wait for what nobody has cancelled yet.
    around.start_soon(hold)
    await opened.wait()
    return found[0]


async def _begin(client: Client, peer: Peer, parent: Agent, cwd: str, config: AcpConfig) -> None:
    limit = min(START_SECONDS, config.timeout or START_SECONDS)
    with trio.move_on_after(limit) as scope:
        await client.open(peer, parent, cwd)
    if scope.cancelled_caught:
        raise SubagentError(f"{client.name} began no session within {spoken(limit)}", code="SUBAGENT_TIMEOUT")


async def _talk(peer: Peer, process: AgentProcess) -> None:
    """Serve the program until it ends, or has nothing more to say; and see that nobody waits for it then."""
    why, silent_since = "", float("inf")

    async def receive(most: int) -> bytes | bytearray:
        nonlocal silent_since
        silent_since = trio.current_time()
        data = await process.stdout.receive_some(most)
        silent_since = float("inf")
        return data

    async with trio.open_nursery() as nursery:

        async def exited() -> None:
            await process.wait()
            ended = trio.current_time()
            while (until := max(ended, silent_since) + DRAIN_SECONDS) > trio.current_time():  # noqa: ASYNC110
                await trio.sleep_until(min(until, trio.current_time() + DRAIN_SECONDS))  # silence sets no event
            nursery.cancel_scope.cancel()  # others may hold its output open for ever

        nursery.start_soon(exited)
        why = await peer.listen(receive)
        if why:
            process.stdout.close()  # what it says is of no use any more; nothing holds it back from ending
        else:
            with trio.move_on_after(DRAIN_SECONDS):
                await process.wait()
        nursery.cancel_scope.cancel()
    await peer.end(why or process.how())


def _options(parent: Agent, name: str) -> AgentOptions:
    tools = tools_of(parent)
    return evolve(
        parent.options,
        model=f"acp/{name}",
        system_prompt="",
        append_system_prompt="",
        tools=tuple(tool for tool in TOOLS if tool in tools),
        temperature=None,
        max_tokens=None,
        reasoning_effort=None,
        one_turn=True,
    )


class _Model:
    """The other program as the model of the agent that stands for it, and nobody else as that."""

    def __init__(self, agent: Agent, client: Client) -> None:
        self._agent = agent
        self._client = client

    @hookimpl(wrapper=True, tryfirst=True)
    def agent_request(self) -> Generator[None, CallConfig, CallConfig]:
        config = yield
        name = f"acp/{self._client.name}"
        return config if config.model == name else evolve(config, model=name)

    @hookimpl(wrapper=True, tryfirst=True)
    def prompt_assemble(self) -> Generator[None, Assembly, Assembly]:
        """It has a prompt and tools of its own."""
        yield
        return Assembly((), {}, ())

    @hookimpl(trylast=True)
    def llm_stream(self, request: Request) -> ChunkStream | None:
        session = self._agent.session
        if request.session_id != session.id or session.open_step is None:
            return None
        return Stream(self._client, self._agent, news(request.messages))

    @hookimpl(wrapper=True, tryfirst=True)
    def agent_request_error(self) -> Generator[None, RequestErrorDecision, RequestErrorDecision]:
        """It may have done half of the work: that is not begun again by itself."""
        yield
        return GiveUp()


class _SaysYes:
    """Answers what is asked about the permissions that the program wants; a no of the gates stays one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @hookimpl(wrapper=True, trylast=True)
    def tools_pre_execute(self, call: ToolCall) -> Generator[None, Any, Any]:
        verdict = yield
        return Allow() if isinstance(verdict, Ask) and self._client.wants(call) else verdict


def _register(agent: Agent, client: Client) -> None:
    agent.plugins.register(_Model(agent, client), "subagents.acp")
    if client.permission == "allow":
        agent.plugins.register(_SaysYes(client), "subagents.acp.yes")


class AcpChild(AgentChild):
    """A child that is another program."""

    def __init__(self, agent: Agent, client: Client, config: AcpConfig) -> None:
        super().__init__(agent, 0)
        self._client = client
        self._limit: float | None = config.timeout

    async def ask(self, prompt: str) -> Answer:
        """Prompt it, and wait for its answer.  Cancelling cancels what it does, and waits for that within a bound."""
        answer: Answer | None = None
        with trio.move_on_after(float("inf") if self._limit is None else self._limit) as scope:
            answer = await super().ask(prompt)
        if scope.cancelled_caught or answer is None:
            limit = spoken(self._limit or 0)
            return Answer("timeout", self.said(), f"{self._client.name} took longer than {limit}, which is its limit")
        if answer.code == REFUSED:
            return evolve(answer, reason="refused")
        return evolve(answer, reason="aborted") if answer.code == "ABORTED" else answer

    def said(self) -> str:
        """The last text that is not empty; what it said before it used a tool is another."""
        for seq in range(len(self._events) - 1, -1, -1):
            data = self._events[seq].data
            if isinstance(data, AssistantMessage):
                texts = [block.text for block in data.content if isinstance(block, Text) and block.text.strip()]
                if texts:
                    return texts[-1]
        return ""

    def progress(self, since: int) -> tuple[Sequence[str], int]:
        """What it said as it came, its own tools, and what it asked for."""
        found: list[str] = []
        text: list[str] = []
        for seq in range(since, len(self._events)):
            data = self._events[seq].data
            if isinstance(data, AssistantChunk):
                text.append(getattr(data.chunk, "text", "") if data.chunk.type == "text-delta" else "")
                continue
            if isinstance(data, AcpTool | AcpCall) and any(text):
                found.append("".join(text))
                text.clear()
            if isinstance(data, AcpTool):
                found.append(f"[{data.kind}] {data.title} ({data.status})")
            elif isinstance(data, AcpCall):
                found.append(f"[{data.name}] {data.arguments[:200]}")
        if any(text):
            found.append("".join(text))
        return found, len(self._events)
