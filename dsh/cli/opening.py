"""Which agent a command line asks for - on a new session, a stored one, a fork of it - and which model it asks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from ..agents import AgentOptions
from ..errors import ConfigError, CorruptSession, SessionNotFound
from ..hooks.markers import hookimpl
from ..hooks.step import wraps
from ..messages import CallConfig
from ..structure import did_you_mean
from .choice import Unsettled, is_first, services
from .models import NO_MODEL, choose_model, unmet_effort
from .parser import LIMITS, is_rule
from .start import Start

if TYPE_CHECKING:
    from ..agents import Agent, AgentHandle
    from ..harness import Harness

__all__ = ["NO_ID", "Opening"]

PROVIDERS = ("anthropic", "chat", "local")
NO_ID = "--resume needs an ID where nobody can choose from a list; `dsh sessions list` shows them"


@define(eq=False)
class Opening:
    """Opens agents, and is the plugin that keeps a resumed session with its model.

    Attributes:
        one_turn: the agent is for one task.
        model: the one that the agent opened last asks, if no plugin says otherwise.
    """

    args: argparse.Namespace
    start: Start
    one_turn: bool
    model: str = ""
    _kept: dict[str, tuple[str, str | None]] = field(factory=dict)
    """By session: the model and the effort that a resumed session had."""

    async def first(self, harness: Harness) -> AgentHandle:
        """The agent that the command line asks for.

        Raises:
            ConfigError: what it asks for cannot be.
            SessionNotFound: there is no such session.
            AgentError: there is no loop.
        """
        await self._check_id(harness)
        return await self.open(harness, await self._resumed(harness), self.args.fork, new_id=self.args.session_id)

    async def open(
        self,
        harness: Harness,
        session_id: str | None,
        fork: bool = False,
        turn: int | None = None,
        new_id: str | None = None,
    ) -> AgentHandle:
        """An agent on a new session, on the session of that id, or on a fork of it, up to the end of a turn.

        Raises:
            ConfigError: no model can be asked.
            SessionError: the session cannot be opened.
        """
        config = self.start.config
        named = self.args.model or config.origins.get(("model",), "").startswith("--config")
        model = self._chosen(harness, config.model) if session_id is None or named else ""
        options = AgentOptions(
            model=model,
            system_prompt=config.system_prompt,
            append_system_prompt=config.append_system_prompt,
            tools=self.args.tools,
            without_tools=tuple(name for name in self.args.disallowed_tools if not is_rule(name)),
            reasoning_effort=config.effort,
            one_turn=self.one_turn,
        )
        if session_id is None:
            self._check_effort(harness, model)
            self.model = model
            if self.one_turn and (problem := self.keyless(harness)):
                raise ConfigError(problem, code="AUTH")  # before there is a session, which -c would go on with
            return harness.create_agent(session_id=new_id, options=options, cwd=str(self.start.cwd))
        if fork:
            handle = await self._forked(harness, session_id, turn, options, new_id)
        else:
            handle = await harness.resume_agent(session_id, options=options)
        session = handle.agent.session
        if not model:
            last = session.request_header()
            model = self._chosen(harness, last.config.model if last is not None else config.model)
            self._kept[session.id] = (model, last.config.reasoning_effort if last is not None else None)
        self.model = model
        self._check_effort(harness, model)
        cwd = session.header.cwd
        if cwd is not None and cwd != str(self.start.cwd):
            self.start.warn(f"the session goes on in its own directory, {cwd}")
        return handle

    @hookimpl(trylast=True)
    def agent_request(self, agent: Agent, config: CallConfig) -> CallConfig | None:
        """A resumed session goes on with the model and the effort that it had, unless the person named others."""
        if config.model or agent.session.id not in self._kept:
            return None
        model, effort = self._kept[agent.session.id]
        return evolve(config, model=model, reasoning_effort=config.reasoning_effort or effort)

    def say_first(self, harness: Harness) -> None:
        """Refuse flags that nobody minds.

        Raises:
            ConfigError: a flag needs a plugin that is not loaded.
        """
        names = {info.name for info in harness.plugins.loaded()}
        for flag in LIMITS:
            if "budget" not in names and getattr(self.args, flag) is not None:
                raise ConfigError(f"--{flag.replace('_', '-')} needs the plugin budget, which is not loaded")
        for flag in ("allowed_tools", "add_dir"):
            if "permissions" not in names and getattr(self.args, flag):
                raise ConfigError(f"--{flag.replace('_', '-')} needs the plugin permissions, which is not loaded")
        if "fallback" not in names and self.args.fallback_model:
            raise ConfigError("--fallback-model needs the plugin fallback, which is not loaded")
        if "sandbox" not in names and self.args.sandbox in ("read-only", "workspace-write"):
            raise ConfigError("--sandbox needs the plugin sandbox, which is not loaded")
        if "permissions" not in names and self.args.permission_mode != "bypass":
            self.start.warn("there is no permissions plugin: tools run without asking")
        if self.args.no_session:
            others = {impl.plugin_name for impl in harness.plugins.implementations("session_open")}
            for name in sorted(others):
                self.start.warn(f"--no-session: the plugin {name} may store the session all the same")

    def check_tools(self, agent: Agent) -> None:
        """Refuse names of tools that there are not.

        Raises:
            ConfigError: there is one.
        """
        named = [*(self.args.tools or ()), *(name for name in self.args.disallowed_tools if not is_rule(name))]
        if not named:
            return
        from ..tools.tool import Tools

        tools = Tools()
        agent.hook.tools_register(agent=agent, tools=tools)
        known = tools.by_name()
        for name in named:
            if name not in known:
                raise ConfigError(f"there is no tool {name}{did_you_mean(name, known)}", code="USAGE")

    def keyless(self, harness: Harness) -> str | None:
        """Why the model cannot be asked for want of a key; None if it can, or if somebody else may answer."""
        from .catalogue import problem_of

        provider = self.model.partition("/")[0]
        adapter = harness.llm.adapters.get(provider)
        problem = None if getattr(adapter, "configured", True) else problem_of(adapter)
        if problem is None or self._may_be_answered(harness):
            return None
        how = f", or let dsh keep it: dsh auth set {provider}" if problem.startswith("there is no key") else ""
        return f"{provider}: {problem}{how}"

    def _may_be_answered(self, harness: Harness) -> bool:
        """Whether plugins may have another model asked, or answer for it."""
        if self.args.fallback_model or self.start.config.tables.get("fallback", {}).get("models"):
            return True
        own = {info.name for info in harness.plugins.loaded() if info.distribution == "dsh-harness"}
        for hook in ("agent_request", "llm_stream"):
            for impl in harness.plugins.implementations(hook):
                name = impl.plugin_name.partition(".")[0]
                answers = hook == "llm_stream" and not wraps(impl)  # as a recording does
                if answers or (name not in own and name not in ("dsh", "cli")):
                    return True
        return False

    def _check_effort(self, harness: Harness, model: str) -> None:
        told = unmet_effort(harness.llm.adapters, model, self.start.config.effort)
        if told is not None:
            self.start.warn(told)

    def _chosen(self, harness: Harness, wanted: str) -> str:
        left_out = harness.plugins.blocked | harness.plugins.failed.keys()
        adapters = harness.llm.adapters
        notices: list[str] = []
        try:
            model = choose_model(adapters, wanted, notices.append)
        except ConfigError as error:
            if error.code != "NO_MODEL":
                raise
            missing = [name for name in PROVIDERS if name in left_out]
            what = "plugins" if len(missing) > 1 else "plugin"
            more = f"\n  left out or not loaded: the {what} {' and '.join(missing)}" if missing else ""
            if not wanted:
                raise Unsettled(f"{error.message}{more}", services(adapters)) from None
            raise ConfigError(f"{error.message}{more}", code=error.code) from None
        if notices and not self.one_turn and is_first(self.start):
            raise Unsettled(NO_MODEL, services(adapters))
        for text in notices:
            self.start.warn(text)
        return model

    async def _check_id(self, harness: Harness) -> None:
        wanted = self.args.session_id
        if wanted is None:
            return
        try:
            taken = await harness.hook.session_read(session_id=wanted) is not None
        except CorruptSession:
            taken = True
        if taken:
            raise ConfigError(
                f"--session-id {wanted}: there is a session {wanted!r} already; resume it, or choose another id",
                code="SESSION_ALREADY_EXISTS",
            )

    async def _forked(
        self, harness: Harness, parent: str, turn: int | None, options: AgentOptions, new_id: str | None
    ) -> AgentHandle:
        """An agent on a new session that begins as `parent` did; `parent` itself is only read."""
        from ..session.fork import fork_seed
        from ..session.lineage import LINEAGE, read_lineage
        from ..session.store import StoredSession
        from .stored import read

        live = harness.sessions.get(parent)
        stored = await read(harness, parent) if live is None else StoredSession(live.header, live.events)
        seed = fork_seed(stored, harness.codec, turn=turn)
        lineage = (parent, *await read_lineage(harness.hook, stored.header))
        handle = harness.create_agent(
            session_id=new_id, options=options, cwd=stored.header.cwd, seed=seed, parent_session=parent
        )
        handle.agent.session.stash[LINEAGE] = lineage
        return handle

    async def _resumed(self, harness: Harness) -> str | None:
        if not self.args.continue_ and self.args.resume != "":
            found: str | None = self.args.resume
            return found
        flag = "--continue" if self.args.continue_ else "--resume"
        from ..session.store import SessionQuery, SessionsFound

        sessions = SessionsFound()
        query = SessionQuery(cwd=str(self.start.cwd), limit=1 if self.args.continue_ else 100, children=False)
        await harness.hook.session_list(query=query, found=sessions)
        if not len(sessions):
            raise SessionNotFound(f"{flag}: there is no session of {self.start.cwd} yet")
        infos = list(sessions)
        if self.args.continue_:
            return infos[0].id
        lines = [info.line() for info in infos]
        chosen = await harness.hook.person_choose(harness=harness, question="Go on with which session?", choices=lines)
        if chosen is None:
            raise ConfigError(NO_ID, code="USAGE")
        if not 0 <= chosen < len(infos):
            raise KeyboardInterrupt  # they went away
        return infos[chosen].id
