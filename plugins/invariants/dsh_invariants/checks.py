"""The checks, as a plugin: each hook's implementation looks at one promise."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

from attrs import define, field

from dsh import Allow, Ask, DshError, StashKey, hookimpl
from dsh.session.events import TurnStart
from dsh.session.grammar import LogGrammar

from .request import difference
from .scope import PROBE, Probe, ProbeKey

if TYPE_CHECKING:
    from dsh import Agent, Request, Session, ToolCall, ToolResult
    from dsh.agents import AgentStatus
    from dsh.llm.chunks import ChunkStream
    from dsh.prompt import Sections
    from dsh.session import Event

__all__ = ["Checks", "InvariantError"]

Wrapper: TypeAlias = "Generator[None, Any, Any]"


class InvariantError(DshError):
    """Something that dsh promises is not so; the message names the promise and the place."""

    default_code = "INVARIANT"


@define(eq=False)
class _Log:
    """What is known of one session.

    Attributes:
        begun, ended: the last event whose notification began, and ended.
        early: the first turn that began since the agent was created, by its event.
    """

    grammar: LogGrammar = field(factory=LogGrammar)
    begun: int = -1
    ended: int = -1
    early: int | None = None


LOG: StashKey[_Log] = StashKey("invariants: the log so far")
STATUS: StashKey[str] = StashKey("invariants: the last status")


class Checks:
    """Checks everything in one harness.

    Args:
        warn: told of everything that is found, as its error may not reach a person.

    Attributes:
        violations: all that was found.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.violations: list[InvariantError] = []
        self._warn = warn
        self._calls: WeakKeyDictionary[ToolCall, str] = WeakKeyDictionary()

    def _violated(self, name: str, what: str) -> NoReturn:
        error = InvariantError(f"invariant {name!r} violated: {what}")
        self.violations.append(error)
        self._warn(str(error))
        raise error

    # -- the log, and who hears of it

    @hookimpl(tryfirst=True)
    def session_created(self, session: Session) -> None:
        """Begin where the session begins."""
        self._log(session, len(session.events))

    @hookimpl(tryfirst=True, specname="session_event")
    def before_listeners(self, session: Session, event: Event) -> None:
        """Check the event; everybody else hears of it after this."""
        log = self._log(session, event.seq)
        where = f"event {event.seq} ({event.type}) of session {session.id}"
        expected, unheard = log.begun + 1, log.ended != log.begun
        if event.seq < expected:
            self._violated("notification", f"{where} is told again")
        log.begun = event.seq
        for missed in range(expected, event.seq):
            log.grammar.take(session.events[missed])
        found = log.grammar.take(event)
        if event.seq > expected:
            self._violated("notification", f"{where} is told, where event {expected} comes next")
        if unheard:
            self._violated("notification", f"{where} is told before everybody has heard of event {expected - 1}")
        if found:
            self._violated("log", f"{where}: {'; '.join(found)}")
        if log.early is None and isinstance(event.data, TurnStart):
            log.early = event.seq

    @hookimpl(trylast=True, specname="session_event")
    def after_listeners(self, session: Session, event: Event) -> None:
        """Everybody else has heard of the event."""
        self._log(session, event.seq).ended = event.seq
        probe = session.stash.get(ProbeKey, None)
        if probe is not None:
            self._heard(probe, "session_event")

    @hookimpl(tryfirst=True)
    async def session_flush(self, session: Session) -> None:
        """Nothing is in the log that nobody heard of."""
        log = self._log(session, len(session.events))
        if session.notify is not None and log.begun < len(session.events) - 1:
            missed = session.events[log.begun + 1]
            log.begun = log.ended = len(session.events) - 1
            for event in session.events[missed.seq :]:
                log.grammar.take(event)
            self._violated("notification", f"event {missed.seq} ({missed.type}) of session {session.id} was not told")

    def _log(self, session: Session, length: int) -> _Log:
        """The state of a session; at first, that of its first `length` events."""
        log = session.stash.get(LOG, None)
        if log is None:
            log = session.stash.setdefault(LOG, _Log(begun=length - 1, ended=length - 1))
            found = [f"event {seq}: {text}" for seq in range(length) for text in log.grammar.take(session.events[seq])]
            if found:
                more = f", and {len(found) - 1} more" if len(found) > 1 else ""
                self._warn(f"the log that session {session.id} began with breaks a rule: {found[0]}{more}")
        return log

    # -- requests

    @hookimpl(wrapper=True, tryfirst=True)
    def llm_stream(self, agent: Agent | None, request: Request) -> Generator[None, ChunkStream, ChunkStream]:
        """Compare a step's request with the one that the log says it is."""
        if agent is not None and request.session_id == agent.session.id:
            log = self._log(agent.session, len(agent.session.events))
            # Once its message is there, a step asks for nothing more; what comes then is some plugin's own.
            if log.grammar.step is not None and not log.grammar.answered:
                found = difference(request, agent.session)
                if found:
                    self._violated("request", f"step {log.grammar.step} of session {agent.session.id}: {found}")
        return (yield)

    # -- tools

    @hookimpl(wrapper=True, tryfirst=True, deadline=None)
    def tools_pre_execute(self, call: ToolCall) -> Wrapper:
        """Keep what the gate says."""
        self._calls[call] = "which the gate has not answered yet"
        verdict = yield
        # A question may still be answered by an approver of the agent's own, around this.
        self._calls[call] = "" if isinstance(verdict, Allow | Ask) else "which was denied"
        return verdict

    @hookimpl(wrapper=True, tryfirst=True)
    def tools_execute(self, call: ToolCall) -> Generator[None, ToolResult, ToolResult]:
        """Let run what may run."""
        obstacle = self._calls.get(call, "about which the gate was not asked")
        if obstacle:
            self._violated("tool", f"the call {call.id!r} of {call.name} runs, {obstacle}")
        self._calls[call] = "which ran before"
        return (yield)

    # -- agents, and the scopes of what is told about them

    @hookimpl(tryfirst=True)
    def agent_created(self, agent: Agent) -> None:
        """Listen in its scope from now on."""
        self._log(agent.session, len(agent.session.events)).early = None
        if agent.plugins is not agent.harness.plugins:
            probe = Probe(agent)
            agent.session.stash[ProbeKey] = probe
            agent.plugins.register(probe, PROBE)

    @hookimpl(tryfirst=True)
    def agent_session_start(self, agent: Agent) -> None:
        """There may be turns from now on, and not before."""
        early = self._log(agent.session, len(agent.session.events)).early
        if early is not None:
            self._violated("start", f"agent {agent.id} starts, and a turn began before that, with event {early}")

    def _heard(self, probe: Probe, hook: str) -> None:
        """Compare what an agent's scope heard with what everybody heard."""
        strangers, probe.strangers = probe.strangers, []
        if strangers:
            self._violated("scope", f"in the scope of agent {probe.agent.id} was heard {', '.join(strangers)}")
        probe.told[hook] += 1
        # While somebody tells something from within a call, the scope has heard of more than everybody else.
        if probe.told[hook] > probe.heard[hook] and probe.listens:
            probe.heard[hook] = probe.told[hook]
            self._violated("scope", f"{hook} of agent {probe.agent.id} was told, but not in its own scope")

    def _heard_by(self, agent: Agent, hook: str) -> None:
        probe = agent.session.stash.get(ProbeKey, None)
        if probe is not None and probe.agent is agent:
            self._heard(probe, hook)

    @hookimpl(trylast=True)
    def agent_queued(self, agent: Agent) -> None:
        """The agent's scope has heard of it, too."""
        self._heard_by(agent, "agent_queued")

    @hookimpl(trylast=True)
    def agent_error(self, agent: Agent) -> None:
        """The agent's scope has heard of it, too."""
        self._heard_by(agent, "agent_error")

    @hookimpl(trylast=True, specname="agent_status")
    def after_status(self, agent: Agent) -> None:
        """The agent's scope has heard of it, too."""
        self._heard_by(agent, "agent_status")

    @hookimpl(trylast=True)
    def prompt_sections(self, agent: Agent, sections: Sections) -> None:
        """The agent's scope was asked, too."""
        self._heard_by(agent, "prompt_sections")

    @hookimpl(tryfirst=True)
    def agent_status(self, agent: Agent, status: AgentStatus) -> None:
        """Compare a status with the one before."""
        last = agent.stash.get(STATUS, None)
        agent.stash[STATUS] = status
        if status == last:
            self._violated("status", f"agent {agent.id} is told to be {status} twice in a row")
        if last == "disposed":
            agent.stash[STATUS] = last
            self._violated("status", f"agent {agent.id} is {status} after it was disposed")
