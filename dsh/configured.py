"""The agents of ``[[agents]]``, started when a program opens its harness."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from .agents import AgentOptions
from .errors import blamed_message

if TYPE_CHECKING:
    from .config import AgentConfig
    from .harness import Harness

__all__ = ["start_configured"]


async def start_configured(harness: Harness) -> None:
    """Start the configured agents, in their order.

    A session that cannot be resumed is a warning, and its agent is not there.

    Raises:
        AgentError: no loop is installed.
        BaseException: what plugins raised while an agent was made on a fresh session.

    Cancelling leaves those that were started to whoever closes the harness.
    """
    for wanted in harness.config.agents:
        options = AgentOptions(model=wanted.model if wanted.model is not None else harness.config.model)
        if wanted.resume_session_id:
            await _resume(harness, wanted, wanted.resume_session_id, options)
        else:
            session_id = f"{wanted.id}-session-{uuid.uuid4()}"
            harness.create_agent(agent_id=wanted.id, session_id=session_id, options=options)


async def _resume(harness: Harness, wanted: AgentConfig, session_id: str, options: AgentOptions) -> None:
    try:
        await harness.resume_agent(session_id, agent_id=wanted.id, options=options)
    except Exception as exc:
        harness.warn(f"agent {wanted.id}: session {session_id} was not resumed: {blamed_message(exc)}")
