"""The harness: the services, the plugins, and the nursery that everything runs in."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import trio

from .agents import Agent, AgentFactory, AgentHandle, AgentOptions, AgentRegistry, AgentRequest
from .canaries import run_canaries
from .config import GUARDS, Config, dsh_home
from .configured import start_configured
from .configuring import configure
from .credentials import FILE, Credentials
from .discovery import load_plugins
from .errors import AgentError, ConfigError, SessionNotFound, blamed_message
from .hooks import PluginManager, Settings, Trace
from .hooks.trace import held
from .hookspecs import Hooks
from .llm.adapter import Adapters
from .llm.service import LlmService
from .models import Models
from .owned import Owned
from .secrets import Secrets
from .session.codec import Codec, default_codec
from .session.events import Event, HookDecision
from .session.lineage import LINEAGE, read_lineage
from .session.log import Session
from .session.sessions import Sessions
from .session.store import UNSTORED, EventTypes
from .tasks import Tasks, single

__all__ = ["CLOSING_SECONDS", "Harness", "open_harness"]

SLOW_START = 1.0
"""Seconds that a plugin may take to read its settings without a word about it."""
CLOSING_SECONDS = 10.0
"""How long plugins may take to close, each stage of it."""


class Harness:
    """What plugins and embedding programs find everything through.  Made by `open_harness`.

    Attributes:
        config: the settings.
        plugins: the installed plugins.
        hook: their hooks, to be called.
        home: where dsh keeps its files.
        credentials: keys of services that are kept there.
        llm: the model service.
        models: what is known of models.
        secrets: values that are masked in the log.
        sessions: the live sessions.
        codec: events to and from JSON, plugins' own types included.
        agents: the live agents.
        attended: whether plugins may ask the person at the process's terminal.
        nursery: closes last; tasks in it are better started with `start_soon`.
    """

    llm: LlmService

    def __init__(
        self,
        config: Config,
        plugins: PluginManager,
        nursery: trio.Nursery,
        home: Path,
        warn: Callable[[str], None],
    ) -> None:
        self.config = config
        self.plugins = plugins
        self.hook = cast(Hooks, plugins.relay)
        self.nursery = nursery
        self.home = home
        self.credentials = Credentials(home / FILE)
        self.warn = warn
        self.attended = False
        self.secrets = Secrets()
        self.codec = default_codec()
        self.sessions = Sessions(self.hook, self.codec)
        self.agents = AgentRegistry()
        self.models = Models(self)
        self._tasks = Tasks(nursery, lambda exc: self.warn_error("a task", exc))
        self._owned = Owned(self)
        self._handles: dict[str, AgentHandle] = {}
        self._factory: AgentFactory | None = None
        self._closing = False

    def warn_error(self, where: str, error: BaseException) -> None:
        """Warn of an error that was contained, with the notes that name the plugin."""
        self.warn(f"{where}: {blamed_message(error)}")

    def start_soon(
        self, function: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None, owner: str | None = None
    ) -> None:
        """Run `function` in a task that ends with the harness, or with the plugin `owner`.

        What it raises is a warning.

        Raises:
            AgentError: there is no plugin `owner`.
        """
        if owner is None:
            self._tasks.start_soon(function, *args, name=name)
        else:
            self._owned.start_soon(owner, function, *args, name=name)

    async def unload(self, name: str) -> None:
        """Take a plugin out while the program runs, and end what it owns.

        Its agents are disposed and its tasks ended while it still hears of it; then its
        ``dsh_unconfigure`` is awaited and its model adapters closed, with a bound, and it is unregistered
        with the plugins that it has registered as ``NAME.part``.  What it raises is a warning.

        Raises:
            PluginError: there is no such plugin, it is a required guard, or it may be the one that makes agents.

        Cancelling the wait leaves the plugin installed; agents whose end has begun end all the same.
        """
        self._owned.refuse_guards(name)
        await self._end_owned(name)
        try:
            with trio.move_on_after(CLOSING_SECONDS) as scope:
                await self._owned.unconfigure(name)
                await self.llm.drop(name)
        except Exception as exc:
            self.warn_error(f"while unloading {name}", exc)
        if scope.cancelled_caught:
            self.warn(f"the plugin {name} took longer than {CLOSING_SECONDS:g} s to close; it was left behind")
        for part in self._owned.plugins_of(name):
            self.plugins.unregister(name=part)

    async def _end_owned(self, owner: str) -> None:
        await self._dispose(self._owned.agents_of(owner))
        await self._owned.close(owner)

    def _plugin_gone(self, name: str) -> None:
        """A plugin was unregistered by hand: nobody is left who would end what it owns."""
        if not self._closing and name in self._owned:
            self.nursery.start_soon(self._end_owned, name, name=f"end of what {name} owns")

    def create_agent(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        options: AgentOptions | None = None,
        cwd: str | None = None,
        seed: Sequence[Event] = (),
        parent_session: str | None = None,
        parent: Agent | None = None,
        setup: Callable[[Agent], None] | None = None,
        owner: str | None = None,
    ) -> AgentHandle:
        """Make an agent on a new session, and start it.  There is no checkpoint in it.

        Args:
            agent_id: unique among the live agents; made up if not given.
            session_id: made up if not given.
            options: the agent's; `Config.model` stands in for a model that is not given.
            cwd: its working directory, absolute; the process's if not given.
            seed: events that its session begins with, balanced.
            parent_session: the id of the session that they are from; by default, that of `parent`.
            parent: whose child it is.
            setup: registers things for the agent before its session starts.
            owner: the name of the plugin that makes it; unloading that plugin disposes the agent.

        Raises:
            AgentError: the id is taken, no loop is installed, or there is no plugin `owner`.
            SessionError: the session's id is taken.
            BaseException: what plugins raised; nothing is left of the agent then.
        """
        chosen = self._chosen(options)
        agent_id = self._free_id(agent_id)
        session = self.sessions.prepare(
            session_id or str(uuid.uuid4()),
            seed=seed,
            cwd=cwd if cwd is not None else os.getcwd(),
            parent_session=parent.session.id if parent is not None and parent_session is None else parent_session,
            seed_length=len(seed) or None,
        )
        return self._start(AgentRequest(agent_id, session, chosen, "startup", parent, setup), owner)

    async def resume_agent(
        self,
        session_id: str,
        *,
        agent_id: str | None = None,
        options: AgentOptions | None = None,
        setup: Callable[[Agent], None] | None = None,
        owner: str | None = None,
    ) -> AgentHandle:
        """Load a stored session and go on with it.  The arguments are those of `create_agent`.

        Where the options name no model, it goes on with the model and the effort of its last request.

        Raises:
            SessionNotFound: no store has it.
            SessionError: it cannot be read, or somebody else writes it.
            AgentError: the agent's id is taken.

        Cancelling leaves the stored session as it is, or repaired.
        """
        self._chosen(options)  # before anything is loaded for options that are none
        agent_id = self._free_id(agent_id)
        stored = await self.hook.session_open(session_id=session_id)
        if stored is None:
            raise SessionNotFound(f"there is no session {session_id!r}; `dsh sessions list` shows those there are")
        agent_id = self._free_id(agent_id)
        header = stored.header
        lineage = await read_lineage(self.hook, header)
        session = self.sessions.prepare(
            header.id,
            seed=stored.events,
            cwd=header.cwd,
            parent_session=header.parent_session,
            created_at=header.created_at,
            seed_length=header.seed_length,
        )
        session.stash[LINEAGE] = lineage
        return self._start(
            AgentRequest(agent_id, session, self._chosen(options, session), "resume", None, setup), owner
        )

    async def dispose_children(self, parent: Agent) -> None:
        """Dispose the agents that have `parent`, and wait for their end."""
        await self._dispose([agent for agent in self.agents.list() if agent.parent is parent])

    def forget(self, agent: Agent) -> None:
        """Drop the handle of an agent that is gone; for the loop."""
        self._handles.pop(agent.id, None)
        self._owned.forget(agent)

    async def _dispose(self, agents: Sequence[Agent]) -> None:
        async with trio.open_nursery() as nursery:
            for agent in agents:
                if agent.id in self._handles:
                    nursery.start_soon(self._handles[agent.id].dispose)

    def _chosen(self, options: AgentOptions | None, session: Session | None = None) -> AgentOptions:
        """The options, or those that stand in for them: what the session went by last, and the settings."""
        if options is not None:
            if not isinstance(options, AgentOptions):
                raise AgentError(f"options are AgentOptions(model=...), not {options!r:.80}")
            return options
        last = None if session is None else session.request_header()
        if last is None:
            return AgentOptions(model=self.config.model, reasoning_effort=self.config.effort)
        effort = self.config.effort or last.config.reasoning_effort
        return AgentOptions(model=last.config.model or self.config.model, reasoning_effort=effort)

    def create_unstored(self, agent_id: str) -> AgentHandle:
        """Make an agent on a session that no store keeps, for a trial.  It raises what `create_agent` does."""
        session = self.sessions.prepare(cwd=os.getcwd())
        session.stash[UNSTORED] = True
        return self._start(AgentRequest(self._free_id(agent_id), session, self._chosen(None)), None)

    def _start(self, request: AgentRequest, owner: str | None) -> AgentHandle:
        parent = request.parent
        if self._closing:
            raise AgentError("the harness is closing; it makes no more agents")
        if parent is not None and parent.status == "disposed":
            raise AgentError(f"agent {parent.id!r} is disposed; it gets no more children")
        if self._factory is None:
            raise AgentError("no plugin makes agents: the plugin `loop` is missing, or left out with --no-plugin")
        self._owned.check(owner)
        with held(None):  # what is decided for the new agent is no matter of the call that makes it
            handle = self._factory.create(request)
        self._handles[request.agent_id] = handle
        if owner is not None:
            self._owned.add_agent(owner, handle.agent)
        return handle

    def _free_id(self, agent_id: str | None) -> str:
        if agent_id is None:
            number = 1
            while self.agents.get(f"agent-{number}") is not None:
                number += 1
            return f"agent-{number}"
        if self.agents.get(agent_id) is not None:
            raise AgentError(f"there is an agent {agent_id!r} already")
        return agent_id

    # -- opening and closing, for `open_harness`

    async def _open(self) -> None:
        self.plugins.settings.on_trace = self._record
        self.plugins.settings.on_slow = self._slow
        self.plugins.on_gone = self._plugin_gone
        configure(self)
        types = EventTypes()
        self.hook.session_event_types(types=types)
        self.codec = self.sessions.codec = Codec(types)
        self.hook.secrets_register(secrets=self.secrets)
        adapters = Adapters()
        self.hook.llm_adapters(harness=self, adapters=adapters)
        self.llm = LlmService(self.hook, adapters)
        self._factory = await self.hook.agent_factory(harness=self)
        await run_canaries(self)
        await start_configured(self)

    def _record(self, trace: Trace) -> None:
        """Log the decisions that plugins took part in, where a turn is open."""
        agent = trace.arguments.get("agent")
        session: Session | None = getattr(agent, "session", None)
        if session is None or session.open_turn is None:
            return
        call = trace.arguments.get("call")
        for act in trace.acts:
            session.append(
                HookDecision(
                    hook=trace.hook,
                    plugin=act.plugin,
                    version=self.plugins.version_of(act.plugin),
                    verdict=act.verdict,
                    reason=self.secrets.mask(act.reason) if isinstance(act.reason, str) else None,
                    changed=act.changed,
                    ms=act.ms,
                    turn=session.open_turn,
                    step=session.open_step,
                    call_id=getattr(call, "id", None),
                )
            )

    def _slow(self, plugin: str, hook: str, seconds: float) -> None:
        if hook == "dsh_configure" and seconds < SLOW_START:
            return  # nothing else is there yet that it could hold up
        self.warn(f"the plugin {plugin} blocks: its {hook} took {seconds:.1f} s; nothing else ran meanwhile")

    async def _close(self) -> list[Exception]:
        """Close everything, whatever becomes of the rest; return what plugins raised."""
        self._closing = True
        errors: list[Exception] = []

        async def bounded(what: str, close: Callable[[], Awaitable[Any]]) -> None:
            scope = trio.CancelScope(deadline=trio.current_time() + CLOSING_SECONDS)
            try:
                with scope:
                    await close()
            except Exception as exc:
                errors.append(exc)
            if scope.cancelled_caught:
                self.warn(f"{what} took longer than {CLOSING_SECONDS:g} s to close; it was left behind")

        await self._dispose(self.agents.list())
        await bounded("a task", self._tasks.close)
        await bounded("a plugin's task", self._owned.close)
        await bounded("a plugin", lambda: self.hook.dsh_unconfigure(harness=self))
        for provider, adapter in self.llm.adapters.items() if hasattr(self, "llm") else ():
            await bounded(f"the provider {provider}", adapter.aclose)
        return errors


def _to_stderr(message: str) -> None:
    print(f"dsh: {message}", file=sys.stderr)


@asynccontextmanager
async def open_harness(
    config: Config | None = None,
    *,
    plugins: Mapping[str, object] | None = None,
    discover: bool = True,
    safe_mode: bool = False,
    home: Path | None = None,
    warn: Callable[[str], None] | None = None,
    attended: bool = False,
) -> AsyncIterator[Harness]:
    """Open a harness for the length of an ``async with`` block.

    Args:
        config: the settings; the defaults if not given.  `dsh.config.load_config` reads files.
        plugins: plugins of the program's own, by name.  One that has the name of an installed one takes
            its place only if that one is disabled.
        discover: load the installed plugins.  Without them there is no loop but one given here.
        safe_mode: of the installed plugins load only those that come with dsh.
        home: where dsh keeps its files, instead of ``$DSH_HOME``.
        warn: told, in a sentence, what went wrong without stopping anything; prints to stderr if not given.
        attended: let plugins ask the person at the process's terminal; a program whose terminal is its own does not.

    Raises:
        ConfigError: a setting or a plugin is wrong.
        Exception: what a plugin raised while opening or closing.

    Leaving the block, also by an error or by cancellation, disposes all agents, closes their logs,
    ends every task and child process, and is shielded while it does so, with a bound.
    """
    if not trio.lowlevel.in_trio_run():
        raise AgentError("dsh runs under trio: trio.run(main); under asyncio, run that in a thread of its own")
    config = Config() if config is None else config
    if not isinstance(config, Config):
        raise ConfigError(f"the settings are a dsh.Config, as load_config reads them, not {config!r:.80}")
    warn = _to_stderr if warn is None else warn
    settings = Settings(
        deadline=config.hooks.deadline, trace=config.hooks.trace, echo=os.environ.get("DSH_TRACE_HOOKS") == "1"
    )
    manager = PluginManager(settings=settings)
    manager.add_hookspecs(Hooks)
    load_plugins(
        manager,
        given=plugins,
        discover=discover,
        disabled=config.plugins.disabled,
        required=config.plugins.required,
        guards=GUARDS,
        bundled_only=safe_mode,
        warn=warn,
    )
    try:
        async with trio.open_nursery() as nursery:
            harness = Harness(config, manager, nursery, home or dsh_home(os.environ), warn)
            harness.attended = attended
            finished = False
            try:
                await harness._open()
                yield harness
                finished = True
            finally:
                with trio.CancelScope(shield=True):
                    errors = await harness._close()
                nursery.cancel_scope.cancel()
                # An error that is on its way already must not be hidden by those of closing.
                for error in () if finished else errors:
                    harness.warn_error("while closing", error)
            if errors:
                raise errors[0] if len(errors) == 1 else ExceptionGroup("several plugins failed to close", errors)
    except BaseExceptionGroup as group:
        raise single(group) from None
