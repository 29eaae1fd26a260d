"""The tools by which a model hands work to children."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from dsh import Agent, Tool, ToolArgsError, ToolCall, ToolError, ToolResult

from .family import Running, family_of
from .provider import AgentType, Provider, SubagentError, Task
from .report import listing, progress_text, result_of

if TYPE_CHECKING:
    from dsh.tools.views import CallView

    from .types import Types
    from .work import Subagents

__all__ = ["SubagentTools"]

MAX_WAIT = 600.0
"""Seconds that a model may wait for what a child does next."""
COMMON = (
    "Hand a task to a subagent: a model with your tools, your permissions and a conversation of its own. You get its "
    "last message. Use it for work that can be described in full and whose details you do not need: a search through "
    "many files, a review, a part of the task that stands for itself. Several calls in one answer run beside each "
    "other. Do small things yourself."
)
BACKGROUND = (
    "With `background` you get the subagent's id at once and are told when it has finished, so there is no need to "
    "look; meanwhile you can go on."
)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STRING = {"type": "string"}
_ID = {**_STRING, "description": "The subagent's id, as in subagent-1."}


class SubagentTools:
    """The tools of one harness."""

    def __init__(self, subagents: Subagents, types: Types) -> None:
        self._subagents = subagents
        self._types = types
        self._made: dict[str | None, tuple[Tool, ...]] = {}
        self._told: set[str] = set()
        self._common = (self._list_tool(), self._output_tool(), self._send_tool(), self._stop_tool())

    def of(self, agent: Agent) -> tuple[Tool, ...]:
        """The tools of `agent`, which name the kinds of children that it can choose from."""
        key = agent.session.header.cwd
        if key not in self._made:
            types = self._types.of(agent)
            starting = [
                self._start_tool(name, provider.tool, provider, types)
                for name, provider in self._subagents.providers.items()
                if provider.tool is not None
            ]
            self._made[key] = (*starting, *self._common) if starting else ()
        return self._made[key]

    # -- what they are

    def _start_tool(self, name: str, tool: str, provider: Provider, types: Mapping[str, AgentType]) -> Tool:
        properties: dict[str, Any] = {
            "description": {**_STRING, "description": "What the task is, in 3 to 5 words, for the user to read."},
            "prompt": {**_STRING, "description": "The task."},
        }
        kinds = ""
        if types and provider.types:
            properties["type"] = {
                **_STRING,
                "enum": list(types),
                "description": "The kind of subagent, if not a plain one.",
            }
            lines = "\n".join(f"- {kind.name}: {kind.description}" for kind in types.values())
            kinds = f"\n\nKinds of subagents, for `type`:\n{lines}"
        properties["background"] = {"type": "boolean", "description": "Return at once and let it work on."}
        properties["output_schema"] = {
            "type": "object",
            "description": "A JSON schema: the answer is JSON that fits it.",
        }

        async def execute(arguments: Mapping[str, Any], call: ToolCall) -> ToolResult | str:
            return await self._delegate(name, arguments, call)

        return Tool(
            tool,
            f"{COMMON} {provider.wording} {BACKGROUND}{kinds}",
            {"type": "object", "properties": properties, "required": ["description", "prompt"]},
            execute,
            parallel=True,
            present_call=_present,
            effect="none",  # what the child does is judged call by call
        )

    def _list_tool(self) -> Tool:
        return Tool(
            "subagent_list",
            "List your subagents, and whether they are still at work.",
            {"type": "object", "properties": {}},
            self._list,
            effect="none",
        )

    def _output_tool(self) -> Tool:
        wait = {
            "type": "number",
            "description": f"Wait so many seconds at most until it has ended (default 0, at most {MAX_WAIT:g}).",
        }
        return Tool(
            "subagent_output",
            "Read what a subagent in the background said and did since you last read it. You are told of its end "
            "unasked.",
            {"type": "object", "properties": {"id": _ID, "wait": wait}, "required": ["id"]},
            self._output,
            parallel=True,
            effect="none",
        )

    def _send_tool(self) -> Tool:
        message = {**_STRING, "description": "What it is to know."}
        return Tool(
            "subagent_send",
            "Send a message to a subagent that is at work in the background; it reads it before its next step.",
            {"type": "object", "properties": {"id": _ID, "message": message}, "required": ["id", "message"]},
            self._send,
            effect="none",
        )

    def _stop_tool(self) -> Tool:
        return Tool(
            "subagent_stop",
            "Stop a subagent that is at work in the background, and all that it started.",
            {"type": "object", "properties": {"id": _ID}, "required": ["id"]},
            self._stop,
            effect="none",
        )

    # -- what they do

    async def _delegate(self, provider: str, arguments: Mapping[str, Any], call: ToolCall) -> ToolResult | str:
        """Start a child, and wait for it unless it is to work in the background.

        Raises:
            ToolArgsError: an argument is empty.
            SubagentError: no child was started.
        """
        task = self._task(provider, arguments, call)
        if task.type is not None and task.type.provider is not None:
            provider = task.type.provider
        if arguments.get("background") is True:
            info = await self._subagents.start(provider, task)
            return ToolResult(
                f"Started {info.id} in the background. You are told when it has finished; subagent_output shows what "
                "it does, subagent_send sends it a message, subagent_stop stops it.",
                meta={"subagent": info.id, "session_id": info.session_id},
            )
        return result_of(await self._subagents.run(provider, task), self._subagents.config.max_result)

    def _task(self, provider: str, arguments: Mapping[str, Any], call: ToolCall) -> Task:
        parent = _agent(call)
        prompt, description = arguments["prompt"], arguments["description"]
        if not prompt.strip():
            raise ToolArgsError("prompt is empty: say what the subagent is to do", ["prompt is empty"])
        kind = None
        wanted = arguments.get("type")
        if wanted and self._subagents.providers[provider].types:
            types = self._types.of(parent)
            if wanted not in types:
                known = ", ".join(types) or "none"
                raise SubagentError(
                    f"there is no kind of subagent {wanted!r} (there are: {known})", code="UNKNOWN_TYPE"
                )
            kind = types[wanted]
            self._tell_missing(parent, kind)
        return Task(
            parent,
            _plain(description) or _plain(prompt.strip().splitlines()[0])[:60] or "a task",
            prompt,
            kind,
            arguments.get("output_schema"),
            call.id,
        )

    def _tell_missing(self, parent: Agent, kind: AgentType) -> None:
        """Tell the person, once, of tools that a kind of child names and nobody offers."""
        from .inprocess import offered_tools

        if kind.tools is None or kind.origin in self._told:
            return
        self._told.add(kind.origin)
        offered = {name.lower() for name in offered_tools(parent)}
        missing = [name for name in kind.tools if name.lower() not in offered]
        if missing:
            parent.harness.warn(f"{kind.origin}: there is no tool {', '.join(missing)}; {kind.name} does without")

    def _list(self, arguments: Mapping[str, Any], call: ToolCall) -> str:
        family = family_of(_agent(call))
        return listing([running.info for running in family.live.values()], family.ended.values())

    async def _output(self, arguments: Mapping[str, Any], call: ToolCall) -> str:
        """Read a child.

        Raises:
            SubagentError: there is none of that id.
        """
        running = self._find(arguments["id"], call)
        if isinstance(running, str):
            return running
        lines, mark = await self._read(running, min(max(float(arguments.get("wait") or 0), 0.0), MAX_WAIT))
        running.mark = mark
        state = "has ended" if running.done.is_set() else "is at work"
        return f"{running.info.id} {state}. " + (
            f"Since you last looked:\n\n{progress_text(lines)}" if lines else "Nothing new since you last looked."
        )

    async def _read(self, running: Running, wait: float) -> tuple[list[str], int]:
        child = running.child  # kept, since its end lets go of it
        if wait and not running.done.is_set():
            with trio.move_on_after(wait):
                await running.done.wait()
        child = child or running.child
        if child is None:
            return [], running.mark
        lines, mark = child.progress(running.mark)
        return list(lines), mark

    def _send(self, arguments: Mapping[str, Any], call: ToolCall) -> str:
        """Give a child a message.

        Raises:
            SubagentError: there is none of that id, or it takes no messages.
            ToolArgsError: the message is empty.
        """
        if not arguments["message"].strip():
            raise ToolArgsError("message is empty", ["message is empty"])
        running = self._find(arguments["id"], call)
        if isinstance(running, str) or running.child is None:
            raise SubagentError(
                f"{arguments['id']} has ended and takes no more messages; start another subagent, and tell it what it "
                "has to know"
            )
        running.child.tell(arguments["message"])
        return f"{running.info.id} will read it before its next step."

    async def _stop(self, arguments: Mapping[str, Any], call: ToolCall) -> str:
        """End a child, and wait for that.  Cancelling leaves it ending.

        Raises:
            SubagentError: there is none of that id.
        """
        running = self._find(arguments["id"], call)
        if isinstance(running, str):
            return running
        child = running.child
        await self._subagents.stop(running)
        said = "" if child is None else child.said()
        return f"{running.info.id} was stopped." + (f" What it had said last:\n\n{said}" if said else "")

    def _find(self, id: str, call: ToolCall) -> Running | str:
        """A child in the background; a sentence of one that has ended.

        Raises:
            SubagentError: the agent has no child of that id.
        """
        family = family_of(_agent(call))
        if id in family.live and family.live[id].info.background:
            return family.live[id]
        if id in family.ended:
            info, reason = family.ended[id]
            where = "" if info.session_id is None else f" Its log is the session {info.session_id}."
            told = "" if reason in ("lost", "disposed") else " You were told what it came to."
            return f"{listing([], [(info, reason)])}.{told}{where}"
        known = ", ".join([*family.live, *family.ended]) or "none"
        raise SubagentError(
            f"you have no subagent {id!r} in the background (yours are: {known})", code="UNKNOWN_SUBAGENT"
        )


def _agent(call: ToolCall) -> Agent:
    if call.agent is None or call.agent.session.open_turn is None:
        raise ToolError(f"{call.name} works in an agent's turn alone", code="NO_SESSION")
    return call.agent


def _plain(text: str) -> str:
    """One line of `text`: a terminal will show it."""
    return " ".join(_CONTROLS.sub(" ", text).split())


def _present(arguments: Mapping[str, Any]) -> CallView | None:
    """The task's description; its kind, where it has one."""
    description, kind = arguments.get("description"), arguments.get("type")
    if not isinstance(description, str):
        return None
    behind = " (in the background)" if arguments.get("background") is True else ""
    from dsh.tools.views import GenericCall

    return GenericCall(f"{f'{kind}: ' if isinstance(kind, str) else ''}{description}{behind}", kind="other")
