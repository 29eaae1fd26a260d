"""``dsh batch``: many tasks of a file, several at once, each an agent of its own in one program."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Collection
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import trio
from attrs import define, evolve, field

from ..agents import AgentOptions, RunResult
from ..errors import ConfigError, DshError, blamed_message, error_code
from ..hooks.markers import hookimpl
from ..jsonvalue import dumps
from ..messages import TokenUsage
from ..session.events import AssistantChunk, AssistantMessage, Event, usage_beside
from ..structure import did_you_mean
from ..tools.tool import Tools
from . import EXIT_FAILED, EXIT_OK, code_of, complain, report
from .denials import Denials
from .models import choose_model
from .outcome import exit_code, explanation
from .parser import LIMITS, is_rule
from .progress import Progress, one_line
from .run import LIMIT_REACHED, STORES
from .signals import catching
from .spent import Spent, dollars
from .start import Start, opened, settle
from .tasklist import BatchTask, Results, read_tasks, refusal

if TYPE_CHECKING:
    from ..agents import Agent
    from ..harness import Harness
    from ..jsonvalue import Json
    from ..session.log import Session

__all__ = ["run"]


COST_SECONDS = 10.0
"""How long the price of a task that is done may be looked for."""


class _Sink(Protocol):
    def add(self, record: dict[str, Json]) -> None: ...

    def close(self) -> None: ...


class _Stdout:
    """Results on stdout, which nobody can take up later."""

    def __init__(self) -> None:
        self._stream = sys.stdout

    def add(self, record: dict[str, Json]) -> None:
        print(dumps(record).decode(), file=self._stream, flush=True)

    def close(self) -> None:
        pass


def run(args: argparse.Namespace) -> int:
    """Do the tasks of `args` that have no result yet."""
    with redirect_stdout(sys.stderr):  # whatever a plugin prints
        start = settle(args)
    if args.no_session:
        plugins = start.config.plugins
        start = evolve(
            start, config=evolve(start.config, plugins=evolve(plugins, disabled=(*plugins.disabled, *STORES)))
        )
    path = start.cwd / Path(args.tasks).expanduser()
    tasks = wanted = read_tasks(path)
    same = False
    sink: _Sink = _Stdout()
    if args.out != "-":
        out = start.cwd / Path(args.out).expanduser() if args.out else path.with_suffix(".results.jsonl")
        with suppress(OSError):
            same = out.samefile(path)
        if same:
            raise ConfigError(f"{out}: holds the tasks; name another file with --out", code="USAGE")
        results = Results(out)
        sink, done = results, results.recorded
        tasks = [task for task in tasks if task.id not in done or (args.retry_failed and not done[task.id])]
    try:
        if not tasks:
            bad = sum(not done[task.id] for task in wanted)
            again = f"; {bad} failed, and --retry-failed does {'it' if bad == 1 else 'them'} again" if bad else ""
            Progress(0 if args.quiet else 1).say(f"nothing to do: every task has a result in {results.path}{again}")
            return EXIT_FAILED if bad else EXIT_OK
        with redirect_stdout(sys.stderr):
            return _run(args, start, tasks, sink)
    finally:
        sink.close()


def _run(args: argparse.Namespace, start: Start, tasks: list[BatchTask], sink: _Sink) -> int:
    batch = _Batch(args, start, deque(tasks), sink, Progress(0 if args.quiet else 1))
    try:
        return trio.run(batch.main)
    except BaseException as error:
        return report(error, debug=args.debug)[0]


def _unheard(message: str) -> None:
    """Which model was chosen is said when its task begins."""


def _left(given: tuple[str, ...] | None, wanted: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The tools of a task, of those that the flags leave: who starts the batch has the last word."""
    if given is None or wanted is None:
        return given if wanted is None else wanted
    return tuple(name for name in wanted if name in given)


@define(eq=False)
class _Doing:
    """A task that is being done, and what its agents tell."""

    task: BatchTask
    agent: Agent | None = None
    limit: str | None = None
    spent: Spent = field(factory=Spent)
    below: TokenUsage = field(factory=TokenUsage)
    denials: Denials = field(factory=Denials)

    def event(self, session: Session, event: Event) -> None:
        """Look at an event of the task's agent, or of one below it."""
        data = event.data
        own = self.agent is not None and session is self.agent.session
        self.spent.event(session, event)
        if isinstance(data, AssistantChunk):
            return
        if isinstance(data, AssistantMessage) and not own and data.usage is not None:
            self.below += data.usage
        elif (beside := usage_beside(data)) is not None and not own:
            self.below += beside
        elif event.type == LIMIT_REACHED and own:
            self.limit = getattr(data, "code", None)
        self.denials.event(session.id, event)


