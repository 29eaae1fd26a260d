"""A step: one request to the model, and the calls of its answer."""

from __future__ import annotations

from attrs import evolve
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..decisions import ContinuationDecision, Continue, Stop, expected
from ..messages import HookContext, Message, PluginSource
from ..prompt import Prefix, assemble
from ..session.events import EndReason, StepStart
from .calls import run_calls
from .inbox import Mail
from .request import ask
from .turn import Turn

__all__ = ["run_step"]


async def run_step(turn: Turn) -> bool:
    """Run the next step; whether another is to follow.

    A cancelled turn leaves by `trio.Cancelled`, a failing one by its error; what is open in the
    log then, the turn closes.
    """
    agent, session = turn.agent, turn.agent.session
    turn.step += 1
    turn.drain_steering()
    # A model and hooks that never wait must not keep others from cancelling.
    await checkpoint()
    assembled = await assemble(agent)
    await checkpoint_if_cancelled()
    prefix = await _session_prefix(turn)
    await agent.hook.agent_pre_step(
        agent=agent, turn=turn.number, step=turn.step, system=assembled.system, prefix=prefix
    )
    await checkpoint_if_cancelled()

    boundary = session.derive_messages()
    session.append(StepStart(turn.number, turn.step))
    await checkpoint_if_cancelled()
    answer = await ask(turn, assembled, prefix, boundary)
    if answer is not None:
        if answer.cut:
            turn.reason = EndReason("max-tokens")
        worked = await run_calls(turn, assembled.tools, answer.calls)
        steered = turn.drain_steering()
    error = turn.close_step()
    if error is not None:
        turn.fail(error)
        return False
    if answer is None:
        return True
    return await _another(turn, Continue() if worked or steered else Stop())


async def _session_prefix(turn: Turn) -> tuple[Message, ...]:
    """The messages before the history, composed once per agent."""
    agent = turn.agent
    if agent.prefix is None:
        prefix = Prefix()
        await agent.hook.agent_session_prefix(agent=agent, prefix=prefix)
        await checkpoint_if_cancelled()
        agent.prefix = tuple(evolve(message, content=agent.masked(message.content)) for message in prefix)
    return agent.prefix


async def _another(turn: Turn, proposed: ContinuationDecision) -> bool:
    """Ask whether the turn goes on."""
    agent = turn.agent
    decision = await agent.hook.agent_turn_continuation(
        agent=agent, turn=turn.number, decision=proposed, default=lambda: proposed
    )
    await checkpoint_if_cancelled()
    decision = expected("agent_turn_continuation", decision, Continue, Stop)
    if isinstance(decision, Continue):
        reason = decision.reason
        if reason is not None:
            if not isinstance(reason, HookContext):
                reason = HookContext(reason, PluginSource("continuation"))
            agent.inbox.steering.append(Mail(agent.masked(reason.content), reason.source))
        return True
    # Whoever steered while the step was closing is heard in this turn still.
    return bool(agent.inbox.steering)
