"""The tool ``todo_write``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsh import Tool, ToolArgsError, ToolCall, ToolError
from dsh.jsonvalue import Json
from dsh.messages import Text
from dsh.session.events import TodoItem, TodoWrite

if TYPE_CHECKING:
    from dsh.tools.views import CallView

__all__ = ["NAME", "SECTION", "STATUSES", "TODO_WRITE"]

NAME = "todo_write"
STATUSES = ("pending", "in_progress", "completed")
MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

DESCRIPTION = (
    "Write down the steps of the task and how far you are. Each call gives all items, also those that did not change; "
    "they take the place of the list before, and an empty list clears it. At most one item is in_progress. "
    "Mark an item completed as soon as it is done. Do without a list when the task is a step or two."
)
SECTION = (
    "Keep a list with todo_write when a task takes several steps: write them all down before you begin, have the one "
    "you work on in_progress, and mark it completed before you go on to the next. Send the whole list every time. "
    "Small tasks and plain questions need no list."
)
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "description": "All items, in the order in which they are to be done.",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string", "description": "What is to be done, in a few words."},
                    "status": {"type": "string", "enum": list(STATUSES), "description": "How far it is."},
                },
                "required": ["content", "status"],
            },
        }
    },
    "required": ["todos"],
}


def _write(arguments: Mapping[str, Json], call: ToolCall) -> str:
    """Log the list.

    Raises:
        ToolArgsError: an item is empty or there twice, or several are in progress.
        ToolError: the call is not part of an agent's turn.
    """
    items = tuple(TodoItem(item["content"].strip(), item["status"]) for item in arguments["todos"])
    violations = _violations(items)
    if violations:
        raise ToolArgsError(f"invalid arguments for {NAME}: {'; '.join(violations)}", violations)
    if call.agent is None or call.agent.session.open_turn is None:
        raise ToolError(f"{NAME} writes to an agent's session, and works in a turn of it alone", code="NO_SESSION")
    call.agent.session.append(TodoWrite(items))
    count = Counter(item.status for item in items)
    counts = ", ".join(f"{count[status]} {status.replace('_', ' ')}" for status in STATUSES)
    return f"The list is written: {counts}." if items else f"The list is empty now: {counts}."


def _violations(items: tuple[TodoItem, ...]) -> list[str]:
    found = [f'"todos[{number}].content" is empty' for number, item in enumerate(items) if not item.content]
    times = Counter(item.content for item in items if item.content)
    found += [f'"todos" has {content!r} {count} times' for content, count in times.items() if count > 1]
    active = sum(item.status == "in_progress" for item in items)
    if active > 1:
        found.append(f'"todos" has {active} items in_progress, one at most')
    return found


def _present(arguments: Mapping[str, Any]) -> CallView | None:
    """The list, an item a line, with the one in progress as the title."""
    todos = arguments.get("todos") if isinstance(arguments, Mapping) else None
    if not isinstance(todos, list):
        return None
    items: list[tuple[str, str]] = []
    for item in todos:
        content, status = (item.get("content"), item.get("status")) if isinstance(item, Mapping) else (None, None)
        if not isinstance(content, str) or status not in STATUSES:
            return None
        items.append((status, content.strip()))
    now = next((content for status, content in items if status == "in_progress"), None)
    done = sum(status == "completed" for status, _ in items)
    title = f"Plan: {now}" if now else f"Plan: {done} of {len(items)} done" if items else "Plan: cleared"
    lines = "\n".join(f"{MARKS[status]} {content}" for status, content in items)
    from dsh.tools.views import GenericCall

    return GenericCall(title, kind="other", content=(Text(lines),) if lines else None)


TODO_WRITE = Tool(NAME, DESCRIPTION, PARAMETERS, _write, present_call=_present, effect="none")