@define(eq=False)
class _Batch:
    """The whole of it, and the plugin that listens."""

    args: argparse.Namespace
    start: Start
    waiting: deque[BatchTask]
    sink: _Sink
    progress: Progress
    total: int = 0
    ended: int = 0
    failed: int = 0
    broken: str | None = None
    _doing: dict[str, _Doing] = field(factory=dict)
    _scope: trio.CancelScope = field(factory=trio.CancelScope)
    _stopped: str = ""

    async def main(self) -> int:
        """Do all tasks, and return the exit code."""
        self.total = len(self.waiting)
        with catching(self.stop) as caught:
            async with opened(self.start, {"cli.batch": self}) as harness:
                self._check(harness)
                self._check_names(harness)
                with self._scope:
                    async with trio.open_nursery() as nursery:
                        for _ in range(min(self.args.jobs, self.total)):
                            nursery.start_soon(self._work, harness)
        undone = self.total - self.ended
        if self._stopped and undone:
            complain(f"stopped: {self._stopped}; {undone} of {self.total} tasks have no result, and are done next time")
        self.progress.say(f"{self.ended - self.failed} completed, {self.failed} failed, {undone} not done")
        if caught.code is not None:
            return caught.code
        return EXIT_FAILED if self.failed or undone else EXIT_OK

    def stop(self, reason: str) -> None:
        """Cancel everything; what has ended has its result."""
        self._stopped = self._stopped or reason
        self._scope.cancel()

    def _check(self, harness: Harness) -> None:
        names = {info.name for info in harness.plugins.loaded()}
        needs = {**dict.fromkeys(LIMITS, "budget"), "allowed_tools": "permissions", "add_dir": "permissions"}
        for flag, plugin in {**needs, "fallback_model": "fallback"}.items():
            if plugin not in names and getattr(self.args, flag, None):
                raise ConfigError(f"--{flag.replace('_', '-')} needs the plugin {plugin}, which is not loaded")
        if "permissions" not in names and self.args.permission_mode != "bypass":
            self.start.warn("there is no permissions plugin: tools run without asking")

    def _check_names(self, harness: Harness) -> None:
        """Refuse tasks that name models and tools that there are not, before anything is paid for.

        Raises:
            ConfigError: there are some; each is told with its line.
        """
        tools = self._tools(harness)
        wrong: list[str] = []
        if any(task.model is None for task in self.waiting):
            choose_model(harness.llm.adapters, self.start.config.model, _unheard)
        for task in self.waiting:
            if task.model is not None:
                try:
                    choose_model(harness.llm.adapters, task.model, _unheard)
                except ConfigError as error:
                    wrong.append(f"line {task.line}: {error.message}")
            if tools is not None:
                absent = [name for name in (*(task.tools or ()), *task.disallowed_tools) if name not in tools]
                wrong += [f"line {task.line}: there is no tool {name}{did_you_mean(name, tools)}" for name in absent]
        if wrong:
            raise refusal([f"{self.args.tasks}, {text}" for text in wrong])

    def _tools(self, harness: Harness) -> Collection[str] | None:
        """The names of the tools that an agent has; None where that can be told only once it is there."""
        if not any(task.tools or task.disallowed_tools for task in self.waiting):
            return None
        tools = Tools()
        try:
            agent = harness.create_unstored("batch").agent
            agent.hook.tools_register(agent=agent, tools=tools)
            return tools.by_name()
        except Exception:
            return None

    async def _work(self, harness: Harness) -> None:
        while self.waiting:
            task = self.waiting.popleft()
            begun = trio.current_time()
            record = await self._record(harness, task)
            record["duration_ms"] = round((trio.current_time() - begun) * 1000)
            try:
                self.sink.add(record)
            except OSError as error:
                # What is not recorded would be paid for in vain.
                self.stop(f"a result could not be written ({error.strerror or error})")
                return
            self.ended += 1
            self.failed += record["exit_code"] != EXIT_OK
            self._say(task, record)

    def _say(self, task: BatchTask, record: dict[str, Any]) -> None:
        error = record.get("error")
        how = "completed" if error is None else f"failed: {one_line(error['message'])}"
        cost = f", {dollars(record['cost_usd'])}" if record["cost_usd"] else ""
        seconds = record["duration_ms"] / 1000
        self.progress.say(
            f"[{self.ended}/{self.total}] {one_line(task.id)} (line {task.line}) {how} ({seconds:.1f} s{cost})"
        )

    async def _record(self, harness: Harness, task: BatchTask) -> dict[str, Any]:
        """Do one task, and say what came of it; whatever happens to it, the others go on."""
        doing = _Doing(task)
        try:
            result, session_id, model = await self._do(harness, doing)
            if result.reason is None or result.reason.kind in ("aborted", "disposed"):
                # Of a task that ends because the program does nothing is to be recorded: it is done next time.
                await trio.lowlevel.checkpoint_if_cancelled()
        except Exception as error:
            failure = {"code": error_code(error) or "ERROR", "message": harness.secrets.mask(blamed_message(error))}
            code = code_of(error) if isinstance(error, DshError) else EXIT_FAILED
            return self._told(doing, RunResult("", None, 0, TokenUsage()), code, failure, None, None, None)
        unanswered = doing.denials.unanswered
        code = exit_code(result.reason, unanswered=unanswered, limit=doing.limit)
        explained = explanation(result.reason, unanswered=unanswered, limit=doing.limit)
        cost = None
        # The task is done: being stopped now must not lose what it came to.
        with trio.move_on_after(COST_SECONDS, shield=True):
            cost = await doing.spent.told(harness)
        return self._told(doing, result, code, explained, session_id, model, cost)

    async def _do(self, harness: Harness, doing: _Doing) -> tuple[RunResult, str, str]:
        task = doing.task
        cwd = self._directory(task)
        config, args = self.start.config, self.args
        model = choose_model(harness.llm.adapters, task.model or config.model, self.start.warn)
        plain = tuple(name for name in args.disallowed_tools if not is_rule(name))
        options = AgentOptions(
            model=model,
            system_prompt=task.system_prompt or config.system_prompt,
            append_system_prompt=task.append_system_prompt or config.append_system_prompt,
            tools=_left(args.tools, task.tools),
            without_tools=(*plain, *task.disallowed_tools),
            reasoning_effort=config.effort,
            one_turn=True,
        )

        def begin(agent: Agent) -> None:
            doing.agent = agent

        handle = harness.create_agent(options=options, cwd=str(cwd), setup=begin)
        id = handle.agent.session.id
        self._doing[id] = doing
        try:
            return await handle.agent.run(task.prompt), id, model
        finally:
            with trio.CancelScope(shield=True):  # its end has a bound of its own
                await handle.dispose()
            self._doing.pop(id, None)

    def _directory(self, task: BatchTask) -> Path:
        try:
            cwd = self.start.cwd / Path(task.cwd or ".").expanduser()
            there = cwd.is_dir()
        except (OSError, RuntimeError):  # a name that can be none, a person who is not there
            there = False
        if not there:
            raise ConfigError(f"cwd {one_line(task.cwd or '.')}: there is no such directory")
        return cwd

    def _told(
        self,
        doing: _Doing,
        result: RunResult,
        code: int,
        failure: dict[str, str] | None,
        session_id: str | None,
        model: str | None,
        cost: float | None,
    ) -> dict[str, Any]:
        usage = result.usage + doing.below
        record: dict[str, Any] = {
            "id": doing.task.id,
            "line": doing.task.line,
            "answer": result.text,
            "reason": None if result.reason is None else result.reason.kind,
            "exit_code": code,
            "session_id": session_id,
            "model": model,
            "usage": usage.record(),
            "cost_usd": cost,
        }
        if failure is not None:
            record["error"] = failure
        return record

    # -- what is heard

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """A subagent belongs to the task of the agent above it."""
        doing = None if agent.parent is None else self._doing.get(agent.parent.session.id)
        if doing is not None:
            self._doing[agent.session.id] = doing

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        if agent.parent is not None:
            self._doing.pop(agent.session.id, None)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        doing = self._doing.get(session.id)
        if doing is not None:
            doing.event(session, event)
