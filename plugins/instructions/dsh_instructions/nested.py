"""Instructions of folders below, read when the agent first touches something in one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from dsh import StashKey, ToolCall
from dsh.messages import PluginSource, text_of
from dsh.session.events import ContextMessage, Replace, UserMessage

from .config import InstructionsConfig
from .documents import Document, Loader, folders_between, project_root

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["NESTED", "Nested", "touched"]

_SHOWN = re.compile(r'^<instructions path="(?P<path>[^"]*)">$', re.MULTILINE)


@define
class Nested:
    """What an agent was told of the folders below its own."""

    config: InstructionsConfig
    cwd: Path
    home: Path
    root: Path = field(init=False)
    pending: set[str] = field(factory=set)
    _place: tuple[int, int] = (0, 0)

    def __attrs_post_init__(self) -> None:
        self.root = project_root(self.cwd)

    def folders(self, path: Path) -> list[Path]:
        """The folders whose instructions hold for `path` and were not read at the start, top first."""
        folder = Path(os.path.realpath(path.parent))
        root = Path(os.path.realpath(self.root))
        known = set(folders_between(root, Path(os.path.realpath(self.cwd))))
        return [one for one in folders_between(root, folder) if one not in known and self._has_any(one)]

    def _has_any(self, folder: Path) -> bool:
        return any(os.path.lexists(folder / name) for name in self.config.names)

    def load(self, agent: Agent, folders: Sequence[Path], turn: int, step: int) -> tuple[list[Document], list[str]]:
        """The documents of `folders` that the model cannot see yet, and what was wrong with files.

        Those of a step whose contexts are still to come, count as seen.
        """
        if self._place != (turn, step):
            self._place = (turn, step)
            self.pending.clear()
        loader = Loader(self.config, Path(os.path.realpath(self.cwd)), self.home)
        root = Path(os.path.realpath(self.root))
        documents = [document for folder in folders for document in loader.folder(folder, root)]
        seen = _visible(agent) | self.pending
        fresh = [document for document in documents if document.shown not in seen]
        self.pending |= {document.shown for document in fresh}
        return fresh, loader.problems


NESTED: StashKey[Nested] = StashKey("instructions: folders below")


def touched(call: ToolCall, cwd: Path) -> Path | None:
    """The file that a call reads or writes; None where it says of none."""
    tool = call.tool
    if tool is None or tool.effect not in ("read", "write") or tool.subject is None:
        return None
    path = call.arguments.get(tool.subject)
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return None
    return Path(os.path.normpath(cwd / Path(os.path.expanduser(path))))


def _visible(agent: Agent) -> set[str]:
    """The paths of nested instructions that stand in the history now.

    A compaction may have taken some away, or may have kept them word for word in what took the place of the rest.
    """
    events = agent.session.events
    found: set[str] = set()
    for seq in agent.session.surface:
        event = events[seq]
        data = event.data
        own = isinstance(data, ContextMessage) and data.source == PluginSource("instructions")
        if own or (isinstance(data, UserMessage) and isinstance(event.surface_op, Replace)):
            found |= {match["path"] for match in _SHOWN.finditer(text_of(data.content))}
    return found
