"""A store over real sessions, and a conversation to put into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import define
from dsh_jsonl.files import SessionFiles

from dsh.agents import AgentRegistry
from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.llm.chunks import TextDelta
from dsh.messages import USER, CallConfig, Text, ToolCallBlock
from dsh.session import Session, Sessions
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    EndReason,
    Header,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)


@define
class Store:
    """Sessions whose hooks reach a store, as in a harness."""

    root: Path
    sessions: Sessions
    hook: Hooks
    files: SessionFiles

    def create(self, id: str, **options: Any) -> Session:
        return self.sessions.create(id, **options)[0]

    def leave(self, session: Session) -> None:
        """What the disposal of the session's agent does."""
        self.hook.agent_disposed(agent=cast(Any, SimpleNamespace(session=session)))
        session.notify = None
        self.sessions._live.pop(session.id)

    async def resume(self, id: str) -> Session:
        """Load a session and enter it, as `Harness.resume_agent` does."""
        stored = await self.hook.session_open(session_id=id)
        assert stored is not None
        header = stored.header
        session = self.sessions.prepare(
            header.id,
            seed=stored.events,
            cwd=header.cwd,
            parent_session=header.parent_session,
            created_at=header.created_at,
            seed_length=header.seed_length,
        )
        self.sessions.enter(session)
        self.sessions.announce(session)
        return session

    async def close(self) -> None:
        """What the end of a harness does."""
        await self.files.dsh_unconfigure(cast(Any, SimpleNamespace(agents=AgentRegistry())))

    def path(self, id: str) -> Path:
        """The one file of the session."""
        [path] = self.root.glob(f"*/{id}.jsonl")
        return path


def open_store(root: Path) -> Store:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    hook = cast(Hooks, manager.relay)
    sessions = Sessions(hook)
    files = SessionFiles(root, sessions)
    manager.register(files, "jsonl.store")
    return Store(root, sessions, hook, files)


@pytest.fixture
def stores(tmp_path: Path) -> Callable[[], Store]:
    """Makes stores over one folder, each like another program."""
    return lambda: open_store(tmp_path / "sessions")


@pytest.fixture
def store(stores: Callable[[], Store]) -> Store:
    return stores()


def converse(session: Session, turn: int = 1, text: str = "hi") -> None:
    """A turn with a tool call, as the loop would log it."""
    session.append(TurnStart(turn, Trigger("message", USER)))
    session.append(UserMessage((Text(text),), USER))
    session.append(StepStart(turn, 1))
    if session.request_header() is None:
        session.append(RequestHeader(Header(CallConfig("p/m"), "be brief"), "initial"))
    chunk = session.append(AssistantChunk(turn, 1, TextDelta(0, "é\u2028")))
    call = ToolCallBlock(f"c{turn}", "read", "{}")
    session.append(AssistantMessage(turn, 1, (Text("é\u2028"), call)), sources=[chunk.seq])
    started = session.append(ToolCall(turn, 1, call.id, call.name, call.arguments))
    session.append(ToolResult(turn, 1, call.id, (Text("out"),), False, meta={"n": 2**70}), sources=[started.seq])
    session.append(StepEnd(turn, 1))
    session.append(TurnEnd(turn, EndReason("completed")))


@pytest.fixture(name="converse")
def converse_fixture() -> Callable[..., None]:
    return converse
