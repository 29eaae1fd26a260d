"""Handing work to children, whoever runs them: caps, time, answers by schema, the log, and what becomes of results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import trio
from attrs import define, evolve, field

from dsh import Agent, AgentError, Harness, TokenUsage, hookimpl
from dsh.durations import spoken
from dsh.errors import blamed_message, error_code
from dsh.jsonvalue import Json
from dsh.messages import PluginSource

from .answers import again, asked, judged
from .events import SubagentEnd, SubagentStart
from .family import Family, Running, alive_below, family_of, root_of
from .provider import Answer, Child, ChildInfo, Outcome, Provider, SubagentError, Task
from .report import delivery

if TYPE_CHECKING:
    from dsh.session.events import Event

    from . import SubagentHooks
    from .settings import SubagentsConfig

__all__ = ["SOURCE", "Subagents"]

ENDING_SECONDS = 60.0
"""How long a cancelled turn waits for its agent's children in the background to end."""
SOURCE = PluginSource("subagents")
"""From whom a parent hears of its children."""


class Subagents:
    """The children of one harness.

    Args:
        providers: who runs children, by name.
    """

    def __init__(self, harness: Harness, config: SubagentsConfig, providers: Mapping[str, Provider]) -> None:
        self.harness = harness
        self.config = config
        self.providers = dict(providers)

    # -- starting

    async def run(self, provider: str, task: Task) -> Outcome:
        """Have a child do `task`, and wait for its end.

        Cancelling ends the child, and returns when nothing of it is left running.  A child that fails is an
        `Outcome`, too.

        Raises:
            SubagentError: no child was started: a cap is reached, or there is no such provider.
        """
        running = self._admit(provider, task)
        return await self._work(running, task)

    async def start(self, provider: str, task: Task) -> ChildInfo:
        """Have a child do `task` in the background; it is there when this returns.

        It ends with its parent, which is told of its end.  Cancelling this wait ends the child.

        Raises:
            SubagentError: as `run`, or the child could not be started.
        """
        task = evolve(task, background=True)
        running = self._admit(provider, task)
        try:
            task.parent.start_soon(self._behind, running, task, name=running.info.id)
        except BaseException:
            self._leave(running, task, "error")
            raise
        try:
            await running.opened.wait()
        except trio.Cancelled:
            running.scope.cancel()
            raise
        if running.failure is not None:
            raise SubagentError(f"no subagent was started: {running.failure}")
        return running.info

    def _admit(self, provider: str, task: Task) -> Running:
        """Give `task` a place, without a checkpoint: of two that want the last one only one gets it."""
        if provider not in self.providers:
            known = ", ".join(sorted(self.providers)) or "none"
            raise SubagentError(f"there is no provider {provider!r} (there are: {known})", code="UNKNOWN_PROVIDER")
        parent, config = task.parent, self.config
        if parent.depth >= config.depth:
            how = "may not have any" if not config.depth else f"are at most {config.depth} deep, and this is one"
            raise SubagentError(
                f"no subagent was started: subagents {how}. Do the work yourself, with the tools that you have.",
                code="SUBAGENT_DEPTH",
            )
        alive = alive_below(root_of(parent))
        if len(alive) >= config.concurrency:
            raise SubagentError(
                f"no subagent was started: {len(alive)} are at work, which is the limit. Wait until one has finished, "
                "or do the work yourself.",
                code="SUBAGENT_CONCURRENCY",
            )
        family = family_of(parent)
        kind = None if task.type is None else task.type.name
        info = ChildInfo(
            family.next_id(), provider, task.description, type=kind, background=task.background, call_id=task.call_id
        )
        running = family.live[info.id] = Running(info)
        alive.add(running)
        return running

    # -- working

    async def _work(self, running: Running, task: Task) -> Outcome:
        """Open the child, have it answer, close it; whatever happens, its end is told."""
        work = _Work(running, task, self)
        limit = self.config.timeout
        running.scope.deadline = float("inf") if limit is None else trio.current_time() + limit
        outcome: Outcome | None = None
        try:
            try:
                with running.scope:
                    await work.do()
            except Exception as exc:
                message = self.harness.secrets.mask(blamed_message(exc))
                work.answer = Answer("error", message=message, code=error_code(exc))
            if running.scope.cancelled_caught:
                work.answer = _cut(running, limit)
            outcome = work.outcome()
        finally:
            # Cancelled from outside there is no outcome, but an end there is.
            self._ended(running, task, work.outcome("aborted") if outcome is None else outcome)
        return outcome

    def _started(self, running: Running, task: Task, session_id: str | None) -> None:
        info = running.info = evolve(running.info, session_id=session_id)
        session = task.parent.session
        start = SubagentStart(
            info.id,
            info.provider,
            info.description,
            info.session_id,
            info.type,
            info.call_id,
            info.background,
        )
        before = len(session.events)
        try:
            self._log(task.parent, start)
        finally:
            running.logged = session.open_turn is None or len(session.events) > before  # also where a listener raised
        running.opened.set()
        try:
            self._hooks(task.parent).subagent_start(agent=task.parent, child=info)
        except Exception as exc:
            self.harness.warn_error("subagent_start", exc)

    def _ended(self, running: Running, task: Task, outcome: Outcome) -> None:
        """Tell of an end.  Nothing here raises, and nothing awaits."""
        parent, info = task.parent, running.info
        was_there = running.opened.is_set()
        if not was_there:
            running.failure = outcome.message or outcome.reason
        self._leave(running, task, outcome.reason)
        if not was_there and not running.logged:
            return
        reason = "disposed" if parent.status == "disposed" else outcome.reason
        usage = None if outcome.usage == TokenUsage() else outcome.usage
        end = SubagentEnd(info.id, reason, info.session_id, outcome.message, usage, info.background)
        try:
            self._log(parent, end)
        except Exception as exc:
            self.harness.warn_error(end.type, exc)
        if not was_there:
            return
        try:
            self._hooks(parent).subagent_end(agent=parent, child=info, outcome=outcome)
        except Exception as exc:
            self.harness.warn_error("subagent_end", exc)

    def _log(self, parent: Agent, data: SubagentStart | SubagentEnd) -> None:
        """Log what there is to say of a child, now or as soon as a turn is open."""
        if parent.session.open_turn is not None:
            self.settle_owed(parent)
            parent.session.append(data)
        elif parent.status != "disposed":
            family_of(parent).owed.append(data)

    def _leave(self, running: Running, task: Task, reason: str) -> None:
        running.child = None
        alive_below(root_of(task.parent)).discard(running)
        family_of(task.parent).remember(running.info, reason)
        running.opened.set()
        running.done.set()

    def _hooks(self, agent: Agent) -> SubagentHooks:
        return cast("SubagentHooks", agent.hook)

    # -- in the background

    async def _behind(self, running: Running, task: Task) -> None:
        outcome = await self._work(running, task)
        family = family_of(task.parent)
        if not running.stopped and running.failure is None:  # whoever waits for that knows
            text = delivery(running.info, outcome, self.config.max_result)
            self._deliver(task.parent, family, text, quiet=running.quiet or outcome.reason == "aborted")
        family.news.set()

    def _deliver(self, parent: Agent, family: Family, text: str, *, quiet: bool) -> None:
        """Tell the parent: at once if it works, else by having its model asked, unless it is to be `quiet`."""
        try:
            if quiet:
                self.record(parent, text)  # a cancelled parent must not begin anew for that
            elif parent.status == "running":
                parent.steer(text, SOURCE)
            elif family.waking:
                parent.send(text, SOURCE)  # with what another child, that ended just now, has its model asked for
            elif family.wakes >= self.config.wakes:
                self.record(parent, text)
            else:
                family.wakes += 1
                family.waking = True
                parent.send(text, SOURCE)
        except AgentError:
            if parent.status != "disposed":
                raise

    async def stop(self, running: Running) -> None:
        """End a child in the background, and wait until nothing of it is left.  Cancelling leaves it ending."""
        running.stopped = True
        running.scope.cancel()
        await running.done.wait()

    def cancel_background(self, agent: Agent) -> None:
        """Begin the end of the children in the background of an agent that was cancelled."""
        family = family_of(agent)
        family.waking = False
        for running in family.background():
            running.quiet = True
            running.scope.cancel()

    async def end_background(self, agent: Agent) -> None:
        """End the children in the background, and wait until nothing of them is left."""
        self.cancel_background(agent)
        for running in family_of(agent).background():
            await running.done.wait()

    async def wait_for_news(self, agent: Agent) -> bool:
        """Wait until a child in the background has something to say, or somebody else has; whether there is more to do.

        Cancelled, it returns when those children have ended, which are cancelled with their parent.
        """
        family = family_of(agent)
        try:
            while family.background() and not family.told:
                family.news = trio.Event()
                await family.news.wait()
        except trio.Cancelled:
            with trio.move_on_after(ENDING_SECONDS, shield=True):
                await self.end_background(agent)
            raise
        return family.told

    def settle_owed(self, agent: Agent) -> None:
        """Log what happened to children while no turn was open."""
        owed = family_of(agent).owed
        while owed and agent.session.open_turn is not None:
            agent.session.append(owed.pop(0))

    def record(self, agent: Agent, text: str) -> None:
        """Tell an agent of its children without asking its model, with what its log is owed of them beside it.

        Whoever resumes the session, or never says anything in it again, finds their ends there.
        """
        settling = agent.plugins.register(_Settling(self, agent), "subagents.settling")
        try:
            agent.inject(text, SOURCE)
        finally:
            agent.plugins.unregister(name=settling)


