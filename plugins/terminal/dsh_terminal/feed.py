"""From the log to the screen: what happens, as a person reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from dsh.jsonvalue import dumps, loads
from dsh.llm.chunks import ReasoningDelta, TextDelta
from dsh.messages import PluginSource, text_of
from dsh.session.events import (
    AssistantChunk,
    AssistantMessage,
    Event,
    PromptBlocked,
    Replace,
    StepStart,
    ToolCall,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from dsh.tools.tool import ToolResult as Answered
from dsh.tools.tool import Tools
from dsh.tools.views import DiffCall, TerminalResult

from .blocks import Blocks
from .paint import Painter
from .results import Results
from .screen import Screen
from .state import counted

if TYPE_CHECKING:
    from dsh import Agent
    from dsh.session.log import Session
    from dsh.tools.tool import Tool

__all__ = ["Feed", "Running", "size_of"]

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
MOST = 12
"""Lines of a result that are shown without asking for more."""
EASE = 8
"""Times as long as drawing what is not finished took, until it is drawn anew: a ninth of the time at most."""
PATIENCE = 10.0
"""Seconds after which somebody who sees nothing move is told that a call still runs."""


@define
class Running:
    """A call that has no result yet.

    Attributes:
        ended: what to say of how it ended, where that was badly although it is no error; asked with its result.
    """

    name: str
    title: str
    depth: int
    ended: Callable[[ToolResult], str] = lambda result: ""
    since: float = field(factory=time.monotonic)
    diff: Any = None
    told: float = field(factory=time.monotonic)


@define
class Feed:
    """Shows what happens in a session and in those of its subagents.

    Attributes:
        session_id: the conversation's.
        reasoning: whether thoughts are shown.
        results: what can be shown whole.
        own: the person's own commands that run.
        thought: what the model thought last, in pieces.
    """

    screen: Screen
    painter: Painter
    session_id: str = ""
    reasoning: bool = False
    results: Results = field(factory=Results)
    own: list[Running] = field(factory=list)
    thought: list[str] = field(factory=list)
    _blocks: Blocks = field(factory=Blocks)
    _thoughts: Blocks = field(factory=Blocks)
    _calls: dict[tuple[str, str], Running] = field(factory=dict)
    _depths: dict[str, int] = field(factory=dict)
    _tools: dict[str, Tool] = field(factory=dict)
    _frame: int = 0
    _dirty: bool = False
    _thinking: float = 0.0
    _asked: float = 0.0
    """When the model was asked that has not begun to answer; 0 if none was."""
    _told: float = 0.0
    _shown: bool = False
    _drawn: str = ""
    _again: float = 0.0

    def add(self, agent: Agent) -> None:
        """An agent has come; one below another is shown indented."""
        self._depths[agent.session.id] = agent.depth

    def forget(self) -> None:
        """Another conversation begins."""
        self._blocks, self._thoughts = Blocks(), Blocks()
        self._calls.clear()
        self._tools.clear()
        self.results.clear()
        self.thought.clear()
        self._thinking, self._shown, self._asked = 0.0, False, 0.0
        self._drawn, self._again = "", 0.0
        self.redraw()

    def event(self, session: Session, event: Event, agent: Agent | None) -> None:
        """Show an event, if it is one to show."""
        data = event.data
        if isinstance(data, AssistantChunk):  # by far the most events
            if session.id == self.session_id:
                self._chunk(data.chunk)
            return
        if isinstance(event.surface_op, Replace):
            return  # what it stands for was shown when it came
        own = session.id == self.session_id
        if isinstance(data, ToolCall):
            self._call(session.id, data, agent)
        elif isinstance(data, StepStart):
            if own:
                self._asked = self._told = time.monotonic()
        elif isinstance(data, ToolResult):
            self._result(session.id, data)
        elif isinstance(data, AssistantMessage):
            if own:
                self._answer(data)
        elif isinstance(data, TurnEnd):
            if own:
                self._end(data)
        elif event.type == "permission/decided":
            self._decided(session.id, data)
        elif isinstance(data, PromptBlocked):
            self.screen.show(self.painter.trouble(f"not sent: {data.reason}"))
        elif isinstance(data, UserMessage):
            if isinstance(data.source, PluginSource) and own:
                self.screen.show(self.painter.notice(f"[{data.source.plugin}] {text_of(data.content)}"))
        elif isinstance(notice := getattr(data, "notice", None), str):
            self.screen.show(self.painter.notice(notice))

    # -- what is not finished

    def tick(self) -> None:
        """Show what goes on, once more: times, and a sign that turns."""
        self._frame += 1
        if self.painter.look.plain:
            self._say_what_runs()
        else:
            self.redraw()

    def refresh(self) -> None:
        """Show what came since the last time, if anything did."""
        if self._dirty:
            self.redraw()

    def redraw(self) -> None:
        """Show what is not finished."""
        self._dirty = False
        parts: list[tuple[str, str]] = []
        sign = SPINNER[self._frame % len(SPINNER)]
        open_answer = self._blocks.open
        if self._thinking and not open_answer:
            parts.append(("thought", f"{sign} thinking{_since(self._thinking)}"))
            if self.reasoning and (thought := self._thoughts.open):
                parts.append(("thought", thought))
        if self._asked and (waited := _since(self._asked)):
            parts.append(("thought", f"{sign} waiting for the model{waited}"))
        if open_answer and not self.painter.look.plain:
            parts.append(("drawn", self._draw(open_answer)))
        parts += [
            ("call", f"{'  ' * call.depth}{sign} {_named(call)}{_since(call.since)}")
            for call in (*self._calls.values(), *self.own)
        ]
        self.screen.live(parts)

    def _draw(self, block: str) -> str:
        """The block that is not finished, as it will look; not more often than is cheap."""
        now = time.monotonic()
        if now < self._again:
            self._dirty = True
            return self._drawn
        gap = "\n" if self._shown else ""  # as `_show` will have it, so that nothing jumps then
        self._drawn = gap + self.painter.markdown(block)
        self._again = now + EASE * (time.monotonic() - now)
        return self._drawn

    def _say_what_runs(self) -> None:
        now = time.monotonic()
        if self._asked and now - self._told >= PATIENCE:
            self._told = now
            self.screen.show(self.painter.notice(f"still waiting for the model{_since(self._asked)}"))
        for call in (*self._calls.values(), *self.own):
            if now - call.told >= PATIENCE:
                call.told = now
                self.screen.show(self.painter.notice(f"still runs: {_named(call)}{_since(call.since)}"))

    # -- the answer

    def _show(self, block: str) -> None:
        """A block of the answer, parted from the one before it."""
        self.screen.show(("\n" if self._shown and not self.painter.look.plain else "") + self.painter.markdown(block))
        self._shown = True
        self._drawn, self._again = "", 0.0

    def _chunk(self, chunk: Any) -> None:
        self._asked = 0.0
        if isinstance(chunk, TextDelta):
            if self._thinking:
                self._stop_thinking()
            for block in self._blocks.feed(chunk.text):
                self._show(block)
            self._dirty = True
        elif isinstance(chunk, ReasoningDelta):
            if not self._thinking:
                self._thinking = time.monotonic()
                self.thought.clear()
            self.thought.append(chunk.text)
            for block in self._thoughts.feed(chunk.text):
                if self.reasoning:
                    self.screen.show(self.painter.reasoning(block))
            self._dirty = True

    def _stop_thinking(self) -> None:
        if not self._thinking:
            return
        took = _since(self._thinking) or "  a moment"
        self._thinking = 0.0
        blocks, self._thoughts = self._thoughts.close(), Blocks()
        if self.reasoning:
            for block in blocks:
                self.screen.show(self.painter.reasoning(block))
        elif words := len("".join(self.thought).split()):
            more = "" if self.painter.look.plain else "; Ctrl-T shows it"
            self.screen.show(self.painter.notice(f"· thought for{took[1:]}, about {counted(words, 'word')}{more}"))

    def _answer(self, message: AssistantMessage) -> None:
        self._asked = 0.0
        self._stop_thinking()
        for block in self._blocks.close():
            self._show(block)
        self._blocks, self._shown = Blocks(), False
        if message.interrupted:
            self.screen.show(self.painter.notice("(interrupted)"))
        self.redraw()

    def _end(self, data: TurnEnd) -> None:
        self._asked = 0.0
        self._stop_thinking()
        for block in self._blocks.close():
            self._show(block)
        self._blocks, self._shown = Blocks(), False
        reason = data.reason
        if reason.kind == "error":
            self.screen.show(self.painter.trouble(reason.message or "the turn failed"))
        elif reason.kind == "max-tokens":
            self.screen.show(self.painter.trouble("the answer was cut off: it reached the limit of tokens"))
        elif reason.kind == "disposed":
            self.screen.show(self.painter.notice("(stopped, as the conversation goes on elsewhere or ends)"))
        elif reason.kind != "completed":
            self.screen.show(self.painter.notice(f"({reason.kind}{f': {reason.reason}' if reason.reason else ''})"))
        self.redraw()

    # -- calls

    def _call(self, session_id: str, data: ToolCall, agent: Agent | None) -> None:
        arguments = _parsed(data.arguments)
        title, diff = _summary(arguments, data.arguments), None
        tool = self._tool(agent, data.name)
        if tool is not None and tool.present_call is not None and arguments is not None:
            try:
                view = tool.present_call(arguments)
            except Exception:
                view = None  # a view is decoration, and the arguments may be wrong
            if view is not None and view.title:
                title = view.title
            if isinstance(view, DiffCall):
                diff = view.diffs
        depth = self._depths.get(session_id, 0)
        running = Running(data.name, " ".join(title.split()), depth, diff=diff)
        if tool is not None and arguments is not None:
            running.ended = partial(_ended, tool, arguments)
        self._calls[session_id, data.call_id] = running
        self.redraw()

    def _result(self, session_id: str, data: ToolResult) -> None:
        depth = self._depths.get(session_id, 0)
        call = self._calls.pop((session_id, data.call_id), None) or Running("tool", "", depth)
        text = text_of(data.content)
        seconds = max(0.0, time.monotonic() - call.since)
        size = size_of(len(text.encode("utf-8", "replace")))
        outcome = f"{seconds:.1f} s" + ("" if data.is_error else f", {size}")
        ended = "" if data.is_error else call.ended(data)
        outcome = f"{ended}, {outcome}" if ended else outcome
        failed = data.is_error or bool(ended)
        self.screen.show(self.painter.call(call.name, call.title, outcome, failed=failed, depth=call.depth))
        if text.strip():
            self.results.add(f"{_named(call)}: {size}", text)
        if data.is_error:
            self.screen.show(self.painter.output(text.removeprefix("Error: "), MOST))
        elif call.diff:
            for diff in call.diff:
                self.screen.show(self.painter.diff(diff))
        self.redraw()

    def _decided(self, session_id: str, data: object) -> None:
        """Somebody was asked: while they thought, the call did not run."""
        call = self._calls.get((session_id, str(getattr(data, "call_id", ""))))
        if call is not None:
            call.since += float(getattr(data, "ms", 0.0)) / 1000

    def _tool(self, agent: Agent | None, name: str) -> Tool | None:
        if name not in self._tools and agent is not None:
            tools = Tools()
            try:
                agent.hook.tools_register(agent=agent, tools=tools)
                self._tools.update(tools.by_name())
            except Exception:
                return None  # the loop meets the same error and reports it
        return self._tools.get(name)


def _ended(tool: Tool, arguments: Mapping[str, Any], result: ToolResult) -> str:
    """How a command ended, where not with 0."""
    if tool.present_result is None:
        return ""
    try:
        view = tool.present_result(arguments, Answered(result.content, meta=result.meta))
    except Exception:
        return ""  # a view is decoration
    if not isinstance(view, TerminalResult):
        return ""
    return f"killed by {view.signal}" if view.signal else f"exit code {view.exit_code}" if view.exit_code else ""


def _named(call: Running) -> str:
    named = not call.name or call.title.lower().startswith(f"{call.name.lower()} ")
    return (call.title if named else f"{call.name} {call.title}")[:160]


def _since(began: float) -> str:
    seconds = time.monotonic() - began
    if seconds < 1:
        return ""
    return f"  {seconds:.0f} s" if seconds < 100 else f"  {seconds / 60:.0f} min"


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        arguments = loads(text or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _summary(arguments: Mapping[str, Any] | None, raw: str) -> str:
    if arguments is None:
        return raw
    if len(arguments) == 1:
        (value,) = arguments.values()
        if isinstance(value, str):
            return value
    return dumps(arguments).decode() if arguments else ""


def size_of(count: int) -> str:
    """So many bytes, in few signs."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
