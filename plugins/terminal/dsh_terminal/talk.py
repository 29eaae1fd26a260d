"""Holding a conversation: what the person enters goes to the agent, what happens goes to the screen."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio
import trio.lowlevel
from attrs import evolve

from dsh import DshError, hookimpl
from dsh.conversation import Jobs, StatusParts
from dsh.errors import error_message
from dsh.messages import CallConfig
from dsh.session.events import AssistantChunk, Event, TurnEnd

from .cells import shown
from .commands import Book
from .feed import Feed
from .modes import suspend
from .own import OwnCommands
from .paint import SAID, Painter
from .screen import Cancel, Input, Leave, Line, Screen, Suspend, Toggle
from .sessions import Sessions
from .state import State, counted
from .waiting import Queued, Waiting

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.agents import AgentStatus
    from dsh.conversation import Conversation
    from dsh.session.log import Session

    from .config import TerminalConfig

__all__ = ["Talk"]

FRAME = 0.05
"""Seconds between two looks whether the answer went on."""
TICK = 5
"""Frames between two turns of the sign that something goes on."""


class Talk:
    """A conversation on a screen; it is registered as a plugin while it lasts.

    Attributes:
        model, effort: what the person chose for the next request; empty is what there was.
        own: the person's own commands.
        sessions: those of this folder.
    """

    def __init__(self, conversation: Conversation, screen: Screen, config: TerminalConfig) -> None:
        self.conversation = conversation
        self.screen = screen
        self.config = config
        self.painter = Painter(screen.look, lambda: screen.columns)
        self.theme_is_known = self.painter.choose_theme(config.theme) if screen.look.colour else True
        self.feed = Feed(screen, self.painter, reasoning=config.reasoning)
        self.state = State()
        self.book = Book(conversation)
        self.model = ""
        self.effort: str | None = None
        self.code = 0
        self.own = OwnCommands(self)
        self.sessions = Sessions(self)
        self._agents: dict[str, Agent] = {}
        self._waiting = Waiting()
        self._failed = False
        self._asked = 0
        self._began = 0.0
        self._nursery: trio.Nursery | None = None
        self._busy = 0
        self._done = trio.Event()
        self._moves = trio.Event()

    @property
    def agent(self) -> Agent:
        """The one that the person talks to."""
        return self.conversation.handle.agent

    async def main(self) -> int:
        """Hold the conversation until the person leaves; the exit code.

        Cancelling leaves, too.
        """
        harness = self.conversation.harness
        self.conversation.tell = lambda message: self.screen.show(self.painter.notice(message))
        with harness.plugins.using(self, "terminal.talk"):
            self._begin()
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._ticking)
                nursery.start_soon(self._load_prices)
                nursery.start_soon(trio.to_thread.run_sync, self.painter.warm)
                await self.screen.run(self._told, self._started)
                nursery.cancel_scope.cancel()
        return self.code

    def leave(self, reason: str, code: int = 0) -> None:
        """End the conversation: what runs is cancelled."""
        self.code = self.code or code
        for text in self._waiting.take():
            self.screen.show(self.painter.notice(f"not sent: {text}"))
        self.agent.cancel(reason or "the person left")
        self.screen.leave()

    def _begin(self) -> None:
        """A conversation has come, the first or another."""
        agent = self.agent
        self.feed.session_id = agent.session.id
        self.feed.add(agent)
        self._agents[agent.session.id] = agent
        header = agent.session.request_header()
        self.state.begin(agent.session)
        self.state.model = self.model or (header.config.model if header else agent.options.model)
        effort = self.effort or (header.config.reasoning_effort if header else agent.options.reasoning_effort)
        self.state.effort = effort or None
        self._set_running()
        self.show_status()

    def _started(self) -> None:
        for problem in self.book.problems:
            self.screen.show(self.painter.notice(problem))
        if not self.theme_is_known:
            self.screen.show(self.painter.notice(f"terminal.theme: there is no theme {self.config.theme}"))
        session = self.agent.session
        what = f"; session {session.id}, {counted(session.last_turn, 'turn')} so far" if session.last_turn else ""
        self.screen.show(
            self.painter.notice(f"{self.state.model} in {self.conversation.cwd}{what}. /help lists commands.")
        )
        self.sessions.show_last()
        if self._nursery is not None:
            self._nursery.start_soon(self.sessions.look)
        prompt, self.conversation.prompt = self.conversation.prompt, ""
        if prompt:
            self._told(Line(prompt))

    # -- what the person enters

    def _told(self, said: Input) -> None:
        if isinstance(said, Line):
            self._line(said)
        elif isinstance(said, Cancel):
            self.cancel()
        elif isinstance(said, Toggle):
            self._toggle(said.what)
        elif isinstance(said, Suspend) and self._nursery is not None:
            self._nursery.start_soon(self.suspend)
        elif isinstance(said, Leave):
            failed = self._failed and not self.screen.interactive
            self.leave(said.reason, 130 if said.reason == "interrupted" else int(failed))

    def _line(self, line: Line) -> None:
        text = line.text.strip("\n")
        if not text.strip():
            return
        if text.startswith("/") and not text.startswith("//"):
            self._show_said(text)
            self._do(self._command, text[1:])
        elif text.startswith("!"):
            self._show_said(text)
            self._do(self.own.run, text[1:].strip())
        else:
            self.say(text.removeprefix("/") if text.startswith("//") else text, queued=line.queued)

    def say(self, text: str, *, queued: bool = False) -> None:
        """Send something to the agent: into the turn that runs, or as the next one's prompt."""
        running = self.agent.status == "running"
        waits = running and queued
        self._show_said(text, waits=waits)
        try:
            if running and not queued:
                self._waiting.steered.append(text)
                self.agent.steer(text)
            else:
                self._waiting.queued.append(Queued(text, waits))
                self.agent.send(text)
        except DshError as error:
            self._waiting.take()
            self.screen.put_back(text)
            self.screen.show(self.painter.trouble(error_message(error)))
        self.show_status()

    def _show_said(self, text: str, *, waits: bool = False) -> None:
        # a terminal that works in lines has shown it already
        if not (self.screen.look.plain and self.screen.interactive):
            self.screen.show(self.painter.next(text) if waits else self.painter.said(text))

    def cancel(self, why: str = "cancelled by the person") -> None:
        """Stop the turn, and the person's own commands; what was entered for later comes back."""
        self.own.cancel()
        if self.agent.status != "running":
            return
        text = "\n".join(self._waiting.take())
        self.agent.cancel(why)
        if text:
            self.screen.put_back(text)
        self.show_status()

    def _toggle(self, what: str) -> None:
        if what == "reasoning":
            self.feed.reasoning = not self.feed.reasoning
            state = "shown" if self.feed.reasoning else "hidden"
            self.screen.show(self.painter.notice(f"thoughts are {state} from now on"))
            if self.feed.reasoning and self.feed.thought:
                self.screen.show(self.painter.reasoning("".join(self.feed.thought)))
            return
        result = self.feed.results.next()
        if result is None:
            words = "there is no earlier result" if self.feed.results else "no tool has said anything yet"
            self.screen.show(self.painter.notice(words))
            return
        title, text = result
        self.screen.show(self.painter.notice(title))
        self.screen.show(self.painter.output(text, 2000))

    def _do(self, function: Callable[[str], Awaitable[None]], text: str) -> None:
        if self._nursery is not None:
            self._busy += 1
            self._nursery.start_soon(self._counted, function, text)

    async def _counted(self, do: Callable[[str], Awaitable[None]], text: str) -> None:
        try:
            await do(text)
        finally:
            self._busy -= 1
            self._done.set()
            self._done = trio.Event()

    async def settled(self) -> None:
        """Wait until no command and no turn goes on."""
        while self._busy:
            await self._done.wait()
        await self.agent.when_idle()

    async def _command(self, text: str) -> None:
        try:
            told = await self.book.run(self, text)
        except Exception as error:
            self.screen.show(self.painter.trouble(error_message(error)))
        else:
            if told:
                self.screen.show(self.painter.notice(told))
        self.show_status()

    def changed(self) -> None:
        """The conversation is held in another session now."""
        left = "\n".join(self._waiting.take())
        if left:
            self.screen.put_back(left)
        self.feed.forget()
        self._agents.clear()
        self._begin()
        self.sessions.show_last()
        if self._nursery is not None:
            self._nursery.start_soon(self.sessions.look)

    async def _load_prices(self) -> None:
        with suppress(Exception):  # without them the line of status says less
            await self.conversation.harness.models.load()
        self.show_status()

    # -- what is heard

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Show it, and count it."""
        own = session.id == self.feed.session_id
        if not own and session.id not in self._agents:
            return
        self.state.event(session, event, own)
        data = event.data
        if own and (waited := self._waiting.heard(data)):
            self.screen.show(self.painter.said(waited))  # now its answer follows
        if not (own and self._is_wanted(session, event)):
            self.feed.event(session, event, self._agents.get(session.id))
        if isinstance(data, AssistantChunk):
            return
        if own and isinstance(data, TurnEnd):
            self._failed = data.reason.kind == "error"
        self.show_status()

    def _is_wanted(self, session: Session, event: Event) -> bool:
        """Whether it only tells the person that another model is asked, which they chose themselves."""
        if event.type != "prefix/changed" or getattr(event.data, "segment", "") != "model":
            return False
        header = session.request_header()
        return bool(self.model) and header is not None and header.config.model == self.model

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """An agent below this one is shown, too."""
        if agent.parent is not None and agent.parent.session.id in self._agents:
            self._agents[agent.session.id] = agent
            self.feed.add(agent)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """It is gone."""
        if self._agents.get(agent.session.id) is agent and agent is not self.agent:
            del self._agents[agent.session.id]

    @hookimpl
    def agent_status(self, agent: Agent, status: AgentStatus) -> None:
        """A turn begins or ends."""
        if agent.session.id != self.feed.session_id:
            if agent.session.id in self._agents:
                self.show_status()
            return
        if status == "running":
            self._began = time.monotonic()
            self._moves.set()
        elif self.config.bell and time.monotonic() - self._began >= self.config.bell:
            self.screen.bell(f"dsh is done in {self.conversation.cwd.name}" if self.config.notify else "")
        self._set_running()
        self.show_status()

    @hookimpl(wrapper=True)
    def agent_request(self, agent: Agent) -> Generator[None, CallConfig, CallConfig]:
        """Ask the model that the person chose."""
        config = yield
        if agent.session.id != self.feed.session_id:
            return config
        if self.model:
            config = evolve(config, model=self.model)
        if self.effort is not None:
            config = evolve(config, reasoning_effort=self.effort or None)
        return config

    @hookimpl
    def terminal_borrow(self) -> AbstractAsyncContextManager[None]:
        """Make room for somebody who asks the person something."""
        return self._lent()

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[None]:
        async with self.screen.borrow(patient=True):
            self._asked += 1
            try:
                yield
            finally:
                self._asked -= 1

    async def suspend(self) -> None:
        """Ctrl-Z.  While somebody asks the person something it does nothing: it would wait for the answer."""
        if not self._asked:
            await suspend(self.screen)

    # -- the screen

    def _set_running(self) -> None:
        self.screen.running = self.agent.status == "running" or bool(self.own)

    def moved(self) -> None:
        """Something began to run beside the conversation, or ended."""
        self._set_running()
        self._moves.set()
        self.feed.redraw()

    def show_status(self) -> None:
        """Say how things stand."""
        agents = [agent for agent in self._agents.values() if agent is not self.agent]
        self.state.children = sum(agent.status == "running" for agent in agents)
        self.state.queued = len(self._waiting.queued) if self.agent.status == "running" else 0
        jobs, parts = Jobs(), StatusParts()
        try:
            for agent in (self.agent, *agents):
                agent.hook.agent_jobs(agent=agent, jobs=jobs)
            self.agent.hook.status_parts(agent=self.agent, parts=parts)
        except Exception:
            self.state.jobs, self.state.parts = 0, ("?",)
        else:
            self.state.jobs, self.state.parts = len(jobs), tuple(parts)
        self.screen.status(self.state.line(self.conversation.harness.models, self.screen.columns))

    async def _ticking(self) -> None:
        """Show what goes on while a turn does, and now and then what runs beside it."""
        frame = 0
        while True:
            if self.agent.status == "running" or self.own:
                await trio.sleep(FRAME)
                frame += 1
                self.feed.refresh()
                if frame % TICK == 0:
                    self.feed.tick()
                continue
            self._moves = trio.Event()
            with trio.move_on_after(1 if self.state.jobs or self.state.children else float("inf")):
                await self._moves.wait()
            self.show_status()

    async def farewell(self) -> list[str]:
        """What stands on the terminal at the end, in lines."""
        left = self.screen.unsent.strip()
        unsent = f"not sent: {shown(left[:SAID])}{'…' if len(left) > SAID else ''}"
        if left and self.config.history and self.screen.interactive:
            unsent += "\n(Up brings it back in the next conversation here)"
        session = self.agent.session
        harness = self.conversation.harness
        found = [unsent] if left else []
        if not session.last_turn or not harness.plugins.implementations("session_open"):
            return found  # there is nothing to go on with, or nothing stores it
        try:
            with trio.fail_after(5):
                await self.agent.when_idle()
                await harness.sessions.flush(session)
        except Exception as error:
            why = error_message(error) or "it took too long"
            return [*found, f"session {session.id} could not be stored: {why}"]
        return [*found, f"session {session.id}; dsh -r {session.id} goes on with it"]
