"""``dsh -p`` and ``dsh run``: one task, its answer, an exit code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, evolve, field

from ..agents import AgentOptions, RunResult
from ..errors import AgentError, ConfigError, CorruptSession, SessionNotFound
from ..hooks.markers import hookimpl
from ..jsonvalue import dumps
from ..messages import CallConfig
from ..session.events import Event, StepStart, ToolResult
from ..structure import did_you_mean
from ..tools.pipeline import UNANSWERED
from . import EXIT_FAILED, EXIT_OK, complain, report
from .models import choose_model
from .outcome import exit_code, explanation
from .output import Output
from .parser import LIMITS
from .progress import Progress
from .prompt import read_prompt
from .signals import Caught, catching
from .start import Start, opened, settle

if TYPE_CHECKING:
    from ..agents import Agent, AgentHandle
    from ..harness import Harness
    from ..session.log import Session

__all__ = ["run"]

LIMIT_REACHED = "budget/reached"
"""The event by which a plugin says which limit it ends a turn for."""

STORES = ("jsonl", "sqlite")
PROVIDERS = ("anthropic", "chat", "local")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def run(args: argparse.Namespace) -> int:
    """Do the task of `args`."""
    _check(args)
    output = Output(args.output_format)
    with redirect_stdout(sys.stderr):  # stdout is for the answer, whatever a plugin prints
        return _run(args, output)


def _run(args: argparse.Namespace, output: Output) -> int:
    start = settle(args)
    if args.no_session:
        plugins = start.config.plugins
        start = evolve(
            start, config=evolve(start.config, plugins=evolve(plugins, disabled=(*plugins.disabled, *STORES)))
        )
    prompt = read_prompt(args.prompt, start.warn)
    one = _Run(args, start, prompt, output, Progress(0 if args.quiet else 1 + args.verbose))
    try:
        code = trio.run(one.main)
    except BaseException as error:
        if output.closed:
            raise
        code, failure = report(error, debug=args.debug)
        code = one.failed(code, failure)
    one.write_result()
    return code


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that contradict each other."""
    chosen = [
        flag
        for flag, given in (
            ("--continue", args.continue_),
            ("--resume", args.resume is not None),
            ("--session-id", args.session_id is not None),
            ("--no-session", args.no_session),
        )
        if given
    ]
    # an id of its own for a session that is not stored is fine, and so is one for a fork
    forks = args.fork and chosen in (["--continue", "--session-id"], ["--resume", "--session-id"])
    if len(chosen) > 1 and chosen != ["--session-id", "--no-session"] and not forks:
        raise ConfigError(f"{' and '.join(chosen)} exclude each other", code="USAGE")
    if args.resume == "":
        raise ConfigError(
            "--resume needs an ID: choosing one from a list is not available yet (`dsh sessions list`)", code="USAGE"
        )
    if args.fork and not args.continue_ and args.resume is None:
        raise ConfigError("--fork needs the session to begin with: -c, or -r ID", code="USAGE")
    if args.session_id is not None and not _ID.fullmatch(args.session_id):
        raise ConfigError(
            "--session-id: letters, digits, - _ and . make an id, at most 128, first a letter or digit", code="USAGE"
        )
    if args.include_partial and args.output_format != "stream-json":
        raise ConfigError("--include-partial needs --output-format stream-json", code="USAGE")


