"""A plugin for tests/test_crash_suite.py: a model that uses tools a lot, and a death at a chosen event.

The environment says when: ``CRASH_AT`` is the number of the event in the log, ``CRASH_WHEN``
whether before (``tryfirst``) or after (``trylast``) everybody else has seen it, the store included.
What was seen by everybody is written to the file ``CRASH_SEEN``.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from dsh import Allow, hookimpl
from dsh.llm.scripted import ScriptedModel, reply, text

if TYPE_CHECKING:
    from dsh import Agent, Session, ToolCall
    from dsh.llm.adapter import Adapters
    from dsh.session.events import Event

AT = int(os.environ.get("CRASH_AT", "-1"))
WHEN = os.environ.get("CRASH_WHEN", "trylast")
SEEN = os.environ.get("CRASH_SEEN", os.devnull)

SCRIPT = (
    reply(
        "on it",
        reasoning="hm",
        calls=[
            ("c1", "write", {"file_path": "a.txt", "content": "one\ntwo\n"}),
            ("c2", "bash", {"command": "echo ran >> ran.txt; cat a.txt"}),
        ],
    ),
    reply(
        calls=[
            ("c3", "read", {"file_path": "a.txt"}),
            ("c4", "read", {"file_path": "ran.txt"}),
            ("c5", "read", {"file_path": "missing.txt"}),
        ]
    ),
    reply(
        calls=[
            ("c3", "edit", {"file_path": "a.txt", "old_string": "two", "new_string": "three"}),
            ("c7", "bash", '{"command": "no end'),
            ("", "nothing", {}),
        ]
    ),
    text("ok"),
)


class Death:
    """Kills the process in the frame of the append."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._seen = os.open(SEEN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @hookimpl(tryfirst=True, specname="session_event")
    def before(self, session: Session, event: Event) -> None:
        if WHEN == "tryfirst" and event.seq == AT:
            os.kill(os.getpid(), signal.SIGKILL)

    @hookimpl(trylast=True, specname="session_event")
    def after(self, session: Session, event: Event) -> None:
        os.write(self._seen, self._agent.harness.codec.encode(event) + b"\n")
        if WHEN == "trylast" and event.seq == AT:
            os.kill(os.getpid(), signal.SIGKILL)


@hookimpl
def agent_created(agent: Agent) -> None:
    # In the agent's own scope it comes before the store, which is in a hurry, too.
    agent.plugins.register(Death(agent))


@hookimpl
def llm_adapters(adapters: Adapters) -> None:
    adapters.add("busy", ScriptedModel(*SCRIPT))
    adapters.add("quiet", ScriptedModel(text("on")))


@hookimpl
def tools_pre_execute(call: ToolCall) -> Allow | None:
    return Allow(context="mind the tests") if call.name == "bash" else None
