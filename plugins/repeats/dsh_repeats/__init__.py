"""A guard against loops: a model that does the same again and again is told so, and then the turn ends.

Counted are the same failing call in a row, the same call with the same result, also in a circle of a few, and
plugins that make a turn go on in which the model does nothing.  What is noticed is an event of the log.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dsh import Continue, HookContext, LimitError, StashKey, Stop, hookimpl

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall
    from dsh.decisions import ContinuationDecision
    from dsh.session.events import Event
    from dsh.session.store import EventTypes

    from .count import Circles, Finding, RepeatsConfig

_configs: WeakKeyDictionary[Harness, RepeatsConfig] = WeakKeyDictionary()
_CIRCLES: StashKey[Circles] = StashKey("repeats: counts of the turn")
_EFFECTS: StashKey[dict[str, str | None]] = StashKey("repeats: what the tools of the step do")


@hookimpl
def session_event_types(types: EventTypes) -> None:
    """Offer the event."""
    from .events import RepeatsNoticed

    types.add(RepeatsNoticed)


@hookimpl
def dsh_configure(harness: Harness) -> None:
    """Read the table ``[repeats]``."""
    from .count import RepeatsConfig

    _configs[harness] = harness.config.section("repeats", RepeatsConfig)


@hookimpl
def tools_post_execute(agent: Agent | None, call: ToolCall) -> None:
    """Keep what kind of tool was called: what changes files makes the same result another one."""
    if agent is not None and call.tool is not None:
        agent.stash.setdefault(_EFFECTS, {})[call.id] = call.tool.effect


@hookimpl(wrapper=True, tryfirst=True)
def agent_turn_continuation(
    agent: Agent, turn: int, decision: ContinuationDecision
) -> Generator[None, ContinuationDecision, ContinuationDecision]:
    """Count what the step did, and what becomes of the turn.

    Raises:
        LimitError: ``LOOP``: it has gone on for too long.
    """
    from .count import Circles, outcomes
    from .events import RepeatsNoticed

    decided = yield
    circles = agent.stash.get(_CIRCLES, None)
    if circles is None or circles.turn != turn:
        circles = agent.stash[_CIRCLES] = Circles(_configs[agent.harness], turn)
    events = _last_step(agent)
    found = circles.step(outcomes(events, agent.stash.get(_EFFECTS, None)))
    agent.stash[_EFFECTS] = {}
    endless = circles.continued(isinstance(decision, Stop), isinstance(decided, Continue))
    if endless is not None:
        found.insert(0, endless)
    if not found:
        return decided
    finding = found[0]
    step, action = events[0].data.step, "stop" if finding.stop else "reminder"
    agent.session.append(RepeatsNoticed(turn, step, finding.kind, action, finding.count, finding.tool))
    if finding.stop:
        raise LimitError(_why(finding), code="LOOP")
    return _told(decided, finding)


def _last_step(agent: Agent) -> Sequence[Event]:
    """The events of the step that was closed last, its start first."""
    from dsh.session.events import StepStart

    events = agent.session.events
    found: list[Event] = []
    for seq in range(len(events) - 1, -1, -1):
        event = events[seq]
        found.append(event)
        if isinstance(event.data, StepStart):
            break
    found.reverse()
    return found


def _why(finding: Finding) -> str:
    what = {
        "failing-call": f"the same call of {finding.tool} failed {finding.count} times in a row",
        "same-result": f"the same call of {finding.tool} gave the same result {finding.count} times",
        "continuation": f"plugins made the turn go on {finding.count} times in a row while the model did nothing",
    }[finding.kind]
    key = {"failing-call": "failing_stop", "same-result": "same_stop", "continuation": "continuations"}[finding.kind]
    return f"{what}; the turn ends here (the limit is `{key}` in [repeats]; 0 takes it away)"


def _told(decided: ContinuationDecision, finding: Finding) -> ContinuationDecision:
    """The turn goes on with a word to the model; one that was to end, ends."""
    from dsh.messages import PluginSource

    if not isinstance(decided, Continue):
        return decided
    if finding.kind == "failing-call":
        words = (
            f"The last {finding.count} calls of {finding.tool} had the same arguments and all failed. The same call "
            "will fail again: read what the error says, change the arguments or go about it in another way. If there "
            "is no other way, say what stands in the way and stop."
        )
    elif finding.kind == "continuation":
        words = (
            f"You had finished {finding.count} times, and were made to go on each time, without doing anything. Do "
            "what is asked for; if it cannot be done, say what stands in the way. The turn ends soon."
        )
    else:
        words = (
            f"The same call of {finding.tool} has given the same result {finding.count} times. You have that result "
            "already: use it and go on with the task, or say what is missing and stop."
        )
    if decided.reason is None:
        return Continue(HookContext(words, PluginSource("repeats")))
    if isinstance(decided.reason, HookContext):
        content = (*decided.reason.content, *HookContext(words, PluginSource("repeats")).content)
        return Continue(HookContext(content, decided.reason.source))
    return Continue(f"{decided.reason}\n\n{words}")