@define(eq=False)
class _Settling:
    """Logs what is owed as soon as a turn is open."""

    subagents: Subagents
    agent: Agent

    @hookimpl
    def session_event(self, event: Event) -> None:
        if event.type == "context/message":
            self.subagents.settle_owed(self.agent)


@define(eq=False)
class _Work:
    """One child's work, as far as it got."""

    running: Running
    task: Task
    subagents: Subagents
    child: Child | None = None
    answer: Answer = field(factory=lambda: Answer("aborted", message="it was cancelled before it began"))
    structured: Json = None

    async def do(self) -> None:
        task, subagents = self.task, self.subagents
        await trio.lowlevel.checkpoint_if_cancelled()  # whom nobody wants any more, nobody need open
        async with subagents.providers[self.running.info.provider].open(task) as child:
            self.child = self.running.child = child
            subagents._started(self.running, task, child.session_id)
            self.answer = await child.ask(asked(task))
            if task.schema is None or self.answer.reason != "completed":
                return
            value, wrong = judged(self.answer.text, task.schema)
            if wrong:
                self.answer = await child.ask(again(wrong))
                if self.answer.reason != "completed":
                    return
                value, wrong = judged(self.answer.text, task.schema)
            if wrong:
                message = f"the answer does not fit the schema: {'; '.join(wrong)}"
                self.answer = Answer("answer", self.answer.text, message, "SUBAGENT_ANSWER")
            self.structured = value

    def outcome(self, reason: str | None = None) -> Outcome:
        """What it came to; `reason` where it was ended from outside."""
        answer, child, info = self.answer, self.child, self.running.info
        text = answer.text or ("" if child is None else child.said())
        structured = self.structured if answer.reason == "completed" and reason is None else None
        return Outcome(
            info.id,
            reason or answer.reason,
            text,
            answer.message if reason is None else None,
            answer.code,
            structured,
            info.session_id,
            TokenUsage() if child is None else child.usage,
        )


def _cut(running: Running, limit: float | None) -> Answer:
    if running.stopped:
        return Answer("aborted", message="it was stopped by its parent")
    if limit is not None and trio.current_time() >= running.scope.deadline:
        return Answer("timeout", message=f"it took longer than {spoken(limit)}, which is its limit")
    return Answer("aborted", message="its parent was cancelled")
