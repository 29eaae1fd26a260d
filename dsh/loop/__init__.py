"""The loop: the plugin that makes agents and drives them.

What happens in one turn, hook by hook; indented is what happens inside:

    agent_queued                        a message arrives
    agent_status(running)
    turn/start
      agent_prompt_submit               per message: user/message, or prompt/blocked
      per step, until nothing asks for another:
        steering/message                what arrived meanwhile
        prompt_variables prompt_sections tools_register prompt_assemble
        agent_session_prefix            once per agent
        agent_pre_step
        step/start
          agent_request
          request/header                if anything in it is new
          llm_stream                    assistant/chunk per chunk
          agent_request_error           if it failed: again, another step, or the end
          agent_step_result
          assistant/message
          per call:
            tool/call
            tools_pre_execute
            tools_execute               the tool runs
            tools_post_execute
            tool/result
          context/message               what hooks added to results
          steering/message              what arrived meanwhile
        step/end
        agent_turn_continuation
    turn/end
    session_flush
    agent_status(idle)

One task drives an agent.  One cancel scope stands around a turn, from the first prompt gate to the
last continuation; closing the log and flushing stand outside of it.  Only this task appends to
the log of a running turn, so that its order is that of the page above.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..hooks.markers import hookimpl

if TYPE_CHECKING:
    from ..agents import AgentRequest
    from ..harness import Harness
    from .handle import LoopHandle

__all__ = ["Loop", "agent_factory"]


@hookimpl(trylast=True)
def agent_factory(harness: Harness) -> Loop:
    """Make agents, if no other plugin does."""
    return Loop(harness)


class Loop:
    """The factory of `LoopAgent`."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def create(self, request: AgentRequest) -> LoopHandle:
        """Make an agent and start its driver; undo everything if a plugin objects."""
        from .agent import LoopAgent
        from .driver import drive
        from .handle import LoopHandle

        harness = self._harness
        agent = LoopAgent(request, harness)
        with ExitStack() as undo:
            undo.callback(agent.plugins.clear)
            undo.callback(agent.abandon)
            detach = harness.sessions.enter(request.session, agent.hook)
            undo.callback(detach)
            harness.sessions.announce(request.session)
            harness.agents.add(agent)
            undo.callback(harness.agents.remove, agent)
            if request.setup is not None:
                request.setup(agent)
            try:
                agent.hook.agent_session_start(agent=agent, source=request.source)
            except Exception as exc:
                harness.warn_error("agent_session_start", exc)
            handle = LoopHandle(agent, detach)
            harness.nursery.start_soon(drive, agent, name=f"agent {agent.id}")
            undo.pop_all()
        return handle
