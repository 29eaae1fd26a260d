"""Approval: an open question goes to whoever can answer it; where nobody does, the answer is no."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import trio
from attrs import evolve, frozen

from dsh import Allow, Ask, ConfigError, Deny, hookimpl
from dsh.errors import blamed_message
from dsh.jsonvalue import dumps
from dsh.session.events import HookDecision
from dsh.tools.pipeline import foreseen_failure

from .events import PermissionAsked, PermissionDecided, PermissionGranted
from .guard import root_of

if TYPE_CHECKING:
    from dsh import Agent, Harness, ToolCall
    from dsh.agents import StartSource
    from dsh.approval import Answer, PermissionRequest

    from .guard import Guard
    from .hooks import PermissionHooks

__all__ = ["Approver", "install"]


def install(harness: Harness, guard: Guard) -> None:
    """Resolve open questions in `harness`; at the terminal, if somebody sits there."""
    from .settings import PermissionsConfig

    timeout = harness.config.section("permissions", PermissionsConfig).ask_timeout
    harness.plugins.register(Approver(harness, guard, timeout), "permissions.approve")
    if harness.attended:
        from .terminal import TerminalApprover

        harness.plugins.register(TerminalApprover(harness, guard), "permissions.terminal")


_PERSONS = ("person", "terminal", "permissions.terminal")
"""Who answers for the person at the terminal."""


@frozen
class _Outcome:
    """What became of a question."""

    verdict: Allow | Deny
    outcome: str
    by: str | None = None
    scope: str | None = None
    rules: tuple[str, ...] = ()


class Approver:
    """Resolves open questions, for one harness.

    Args:
        timeout: seconds that an answer may take; None for as long as it takes.
    """

    def __init__(self, harness: Harness, guard: Guard, timeout: float | None) -> None:
        self._harness = harness
        self._guard = guard
        self._timeout = timeout
        self._again: dict[str, set[tuple[str, str]]] = {}

    @hookimpl(wrapper=True, tryfirst=True, deadline=None)
    async def tools_pre_execute(self, agent: Agent | None, call: ToolCall) -> AsyncGenerator[Any, Any]:
        """Turn a question into a yes or a no.  Outside of everything else that may still ask or deny."""
        verdict = yield None
        if isinstance(verdict, Ask):
            yield await self._settle(agent, call, verdict)

    @hookimpl
    def agent_session_start(self, agent: Agent, source: StartSource) -> None:
        """Go on with what was allowed for a session that is resumed; a fork begins without."""
        if source != "resume" or agent.parent is not None:
            return
        own = agent.session.header.seed_length or 0
        for event in agent.session.events:
            if event.seq >= own and isinstance(event.data, PermissionGranted):
                self._hold(agent, event.data)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Forget the calls that could run again."""
        self._again.pop(agent.id, None)

    async def _settle(self, agent: Agent | None, call: ToolCall, ask: Ask) -> Allow | Deny:
        found = self._guard.verdict(call)
        mine = found if found is not None and found.kind == "ask" and ask.reason in (None, found.reason) else None
        reason = ask.reason or (mine.reason if mine is not None else "a plugin asks for somebody's approval")
        rules = mine.suggestions if mine is not None else ()
        if call.missing is not None:
            return Deny(call.missing)
        if agent is None:
            return Deny(_unanswered(reason, rules), unanswered=True)
        if mine is None and _key(call) in self._again.get(root_of(agent).id, ()):
            return Allow()
        if self._guard.mode == "dont-ask":
            return Deny(f"not permitted: {reason}. Nobody is asked in the mode dont-ask")
        failure = foreseen_failure(call, ever=not agent.plugins.implementations("permission_ask"))
        if failure is not None:
            return Deny(f"{failure} (nobody was asked about the call, since it would fail)")
        from dsh.approval import PermissionRequest  # what most runs never need, as nothing is asked in them

        request = PermissionRequest(uuid.uuid4().hex, call, reason, mine, rules, agent, _lineage(agent))
        return await self._logged(request)

    async def _logged(self, request: PermissionRequest) -> Allow | Deny:
        """Ask, with both events in the log whatever happens."""
        session, call, mask = request.agent.session, request.call, self._harness.secrets.mask
        asked_in = session.open_turn
        if asked_in is not None:
            session.append(
                PermissionAsked(
                    asked_in,
                    session.open_step,
                    call.id,
                    request.id,
                    call.name,
                    mask(request.reason),
                    tuple(mask(rule) for rule in request.rules),
                    request.lineage,
                )
            )
        since = trio.current_time()
        outcome = _Outcome(Deny("cancelled"), "cancelled")
        try:
            outcome = await self._asked(request)
        finally:
            if asked_in is not None and session.open_turn == asked_in:
                session.append(
                    PermissionDecided(
                        asked_in,
                        session.open_step,
                        call.id,
                        request.id,
                        outcome.outcome,
                        outcome.by,
                        outcome.scope,
                        tuple(mask(rule) for rule in outcome.rules or request.rules),
                        mask(outcome.verdict.reason) if isinstance(outcome.verdict, Deny) else None,
                        round((trio.current_time() - since) * 1000, 3),
                    )
                )
        return outcome.verdict

    async def _asked(self, request: PermissionRequest) -> _Outcome:
        from dsh.approval import AllowOnce, AllowProject, AllowSession, Refuse

        hooks = cast("PermissionHooks", request.agent.hook)
        answer: Answer | None = None
        limit = trio.CancelScope(deadline=trio.current_time() + (float("inf") if not self._timeout else self._timeout))
        why = ""
        try:
            with limit:
                answer = await hooks.permission_ask(agent=request.agent, request=request)
        except Exception as error:
            why = f" ({blamed_message(error)})"
            self._harness.warn_error("permission_ask", error)
        if limit.cancelled_caught:
            why = f" (no answer came within {self._timeout:g} s)"
        if isinstance(answer, AllowOnce | AllowSession | AllowProject | Refuse):
            return await self._heeded(request, answer, answer.by or _answerer(request.agent))
        return _Outcome(Deny(_unanswered(request.reason, request.rules, why), unanswered=True), "unanswered")

    async def _heeded(self, request: PermissionRequest, answer: Answer, by: str) -> _Outcome:
        from dsh.approval import AllowOnce, AllowSession, Refuse

        if isinstance(answer, Refuse):
            why = f": {answer.reason}" if answer.reason else ""
            return _Outcome(Deny(f"refused by {'a person' if by in _PERSONS else by}{why}"), "refused", by)
        if isinstance(answer, AllowOnce):
            return _Outcome(Allow(), "allowed", by, "once")
        rules = answer.rules or request.rules
        try:
            self._grant(request, rules)
        except ConfigError as error:
            self._harness.warn(f"permission_ask: {by} allows what is no rule: {error.message}")
            text = _unanswered(request.reason, request.rules, f" (what {by} answered is no rule)")
            return _Outcome(Deny(text, unanswered=True), "unanswered", by)
        if isinstance(answer, AllowSession) or not rules:
            return _Outcome(Allow(), "allowed", by, "session", rules)
        from .project import CannotWrite

        try:
            await self._write(request, rules)
        except (CannotWrite, ConfigError) as error:
            self._harness.warn(f"the rule holds for this session only: {error}")
            return _Outcome(Allow(), "allowed", by, "session", rules)
        return _Outcome(Allow(), "allowed", by, "project", rules)

    async def _write(self, request: PermissionRequest, rules: tuple[str, ...]) -> None:
        from .project import plan, write

        cwd, home = Path(request.agent.session.header.cwd or os.getcwd()), self._harness.home

        def both() -> None:
            write(plan(rules, cwd, home), home)

        await trio.to_thread.run_sync(both)

    def _grant(self, request: PermissionRequest, rules: tuple[str, ...]) -> None:
        """Let what was allowed hold in the root agent's session, and note it there."""
        root, call = root_of(request.agent), request.call
        turn = root.session.open_turn or 0
        if rules:
            granted = PermissionGranted(turn, request.id, rules)
        else:
            granted = PermissionGranted(turn, request.id, tool=call.name, digest=_key(call)[1])
        self._hold(root, granted)
        if turn:
            rules = tuple(self._harness.secrets.mask(rule) for rule in granted.rules)
            root.session.append(evolve(granted, rules=rules))

    def _hold(self, root: Agent, granted: PermissionGranted) -> None:
        for rule in granted.rules:
            self._guard.grant(root, rule)
        if granted.tool is not None and granted.digest is not None:
            self._again.setdefault(root.id, set()).add((granted.tool, granted.digest))


def _lineage(agent: Agent) -> tuple[str, ...]:
    """The ids from the root to `agent`."""
    return (agent.id,) if agent.parent is None else (*_lineage(agent.parent), agent.id)


def _key(call: ToolCall) -> tuple[str, str]:
    import hashlib

    return call.name, hashlib.sha256(dumps(dict(sorted(call.arguments.items())))).hexdigest()


def _unanswered(reason: str, rules: tuple[str, ...], why: str = "") -> str:
    needed = f"the rule{'s' if len(rules) > 1 else ''} {', '.join(rules)}" if rules else "somebody who says yes to it"
    return (
        f"not permitted: {reason}. Nobody is here to approve it{why}; it would need {needed}."
        " Go on without it, or say what you could not do."
    )


def _answerer(agent: Agent) -> str:
    """The plugin that has just answered, from the trace it left."""
    for event in reversed(agent.session.events[-4:]):
        if isinstance(event.data, HookDecision) and event.data.hook == "permission_ask":
            return event.data.plugin
    return "a plugin"
