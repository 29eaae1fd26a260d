"""A harness with the plugin, and what the tests look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dsh_subagents
import pytest

from dsh import Agent, Config, Request
from dsh.llm.scripted import Reply, ScriptedModel
from dsh.messages import text_of
from dsh.session import Session
from dsh.session import events as ev
from dsh.testing import memory_agent, plugin_of


class Stage:
    """Opens agents whose children are watched.

    Attributes:
        children: every agent with a parent that was ever made.
    """

    def __init__(self) -> None:
        self.children: list[Agent] = []
        self._heard: list[str] = []

    @property
    def warnings(self) -> list[str]:
        """What the harness warned of, but for how slow this machine is."""
        return [text for text in self._heard if " blocks: its " not in text]

    @asynccontextmanager
    async def agent(
        self,
        *replies: Reply,
        below: Sequence[Sequence[Reply]] = (),
        settings: dict[str, Any] | None = None,
        plugins: dict[str, object] | None = None,
        **more: Any,
    ) -> AsyncIterator[Agent]:
        """An agent that can start children.

        Args:
            below: the scripts of children, of their children, ...; without one they go on with that above them.
            settings: the table ``[subagents]``.
        """
        scripts = [ScriptedModel(*script) for script in below]

        def stream(agent: Agent, request: Request) -> Any:
            own = 0 < agent.depth <= len(scripts)
            return scripts[agent.depth - 1].stream(request, request.model) if own else None

        def created(agent: Agent) -> None:
            if agent.parent is not None:
                self.children.append(agent)

        config = Config(tables={"subagents": settings or {}, **more.pop("tables", {})})
        watch = plugin_of(agent_created=created, llm_stream=stream)
        given = {"subagents": dsh_subagents, "watch": watch, **(plugins or {})}
        async with memory_agent(*replies, plugins=given, config=config, warnings=self._heard, **more) as agent:
            yield agent

    @staticmethod
    def results(session: Session) -> list[tuple[str, str | None]]:
        """The results of a session's calls: what they say, and the code of their errors."""
        return [
            (text_of(event.data.content), event.data.error.code if event.data.error else None)
            for event in session.events
            if isinstance(event.data, ev.ToolResult)
        ]

    @staticmethod
    def links(session: Session) -> list[tuple[str, str, str | None]]:
        """What a log says of children: start or end, which one, and why it ended."""
        return [
            (event.type.partition("/")[2], event.data.id, getattr(event.data, "reason", None))
            for event in session.events
            if event.type.startswith("subagent/")
        ]

    @staticmethod
    def asked(session: Session) -> list[str]:
        """What was said to an agent."""
        heard = (ev.UserMessage, ev.SteeringMessage, ev.ContextMessage)
        return [text_of(event.data.content) for event in session.events if isinstance(event.data, heard)]


@pytest.fixture
def stage() -> Stage:
    return Stage()