@define(eq=False)
class _Run:
    """One run, and the plugin that listens to it."""

    args: argparse.Namespace
    start: Start
    prompt: str
    output: Output
    progress: Progress
    finished: bool = False
    result: dict[str, Any] = field(factory=dict)
    agent: Agent | None = None
    harness: Harness | None = None
    session_id: str | None = None
    model: str = ""
    steps: int = 0
    unanswered: bool = False
    limit: str | None = None
    _agents: dict[str, Agent] = field(factory=dict)
    _said: set[str] = field(factory=set)
    _stopped: str = ""
    _scope: trio.CancelScope = field(factory=trio.CancelScope)

    async def main(self) -> int:
        """Open everything, do the task, close everything, and return the exit code."""
        code = EXIT_FAILED
        self.output.on_closed = lambda: self.stop("nobody reads stdout any more")
        plugins: dict[str, object] = {"cli.run": self}
        if self.args.debug:
            from .debug import RequestDigests

            plugins["cli.debug"] = RequestDigests()
        with catching(self.stop) as caught:
            with self._scope:
                async with opened(evolve(self.start, warn=self.warn), plugins) as harness:
                    self.harness = harness
                    code = await self._drive(harness, caught)
            code = code if caught.code is None else caught.code
            if self._scope.cancelled_caught and not self.finished:
                failure = {"code": "ABORTED", "message": f"stopped: {self._stopped}"}
                complain(failure["message"])
                self.finish("", {"reason": None, "exit_code": code, "error": failure})
        return code

    def warn(self, message: str) -> None:
        """Tell the person; an error that everything meets once a run, as where nothing can be stored."""
        if not self.args.quiet and (not self._agents or self._is_new(message.partition(": ")[2] or message)):
            self.start.warn(message.removeprefix("turn/end: "))

    def _is_new(self, error: str) -> bool:
        clause = error.partition("; ")[0]
        if clause in self._said and not self.steps:  # later ones tell how much was lost
            return False
        self._said.add(clause)
        return True

    def stop(self, reason: str) -> None:
        """End the run in order."""
        self._stopped = reason
        if self.agent is not None:
            self.agent.cancel(reason)
        elif not self.finished:
            self._scope.cancel()

    async def _drive(self, harness: Harness, caught: Caught) -> int:
        try:
            handle = await self._agent(harness)
        except AgentError as error:  # there is no loop
            raise ConfigError(error.message, code=error.code) from error
        self._say_first(harness)
        try:
            agent = self.agent = handle.agent
            self._check_tools(agent)
            result = await agent.run(self.prompt)
            code = self._code(harness, result) if caught.code is None else caught.code
            self._tell(agent, result, code)
        finally:
            self.agent = None
            with trio.CancelScope(shield=True):
                await handle.dispose()
        return code

    def _code(self, harness: Harness, result: RunResult) -> int:
        header = None if self.agent is None else self.agent.session.request_header()
        provider = (header.config.model if header is not None else "").partition("/")[0]
        adapter = harness.llm.adapters.get(provider)
        keyless = bool(getattr(adapter, "broken", None)) or not getattr(adapter, "configured", True)
        return exit_code(result.reason, unanswered=self.unanswered, limit=self.limit, keyless=keyless)

    def _say_first(self, harness: Harness) -> None:
        names = {info.name for info in harness.plugins.loaded()}
        for name in self.start.plugins:
            if not any(info.hooks for info in harness.plugins.loaded() if info.name.partition(".")[0] == name):
                self.start.warn(f"the plugin {name} implements no hook: it needs functions marked with @hookimpl")
        for flag in LIMITS:
            if "budget" not in names and getattr(self.args, flag) is not None:
                raise ConfigError(f"--{flag.replace('_', '-')} needs the plugin budget, which is not loaded")
        if "permissions" not in names and self.args.permission_mode != "bypass":
            self.start.warn("there is no permissions plugin: tools run without asking")
        if self.args.no_session:
            others = {impl.plugin_name for impl in harness.plugins.implementations("session_open")}
            for name in sorted(others):
                self.start.warn(f"--no-session: the plugin {name} may store the session all the same")

    async def _agent(self, harness: Harness) -> AgentHandle:
        config = self.start.config
        resumed = await self._resumed(harness)
        model = ""
        named = self.args.model or config.origins.get(("model",), "").startswith("--config")
        if resumed is None or named:
            model = self._chosen(harness, config.model)
        options = AgentOptions(
            model=model,
            system_prompt=config.system_prompt,
            append_system_prompt=config.append_system_prompt,
            tools=self.args.tools,
            without_tools=self.args.disallowed_tools,
        )
        await self._check_id(harness)
        if resumed is None:
            return harness.create_agent(session_id=self.args.session_id, options=options, cwd=str(self.start.cwd))
        if self.args.fork:
            handle = await self._forked(harness, resumed, options)
        else:
            handle = await harness.resume_agent(resumed, options=options)
        if not model:
            last = handle.agent.session.request_header()
            wanted = last.config.model if last is not None else config.model
            self.model = self._chosen(harness, wanted)
        cwd = handle.agent.session.header.cwd
        if cwd is not None and cwd != str(self.start.cwd):
            self.start.warn(f"the session goes on in its own directory, {cwd}")
        return handle

    def _chosen(self, harness: Harness, wanted: str) -> str:
        left_out = harness.plugins.blocked | harness.plugins.failed.keys()
        try:
            return choose_model(harness.llm.adapters, wanted, self.start.warn)
        except ConfigError as error:
            missing = [name for name in PROVIDERS if name in left_out]
            if not missing or error.code != "NO_MODEL":
                raise
            what = "plugins" if len(missing) > 1 else "plugin"
            text = f"{error.message}\n  left out or not loaded: the {what} {' and '.join(missing)}"
            raise ConfigError(text, code=error.code) from None

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

    async def _forked(self, harness: Harness, parent: str, options: AgentOptions) -> AgentHandle:
        """An agent on a new session that begins as `parent` did; `parent` itself is only read."""
        from ..session.fork import fork_seed
        from .stored import read

        stored = await read(harness, parent)
        seed = fork_seed(stored, harness.codec)
        return harness.create_agent(
            session_id=self.args.session_id, options=options, cwd=stored.header.cwd, seed=seed, parent_session=parent
        )

    async def _resumed(self, harness: Harness) -> str | None:
        if not self.args.continue_:
            found: str | None = self.args.resume
            return found
        from ..session.store import SessionQuery, SessionsFound

        sessions = SessionsFound()
        query = SessionQuery(cwd=str(self.start.cwd), limit=1, children=False)
        await harness.hook.session_list(query=query, found=sessions)
        for info in sessions:
            return info.id
        raise SessionNotFound(f"--continue: there is no session of {self.start.cwd} yet")

    def _check_tools(self, agent: Agent) -> None:
        named = [*(self.args.tools or ()), *self.args.disallowed_tools]
        if not named:
            return
        from ..tools.tool import Tools

        tools = Tools()
        agent.hook.tools_register(agent=agent, tools=tools)
        known = tools.by_name()
        for name in named:
            if name not in known:
                raise ConfigError(f"there is no tool {name}{did_you_mean(name, known)}", code="USAGE")

    def _tell(self, agent: Agent, result: RunResult, code: int) -> None:
        failure = explanation(result.reason, unanswered=self.unanswered, limit=self.limit)
        if failure is not None and self._is_new(failure["message"]):
            complain(failure["message"])
        header = agent.session.request_header()
        usage = result.usage
        reason = None if result.reason is None else result.reason.kind
        more: dict[str, Any] = {
            "reason": reason,
            "exit_code": code,
            "model": header.config.model if header is not None else None,
            "steps": self.steps,
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": usage.cache_read_tokens,
                "cache_write_tokens": usage.cache_write_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
            },
        }
        if failure is not None:
            more["error"] = failure
        self.finish(result.text, more)
        lost = result.reason is None or (
            self.steps == 0 and failure is not None and failure["code"].startswith("SESSION")
        )
        is_kept = not self.args.no_session and not lost and bool(agent.harness.plugins.implementations("session_open"))
        stored = f"session {agent.session.id}: " if is_kept else ""
        read = usage.input_tokens + (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        self.progress.say(f"{stored}{steps}, {read} tokens in, {usage.output_tokens} out")

    def finish(self, text: str, more: Mapping[str, Any]) -> None:
        """Write the answer; a document waits for `write_result`, since closing may fail."""
        self.finished = True
        self.result = {"type": "result", "session_id": self.session_id, "text": text, **more}
        if self.output.format == "text":
            self.output.finish(text, self.result)

    def failed(self, code: int, failure: Mapping[str, str]) -> int:
        """Note an error that left the run, of closing if it has finished; return the exit code."""
        if not self.finished:
            self.finish("", {"reason": None, "exit_code": code, "error": failure})
        elif self.result["exit_code"] == EXIT_OK:
            self.result |= {"exit_code": code, "error": failure}
        return int(self.result["exit_code"])

    def write_result(self) -> None:
        """Write the document, or the last record."""
        if self.output.format != "text" and self.result:
            self.output.finish("", self.result)

    # -- what is heard

    @hookimpl(trylast=True)
    def agent_request(self, agent: Agent, config: CallConfig) -> CallConfig | None:
        """A resumed session goes on with the model that it had, unless the person named another."""
        if config.model or agent is not self.agent or not self.model:
            return None
        return evolve(config, model=self.model)

    @hookimpl
    def session_created(self, session: Session) -> None:
        if self.session_id is None:
            self.session_id = session.id
        header = session.header
        record = {"type": "session", "session_id": session.id, "cwd": header.cwd, "created_at": header.created_at}
        if header.parent_session is not None:
            record["parent_session"] = header.parent_session
        if self.output.streams and not self.finished:
            self.output.record({**record, "resumed_events": len(session.events)})

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        self._agents[agent.session.id] = agent

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        if event.type == "assistant/chunk" and not self.args.include_partial:
            return  # by far the most events
        data = event.data
        if isinstance(data, StepStart) and session.id == self.session_id:
            self.steps += 1
        elif isinstance(data, ToolResult) and data.error is not None and data.error.code == UNANSWERED:
            self.unanswered = True
        elif event.type == LIMIT_REACHED and session.id == self.session_id:
            self.limit = getattr(data, "code", None)
        agent = self._agents.get(session.id)
        self.progress.event(session.id, event, agent, agent.depth if agent is not None else 0)
        if not self.output.streams or self.finished or self.harness is None:
            return
        start = b'{"type":"event","session_id":' + dumps(session.id) + b',"event":'
        self.output.line(start + self.harness.codec.encode(event) + b"}")
