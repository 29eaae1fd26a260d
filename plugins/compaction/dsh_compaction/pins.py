"""What must not be lost: the task in a person's own words, the list of things to do, the files in work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field

from dsh import Session
from dsh.jsonvalue import loads
from dsh.messages import Block, PluginSource, Text, ToolCallBlock, UserSource
from dsh.session import Event
from dsh.session.events import AssistantMessage, ContextMessage, SteeringMessage, TodoItem, TodoWrite, UserMessage

from .prune import shorter_text

__all__ = ["Pins", "gather"]

LATEST = 3
"""How many of a person's last messages stay beside the first."""
MUCH = 0.5
"""The part of what is kept that one thing a plugin had added may be, such as a file that was attached to a prompt."""
FILES = 20
"""How many paths are named."""
WRITERS = ("write", "edit", "multi_edit", "apply_patch", "notebook_edit")
READERS = ("read",)
PATHS = ("file_path", "path", "notebook_path", "filename")


@define
class Pins:
    """What stays word for word.

    Attributes:
        task: the person's first message.
        latest: the last ones, of those that the model does not see any more.
        todos: the list as it is now.
        edited, read: paths, the last used first.
        contexts: what plugins had added that is to stay.
    """

    task: str = ""
    latest: list[str] = field(factory=list)
    todos: tuple[TodoItem, ...] = ()
    edited: list[str] = field(factory=list)
    read: list[str] = field(factory=list)
    contexts: list[str] = field(factory=list)

    def text(self, room: float = math.inf) -> str:
        """All of it, for the model; empty if there is nothing.

        Args:
            room: characters; where they are too few, what can be found out again is left out first.
        """
        text = "\n\n".join(self._parts())
        if len(text) > room:
            # What would push out everything else can be looked up again.
            self.contexts = [context for context in self.contexts if len(context) <= room * MUCH]
            text = "\n\n".join(self._parts())
        while len(text) > room and self._drop():
            text = "\n\n".join(self._parts())
        return text

    def _drop(self) -> bool:
        """Leave one thing out; False if only the task and the list of things to do are left."""
        if self.read:
            self.read.pop()
        elif len(self.latest) > 1:
            self.latest.pop(0)
        elif self.edited:
            self.edited.pop()
        elif self.contexts:
            self.contexts.pop(0)
        elif self.latest:
            self.latest.pop(0)
        else:
            return False
        return True

    def _parts(self) -> Iterator[str]:
        if self.task:
            yield f"The first message of the user, word for word:\n<user-message>\n{self.task}\n</user-message>"
        if self.latest:
            said = "\n".join(f"<user-message>\n{text}\n</user-message>" for text in self.latest)
            yield f"The last messages of the user before this point, word for word:\n{said}"
        if self.todos:
            rows = "\n".join(f"- {item.status}: {item.content}" for item in self.todos)
            yield f"The list of things to do, as it is now:\n{rows}"
        if self.edited:
            yield "Files changed, the latest first:\n" + "\n".join(f"- {path}" for path in self.edited)
        if self.read:
            yield "Files read, the latest first:\n" + "\n".join(f"- {path}" for path in self.read)
        yield from self.contexts


def gather(session: Session, shadowed: Sequence[int], limit: int, keep_context_of: Sequence[str] = ()) -> Pins:
    """What stays of a session when the events `shadowed` are replaced.

    Args:
        limit: characters of one message.
        keep_context_of: plugins whose context messages stay.
    """
    pins = Pins()
    gone = set(shadowed)
    pins.task = _shown(_first_prompt(session), limit)
    kept = {seq for seq in session.surface if seq not in gone}
    for event in _of_kind(session, UserMessage, SteeringMessage, backwards=True):
        data = event.data
        if event.seq in kept or event.surface_op != "append":
            continue
        if isinstance(data, SteeringMessage) and not isinstance(data.source, UserSource):
            continue  # what a plugin says on the way is no task
        text = _shown(_plain(data.content), limit)
        if text and text != pins.task and text not in pins.latest:
            pins.latest.insert(0, text)
        if len(pins.latest) == LATEST:
            break
    _files(session, pins)
    seen: set[str] = set()
    for event in _of_kind(session, ContextMessage):
        source = event.data.source
        if isinstance(source, PluginSource) and source.plugin in keep_context_of:
            text = _plain(event.data.content)
            if event.seq not in kept and text not in seen:
                seen.add(text)
                pins.contexts.append(text)
    return pins


def _first_prompt(session: Session) -> str:
    """The first message of a person in the log, or of whoever began it."""
    for event in _of_kind(session, UserMessage):
        if event.surface_op == "append":
            return _plain(event.data.content)
    return ""


def _files(session: Session, pins: Pins) -> None:
    """Read the log backwards for todos and paths; both may be older than anything the model still sees."""
    todos = next(iter(_of_kind(session, TodoWrite, backwards=True)), None)
    if todos is not None:
        pins.todos = todos.data.todos
    for event in _of_kind(session, AssistantMessage, backwards=True):
        for block in reversed(event.data.content):
            if isinstance(block, ToolCallBlock):
                into = pins.edited if block.name in WRITERS else pins.read if block.name in READERS else None
                path = None if into is None else _path(block.arguments)
                if into is not None and path and path not in into and len(into) < FILES:
                    into.append(path)
        if len(pins.edited) >= FILES:
            break
    pins.read = [path for path in pins.read if path not in pins.edited]


def _of_kind(session: Session, *classes: type[Any], backwards: bool = False) -> Iterator[Event]:
    """The events of some classes; lines of other events that were never made stay lines."""
    events, names = session.events, [f'"{cls.type}"'.encode() for cls in classes]
    order: Iterable[int] = range(len(events) - 1, -1, -1) if backwards else range(len(events))
    for seq in order:
        item = events.peek(seq)
        if isinstance(item, bytes) and not any(name in item for name in names):
            continue
        event = events[seq]
        if isinstance(event.data, classes):
            yield event


def _path(raw: str) -> str | None:
    try:
        values = loads(raw or "{}")
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    found = next((values[name] for name in PATHS if isinstance(values.get(name), str)), None)
    return found if isinstance(found, str) else None


def _plain(content: Iterable[Block]) -> str:
    parts = [block.text if isinstance(block, Text) else f"[{block.type}]" for block in content]
    return "\n".join(part for part in parts if part).strip()


def _shown(text: str, limit: int) -> str:
    if len(text) <= limit + 200:
        return text
    return shorter_text(text, limit * 3 // 4, limit // 4, again="")
