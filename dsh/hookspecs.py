"""Every hook of the core.

`Hooks` is both the namespace of the specifications and the type of ``agent.hook``, so a type
checker sees a missing argument, a misspelt hook and a forgotten ``await``.  Hooks are called by
keyword.  Implementations take those of the arguments that they want, by name.

Parameters behind the ``*`` are the caller's own and never reach an implementation: ``default``
is the terminal answer of a deciding hook, asked for when no implementation has answered.

In every hook a cancelled turn cancels what an ``async`` implementation awaits; an implementation
lets `trio.Cancelled` pass.  A hook written ``def`` is called in the frame of its cause, cannot be
cancelled, and must not block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from .hooks.markers import gate, hookspec

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from .agents import Agent, AgentFactory, AgentStatus, StartSource
    from .checks import Checks
    from .commands import Commands
    from .conversation import Conversation, Jobs, StatusParts
    from .decisions import ContinuationDecision, PostDecision, PromptDecision, RequestErrorDecision, ToolDecision
    from .harness import Harness
    from .hooks import PluginManager
    from .llm.adapter import Adapters, Request
    from .llm.chunks import ChunkStream
    from .messages import Block, CallConfig, Message, MessageSource
    from .models import CollectedFacts
    from .process import Process
    from .prompt import Assembly, Prefix, Sections, Variables
    from .secrets import Secrets
    from .session.events import Event
    from .session.log import Session
    from .session.store import EventTypes, SessionQuery, SessionsFound, StoredSession
    from .tools.tool import ToolCall, ToolResult, Tools

__all__ = ["Default", "Hooks"]

R = TypeVar("R")
Default: TypeAlias = "Callable[[], R | Awaitable[R]] | None"
"""The terminal answer of a deciding hook: a function without arguments, which may be async."""


class Hooks(Protocol):
    """The hooks of the core, by the order in which a run meets them."""

    # -- the program

    @hookspec
    def dsh_add_hookspecs(self, manager: PluginManager) -> None:
        """Called once per plugin, after all are imported and before any is registered.

        A plugin with hooks of its own adds them here: ``manager.add_hookspecs(MyHooks)``.

        :param manager: the plugins of this harness.

        Raising keeps the plugin from being registered.  It is called, never awaited, so nothing can cancel it.
        Return None.
        """

    @hookspec(collect="commands")
    def dsh_add_commands(self, commands: Commands) -> None:
        """Called when the command line is read and the subcommand is none of dsh's own, and for ``dsh --help --all``.

        It is also called where a conversation's slash commands are wanted.

        :param commands: add subcommands of ``dsh`` and slash commands to it.

        Raising discards the collection and ends the program with the error.  Nothing can cancel it.
        Return None.
        """

    @hookspec(collect="checks")
    async def dsh_doctor(self, harness: Harness, checks: Checks) -> None:
        """Awaited by ``dsh doctor``, once the harness is open: what a plugin needs, and whether it is there.

        :param harness: the harness.
        :param checks: add what you found to it: ``ok``, ``note``, ``warning`` or ``error``, with what to do.

        Raising is shown as a failed check, and loses nothing that other plugins found.  Cancelling ends the program.
        Return None.
        """

    @hookspec
    def dsh_configure(self, harness: Harness) -> None:
        """Called when a harness opens: all plugins are registered and the configuration is read.

        A plugin reads its own table of the configuration here, with ``harness.config.section(...)``.

        :param harness: the harness that opens.

        Everyone hears it, even if one raises; then the harness does not open.  Nothing can cancel it.
        Return None.
        """

    @hookspec(settle=True)
    async def dsh_unconfigure(self, harness: Harness) -> None:
        """Awaited when a harness closes, after its agents are gone.

        :param harness: the harness that closes.

        Everyone runs, even if one raises; errors reach whoever closes the harness.  The call is shielded from
        cancellation and has ten seconds.
        Return None.
        """

    @hookspec(firstresult=True, answers=["dsh.agents.AgentFactory"])
    async def agent_factory(self, harness: Harness) -> AgentFactory | None:
        """Asked once, when a harness opens: who makes agents.  The bundled ``loop`` answers last.

        :param harness: the harness that opens.
        :returns: an `AgentFactory`.

        Raising keeps the harness from opening, and so does being cancelled.
        None leaves the answer to the next implementation.
        """

    # -- an agent's life

    @hookspec
    def agent_created(self, agent: Agent) -> None:
        """Called when an agent has been entered in the registry, before its session starts.

        :param agent: the new agent.

        Everyone hears it; if one raises, the agent is undone and its creator gets the error.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def agent_session_start(self, agent: Agent, source: StartSource) -> None:
        """Called once per agent, right before its loop starts.  Implementations may `Agent.inject` or `Agent.send`.

        :param agent: the agent.
        :param source: ``startup``, or ``resume`` when the session was loaded (``clear`` and ``compact`` are reserved).

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def agent_disposed(self, agent: Agent) -> None:
        """Called when an agent has left the registry; its session is still there.

        :param agent: the agent that is gone.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def agent_status(self, agent: Agent, status: AgentStatus) -> None:
        """Called when an agent's status changes; it never leaves ``disposed``.

        :param agent: the agent.
        :param status: ``idle``, ``running`` or ``disposed``.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def agent_queued(self, agent: Agent, content: tuple[Block, ...], source: MessageSource, steering: bool) -> None:
        """Called when a message was queued by `Agent.send` or `Agent.steer`.

        :param agent: the agent.
        :param content: the message's blocks.
        :param source: who it is from.
        :param steering: it goes into the running turn, not into the next one.

        An error reaches the caller of send or steer; the message stays queued.  Nothing can cancel it.
        Return None.
        """

    @hookspec
    def agent_cancel(self, agent: Agent, reason: str) -> None:
        """Called when somebody cancels an agent, also an idle one, whose work in the background it is to reach.

        :param agent: the agent; those below it are called for, too.
        :param reason: what `Agent.cancel` was given.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    @hookspec(settle=True)
    async def agent_settle(self, agent: Agent) -> None:
        """Awaited when a turn was cancelled, once its end is logged: what was to end with it has ended then.

        :param agent: the agent, which is idle, or gone, when this returns.

        Everyone runs, even if one raises; the error is a warning.  The call is shielded from cancellation and has a
        minute.
        Return None.
        """

    @hookspec
    def agent_error(self, agent: Agent, turn: int, step: int, error: BaseException) -> None:
        """Called once per turn that fails, when a flush fails, and when a task the agent owns dies.

        :param agent: the agent.
        :param turn: the number of the turn.
        :param step: the number of the step in preparation or in execution; 0 before the first.
        :param error: what was raised; its notes name the plugin.

        Errors are contained and reported as a warning.  Nothing can cancel it.
        Return None.
        """

    # -- a turn

    @gate(on_error="block")
    async def agent_prompt_submit(
        self, agent: Agent, content: tuple[Block, ...], source: MessageSource
    ) -> PromptDecision:
        """Asked for every message of a turn's batch, before it is logged.  A gate: the first `Block` ends it.

        :param agent: the agent.
        :param content: the message's blocks, as they were sent, whatever another implementation made of them.
        :param source: who it is from.
        :returns: `Allow`, whose content replaces the message and whose context is logged behind it, or `Block`.

        Raising, or missing the deadline, blocks this prompt; the others go on.  A cancelled turn aborts it: the
        prompt is logged as blocked, with the cancel's reason.
        None is no objection.
        """

    @hookspec(collect="prefix")
    async def agent_session_prefix(self, agent: Agent, prefix: Prefix) -> None:
        """Awaited once per agent, before its first request: messages that stand before the history of every request.

        They are part of the request alone, and recorded in its header.

        :param agent: the agent.
        :param prefix: add messages to it.

        Raising discards the collection and ends the turn with the error; the next turn asks again.  So does
        cancelling, without an error.
        Return None.
        """

    @hookspec
    async def agent_pre_step(
        self, agent: Agent, turn: int, step: int, system: str, prefix: tuple[Message, ...]
    ) -> None:
        """Awaited before every step, one implementation after another, before the request's messages are taken.

        What an implementation appends to the session is part of the request that follows.

        :param agent: the agent.
        :param turn: the number of the turn.
        :param step: the number of the step, from 1.
        :param system: the rendered system prompt.
        :param prefix: the session prefix.

        The first error ends the turn.  Cancelling ends it as aborted, without a step.
        Return None.
        """

    @hookspec(firstresult=True, answers=["dsh.messages.CallConfig"])
    async def agent_request(
        self, agent: Agent, turn: int, step: int, config: CallConfig, *, default: Default[CallConfig] = None
    ) -> CallConfig:
        """Asked before every request: which model, with which settings.

        :param agent: the agent.
        :param turn: the number of the turn.
        :param step: the number of the step.
        :param config: the settings of the last request; at first, those of the agent's options.
        :returns: the settings to use.

        Raising ends the turn with the error, and cancelling ends it as aborted.
        None leaves the answer to the next implementation, and at last to `config`.
        """

    @hookspec(firstresult=True, answers=["dsh.llm.chunks.ChunkStream"])
    async def llm_stream(
        self, agent: Agent | None, request: Request, *, default: Default[ChunkStream] = None
    ) -> ChunkStream:
        """Asked for every model request: an iterator of the answer's chunks.  The default asks the provider's adapter.

        Who only wants to see the chunks writes a wrapper and returns an iterator that closes the inner one.

        :param agent: who asks; None for a request made outside of any agent.
        :param request: the whole request, which cannot be changed.
        :returns: an async iterator with ``aclose()``; it is driven and closed by the caller.

        Raising, here or from the iterator, fails the request.  Cancelling closes the iterator.
        None leaves the answer to the next implementation.
        """

    @hookspec(firstresult=True, answers=["dsh.decisions.Retry", "dsh.decisions.NextStep", "dsh.decisions.GiveUp"])
    async def agent_request_error(
        self,
        agent: Agent,
        turn: int,
        step: int,
        error: Exception,
        attempt: int,
        *,
        default: Default[RequestErrorDecision] = None,
    ) -> RequestErrorDecision:
        """Asked when a request failed, before the turn does.

        :param agent: the agent.
        :param turn: the number of the turn.
        :param step: the number of the step.
        :param error: what was raised, or what the answer's finish said.
        :param attempt: how often this request was tried, from 1.
        :returns: `Retry` to send it again, `NextStep` to close the step without a message and open the next one, or
            `GiveUp`.

        Raising ends the turn with that error, and cancelling ends it as aborted.
        None leaves the answer to the next implementation, and at last to `GiveUp`.
        """

    @hookspec(firstresult=True, answers=["dsh.messages.Message"])
    async def agent_step_result(
        self, agent: Agent, turn: int, step: int, message: Message, *, default: Default[Message] = None
    ) -> Message:
        """Asked when the model has answered: what is logged and acted upon.

        :param agent: the agent.
        :param turn: the number of the turn.
        :param step: the number of the step.
        :param message: the model's answer.
        :returns: the message to log; calls that it holds are run.

        Raising ends the turn with the error.  Cancelling ends it as aborted; the answer's text is kept.
        None leaves the answer to the next implementation, and at last to `message`.
        """

    @hookspec(firstresult=True, answers=["dsh.decisions.Continue", "dsh.decisions.Stop"])
    async def agent_turn_continuation(
        self, agent: Agent, turn: int, decision: ContinuationDecision, *, default: Default[ContinuationDecision] = None
    ) -> ContinuationDecision:
        """Asked after every step: is there another?

        :param agent: the agent.
        :param turn: the number of the turn.
        :param decision: `Continue` if tools ran or a message arrived, else `Stop`.
        :returns: `Continue`, whose reason is recorded before the next step, or `Stop`.

        Raising ends the turn with the error, and cancelling ends it as aborted.
        None leaves the answer to the next implementation, and at last to `decision`.
        """

    # -- tools and processes

    @hookspec(collect="tools")
    def tools_register(self, agent: Agent, tools: Tools) -> None:
        """Called whenever an agent's tools are assembled, before each step.

        :param agent: the agent.
        :param tools: add tools to it.

        Raising discards the collection and ends the turn with the error.  Nothing can cancel it.
        Return None.
        """

    @gate
    async def tools_pre_execute(self, agent: Agent | None, call: ToolCall) -> ToolDecision:
        """Asked before a tool runs.  A gate: the first `Deny` ends it, and is final.

        :param agent: who calls; None for a call made outside of any agent.
        :param call: the call, with parsed arguments.
        :returns: `Allow`, `Deny`, or `Ask` if a person should say; an `Ask` that no wrapper answers is a denial.

        Raising, or missing the deadline, denies.  Cancelling aborts the call.
        None is no objection.
        """

    @hookspec(firstresult=True, answers=["dsh.tools.tool.ToolResult"])
    async def tools_execute(
        self, agent: Agent | None, call: ToolCall, *, default: Default[ToolResult] = None
    ) -> ToolResult:
        """Asked to run a tool that was allowed.  The default runs it, and turns what it raises into an error result.

        A plain implementation runs it elsewhere, or replays it; a wrapper times it or adjusts its result.

        :param agent: who calls; None for a call made outside of any agent.
        :param call: the call, with checked arguments.
        :returns: the result.

        Raising makes an error result.  Cancelling aborts the call.
        None leaves the answer to the next implementation.
        """

    @gate(on_error="raise")
    async def tools_post_execute(self, agent: Agent | None, call: ToolCall, result: ToolResult) -> PostDecision:
        """Asked when a tool has run or was denied, before its result is logged.

        Composed as a gate: the first `Block` ends it.

        :param agent: who calls; None for a call made outside of any agent.
        :param call: the call.
        :param result: what it came to.
        :returns: `Accept`, whose content stands in for what the tool said and whose context follows the step's
            results, or `Block`, whose reason the model reads in place of the result.

        Raising makes an error result.  Cancelling aborts the call.
        None is no objection.
        """

    @hookspec(firstresult=True, answers=["dsh.process.Process"])
    async def process_prepare(
        self, agent: Agent | None, process: Process, *, default: Default[Process] = None
    ) -> Process:
        """Asked before a plugin starts a child process.  A sandbox wraps its arguments here.

        :param agent: for whom it starts; None for a process of the harness.
        :param process: the process as its owner wants it.
        :returns: the process to start.

        Raising keeps it from starting, and so does being cancelled.
        None leaves the answer to the next implementation, and at last to `process`.
        """

    # -- the person

    @hookspec(firstresult=True)
    async def dsh_conversation(self, harness: Harness, conversation: Conversation) -> int | None:
        """Asked when a person opens a conversation (``dsh`` without ``-p``): who holds it.

        Whoever answers returns when the person has left; the agent is disposed after that.

        :param harness: the program.
        :param conversation: its agent, and what it may be exchanged for.
        :returns: the exit code.

        Raising ends the program with the error.  Cancelling ends the conversation.
        None leaves it to the next implementation.
        """

    @hookspec(firstresult=True)
    async def terminal_borrow(
        self, agent: Agent | None, *, default: Default[AbstractAsyncContextManager[None]] = None
    ) -> AbstractAsyncContextManager[None]:
        """Asked before a plugin itself writes to the person's terminal and reads from it, as to ask a question.

        Whoever has something on the terminal that moves, answers with a context manager that takes it away.

        :param agent: for whom; None for nobody in particular.
        :returns: an async context manager, entered while the terminal is used.

        Raising is the error of whoever wanted the terminal, and so is being cancelled.
        None leaves the answer to the next implementation, and at last to the default, which does nothing.
        """

    @hookspec(firstresult=True)
    async def person_choose(self, harness: Harness, question: str, choices: Sequence[str]) -> int | None:
        """Asked when the person shall choose one of several things, as one of their sessions to go on with.

        :param harness: the harness.
        :param question: what they choose, in a few words.
        :param choices: the things, a line each.
        :returns: the index of the one they chose, or -1 where they want none of them.

        Raising is the error of whoever asked, and so is being cancelled.
        None leaves it to the next implementation; when nobody answers, nobody can be asked.
        """

    @hookspec(collect="jobs")
    def agent_jobs(self, agent: Agent, jobs: Jobs) -> None:
        """Asked when somebody wants to know what an agent has running in the background.

        :param agent: the agent.
        :param jobs: add what runs for it to it.

        Raising discards the collection and is the error of whoever asked.  Nothing can cancel it.
        Return None.
        """

    @hookspec(collect="parts")
    def status_parts(self, agent: Agent, parts: StatusParts) -> None:
        """Asked, often, by whoever shows a person how a conversation stands; it must be quick.

        :param agent: the conversation's.
        :param parts: add a word or two to it, as the mode that tools run in.

        Raising discards the collection; nothing of it is shown.  Nothing can cancel it.
        Return None.
        """

    # -- the system prompt

    @hookspec(collect="sections")
    def prompt_sections(self, agent: Agent, sections: Sections) -> None:
        """Called before each step for the parts of the system prompt.

        :param agent: the agent.
        :param sections: add sections to it; lower orders come first.

        Raising discards the collection and ends the turn with the error.  Nothing can cancel it.
        Return None.
        """

    @hookspec(collect="variables")
    def prompt_variables(self, agent: Agent, variables: Variables) -> None:
        """Called before each step for the values of ``{{name}}`` in sections.

        :param agent: the agent.
        :param variables: set variables in it.

        Raising discards the collection and ends the turn with the error.  Nothing can cancel it.
        Return None.
        """

    @hookspec(firstresult=True, answers=["dsh.prompt.Assembly"])
    async def prompt_assemble(self, agent: Agent, assembly: Assembly, *, default: Default[Assembly] = None) -> Assembly:
        """Asked before each step: sections, variables and tools, in order, before they are rendered.

        :param agent: the agent.
        :param assembly: what was collected.
        :returns: what to use.

        Raising ends the turn with the error, and cancelling ends it as aborted.
        None leaves the answer to the next implementation, and at last to `assembly`.
        """

    # -- the model service

    @hookspec(collect="adapters")
    def llm_adapters(self, harness: Harness, adapters: Adapters) -> None:
        """Called when a harness opens: the providers whose models can be asked.

        :param harness: the harness.
        :param adapters: add adapters to it, by provider.

        Raising discards the collection and keeps the harness from opening.  Nothing can cancel it.
        Return None.
        """

    @hookspec(collect="facts")
    async def model_facts(self, harness: Harness, facts: CollectedFacts) -> None:
        """Awaited once, when somebody first wants to know more of models than the settings say.

        :param harness: the harness.
        :param facts: add what looks up context windows, limits of output and prices.

        Raising discards the collection and reaches whoever asked; the next one asks again.  So does cancelling.
        Return None.
        """

    # -- sessions

    @hookspec
    def session_created(self, session: Session) -> None:
        """Called when a session is entered, before its agent is created.

        :param session: the session, which holds its seed already.

        Everyone hears it; if one raises, the session is left again and its creator gets the error.  Nothing can
        cancel it.
        Return None.
        """

    @hookspec
    def session_event(self, session: Session, event: Event) -> None:
        """Called for every event, in the frame of the append, in the order of the log.

        :param session: the session.
        :param event: the event; its `data` says what it is.

        Everyone hears it; the event stays in the log if one raises, and the error reaches whoever appended it, which
        in a turn ends the turn.  Nothing can cancel it.
        Return None.
        """

    @hookspec(settle=True)
    async def session_flush(self, session: Session) -> None:
        """Awaited at every turn's end: make durable what was logged.

        :param session: the session.

        Everyone runs, even if one raises; the error is reported as ``agent_error`` and changes nothing in the log.
        While the agent is being disposed it is shielded from cancellation, with a bound.
        Return None.
        """

    @hookspec(firstresult=True, answers=["dsh.session.store.StoredSession"])
    async def session_open(self, session_id: str) -> StoredSession | None:
        """Asked to load a stored session, repaired and balanced.

        :param session_id: its id.
        :returns: header and events.

        Raising reaches whoever wants to resume; cancelling leaves the stored session as it is, or repaired.
        None leaves the answer to the next implementation; if nobody has it, there is no such session.
        """

    @hookspec(firstresult=True, answers=["dsh.session.store.StoredSession"])
    async def session_read(self, session_id: str) -> StoredSession | None:
        """Asked for a stored session to look at, also while another program writes it.  Nothing is locked or repaired.

        :param session_id: its id.
        :returns: header and events as they are: the last turn may be open, and asking for a damaged event raises.

        Raising reaches whoever wants to read; cancelling changes nothing.
        None leaves the answer to the next implementation; if nobody can read it so, it is opened instead.
        """

    @hookspec(firstresult=True)
    async def session_delete(self, session_id: str) -> bool | None:
        """Asked to delete a stored session for good.  A store refuses while somebody writes it.

        :param session_id: its id.
        :returns: True when it is gone.

        Raising reaches whoever wants it deleted, and the session stays; cancelling waits until the answer is known.
        None leaves the answer to the next implementation; if nobody has it, there is no such session.
        """

    @hookspec(collect="found")
    async def session_list(self, query: SessionQuery, found: SessionsFound) -> None:
        """Awaited to list stored sessions.

        :param query: what to list.
        :param found: add descriptions of sessions to it.

        Raising discards the collection and reaches whoever asked, and so does cancelling.
        Return None.
        """

    @hookspec(collect="types")
    def session_event_types(self, types: EventTypes) -> None:
        """Called when a harness opens, for plugins' own event classes.

        :param types: add frozen attrs classes with a ``type`` class variable to it.

        Raising discards the collection and keeps the harness from opening.  Nothing can cancel it.
        Return None.
        """

    @hookspec(collect="secrets")
    def secrets_register(self, secrets: Secrets) -> None:
        """Called when a harness opens: values that must not enter the log.

        :param secrets: add values to it, each with a name to show in its place.

        Raising discards the collection and keeps the harness from opening.  Nothing can cancel it.
        Return None.
        """
