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

from ..agents import RunResult
from ..errors import AgentError, ConfigError
from ..hooks.markers import hookimpl
from ..jsonvalue import dumps
from ..messages import TokenUsage
from ..session.events import AssistantChunk, AssistantMessage, Event, StepStart, usage_beside
from ..terminal import person_present
from . import EXIT_FAILED, EXIT_OK, EXIT_USAGE, complain, report
from .confined import UNAVAILABLE, Confined
from .denials import Denials
from .opening import NO_ID, Opening
from .outcome import exit_code, explanation
from .output import Output
from .progress import Progress
from .prompt import read_prompt
from .signals import Caught, catching
from .spent import Spent, dollars
from .start import Start, opened, settle

if TYPE_CHECKING:
    from ..agents import Agent
    from ..harness import Harness
    from ..session.log import Session

__all__ = ["STORES", "check_flags", "run", "started"]

LIMIT_REACHED = "budget/reached"
"""The event by which a plugin says which limit it ends a turn for."""

STORES = ("jsonl", "sqlite")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def run(args: argparse.Namespace) -> int:
    """Do the task of `args`."""
    check_flags(args)
    output = Output(args.output_format)
    with redirect_stdout(sys.stderr):  # stdout is for the answer, whatever a plugin prints
        return _run(args, output)


def started(args: argparse.Namespace) -> Start:
    """What a run, or a conversation, starts with."""
    start = settle(args, may_ask=True)
    if not args.no_session:
        return start
    plugins = start.config.plugins
    return evolve(start, config=evolve(start.config, plugins=evolve(plugins, disabled=(*plugins.disabled, *STORES))))


def _run(args: argparse.Namespace, output: Output) -> int:
    start = started(args)
    prompt = read_prompt(args.prompt, start.warn)
    while True:
        one = _Run(args, start, prompt, output, Progress(0 if args.quiet else 1 + args.verbose))
        failed: BaseException | None = None
        try:
            code = trio.run(one.main)
        except BaseException as error:
            if output.closed:
                raise
            failed = error
        # Not while it is handled: what fails while a person is asked would name it as a cause.
        if failed is not None:
            again = _answered(failed, args, start)
            if isinstance(again, Start):
                start = again
                continue
            code, failure = report(again, debug=args.debug)
            code = one.failed(code, failure)
        one.write_result()
        return code


def _answered(error: BaseException, args: argparse.Namespace, start: Start) -> Start | BaseException:
    """What to start with instead, once a person has said which model to ask; or what is to be reported."""
    from .first import answered

    try:
        return answered(error, start, lambda: started(args)) or error
    except BaseException as failure:
        return failure


def check_flags(args: argparse.Namespace, *, may_choose: bool = False) -> None:
    """Refuse flags that contradict each other.

    Args:
        may_choose: somebody may be there to choose a session, where ``--resume`` names none.
    """
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
    if args.resume == "" and not may_choose:
        raise ConfigError(NO_ID, code="USAGE")
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
    opening: Opening = field(init=False)
    finished: bool = False
    result: dict[str, Any] = field(factory=dict)
    agent: Agent | None = None
    harness: Harness | None = None
    session_id: str | None = None
    steps: int = 0
    spent: Spent = field(factory=Spent)
    below: TokenUsage = field(factory=TokenUsage)
    cost: float | None = None
    denials: Denials = field(factory=Denials)
    confined: Confined | None = None
    limit: str | None = None
    _agents: dict[str, Agent] = field(factory=dict)
    _said: set[str] = field(factory=set)
    _stopped: str = ""
    _scope: trio.CancelScope = field(factory=trio.CancelScope)

    def __attrs_post_init__(self) -> None:
        self.opening = Opening(self.args, self.start, one_turn=True)

    async def main(self) -> int:
        """Open everything, do the task, close everything, and return the exit code."""
        code = EXIT_FAILED
        self.output.on_closed = lambda: self.stop("nobody reads stdout any more")
        self.confined = Confined(self.progress, bool(self.args.verbose))
        plugins: dict[str, object] = {
            "cli.run": self,
            "cli.opening": self.opening,
            "cli.confined": self.confined,
        }
        if self.args.debug:
            from .debug import RequestDigests

            plugins["cli.debug"] = RequestDigests()
        with catching(self.stop) as caught:
            with self._scope:
                async with opened(evolve(self.start, warn=self.warn), plugins, attended=person_present()) as harness:
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
            handle = await self.opening.first(harness)
        except AgentError as error:  # there is no loop
            raise ConfigError(error.message, code=error.code) from error
        self.opening.say_first(harness)
        try:
            agent = self.agent = handle.agent
            self.opening.check_tools(agent)
            result = await agent.run(self.prompt)
            code = self._code(harness, result) if caught.code is None else caught.code
            self.cost = await self._cost(harness)
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
        if self.confined is not None and self.confined.missed and result.reason is not None:
            return EXIT_USAGE
        keyless = bool(getattr(adapter, "broken", None)) or not getattr(adapter, "configured", True)
        return exit_code(result.reason, unanswered=self.denials.unanswered, limit=self.limit, keyless=keyless)

    async def _cost(self, harness: Harness) -> float | None:
        """What the run cost, where somebody will read it: prices take a moment to look up."""
        if self.output.format == "text" and not self.args.verbose:
            return None
        return await self.spent.told(harness)

    def _tell(self, agent: Agent, result: RunResult, code: int) -> None:
        failure = explanation(result.reason, unanswered=self.denials.unanswered, limit=self.limit)
        if self.confined is not None and self.confined.missed and code == EXIT_USAGE:
            failure = {"code": UNAVAILABLE, "message": "commands did not run: the sandbox they need cannot be had here"}
        if failure is not None and self._is_new(failure["message"]):
            complain(failure["message"])
        if code == EXIT_OK and not result.text.strip():
            complain("the model answered nothing")
        if self.denials.unanswered:
            complain("\n".join(self.denials.lines()))
        header = agent.session.request_header()
        usage = result.usage + self.below
        reason = None if result.reason is None else result.reason.kind
        more: dict[str, Any] = {
            "reason": reason,
            "exit_code": code,
            "model": header.config.model if header is not None else None,
            "steps": self.steps,
            "usage": usage.record(),
            "cost_usd": self.cost,
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
        cost = f", {dollars(self.cost)}" if self.args.verbose else ""
        self.progress.say(f"{stored}{steps}, {read} tokens in, {usage.output_tokens} out{cost}")

    def finish(self, text: str, more: Mapping[str, Any]) -> None:
        """Write the answer; a document waits for `write_result`, since closing may fail."""
        self.finished = True
        denied = self.denials.records
        self.result = {"type": "result", "session_id": self.session_id, "text": text, "denied": denied, **more}
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

    @hookimpl
    def session_created(self, session: Session) -> None:
        if self.harness is None:
            return  # while it opens, guards are tried on a throwaway agent
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
        data = event.data
        self.spent.event(session, event)
        if isinstance(data, AssistantChunk) and not self.args.include_partial:  # by far the most events
            return
        if isinstance(data, StepStart) and session.id == self.session_id:
            self.steps += 1
        elif isinstance(data, AssistantMessage) and session.id != self.session_id and data.usage is not None:
            self.below += data.usage  # of subagents: the run is all of them
        elif (beside := usage_beside(data)) is not None and session.id != self.session_id:
            self.below += beside
        elif event.type == LIMIT_REACHED and session.id == self.session_id:
            self.limit = getattr(data, "code", None)
        self.denials.event(session.id, event)
        agent = self._agents.get(session.id)
        self.progress.event(session.id, event, agent, agent.depth if agent is not None else 0)
        if not self.output.streams or self.finished or self.harness is None:
            return
        start = b'{"type":"event","session_id":' + dumps(session.id) + b',"event":'
        self.output.line(start + self.harness.codec.encode(event) + b"}")
