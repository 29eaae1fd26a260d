"""Instructions of folders below, read when the agent first touches something in one."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
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

WORDS = 100
"""Words of a command that are looked at."""
_WORD = re.compile(r"""'(?P<single>[^'\n]*)'|"(?P<double>[^"\n]*)"|(?P<plain>[^\s'"`;&|<>()$=]+)""")
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
        folder = Path(os.path.realpath(path if os.path.isdir(path) else path.parent))
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


def touched(call: ToolCall, cwd: Path) -> list[Path]:
    """The files and folders that a call reads or writes, in the order in which it names them; as far as it says so.

    Of a command, that is every word that is one; `cd` and a parameter ``workdir`` say what the words behind start from.
    """
    tool = call.tool
    if tool is None or tool.subject is None or tool.effect not in ("read", "write", "execute"):
        return []
    text = call.arguments.get(tool.subject)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        return []
    if tool.effect == "execute":
        start = call.arguments.get("workdir")
        return list(_named(text, cwd / start if isinstance(start, str) and "\0" not in start else cwd))
    return [_path(text, cwd)]


def _path(text: str, base: Path) -> Path:
    return Path(os.path.normpath(base / os.path.expanduser(text)))


def _named(command: str, base: Path) -> Iterator[Path]:
    """What the words of a command name that is there, and where it runs."""
    yield Path(os.path.normpath(base))
    before = ""
    for match in itertools.islice(_WORD.finditer(command), WORDS):
        word = match["single"] or match["double"] or match["plain"] or ""
        path = _path(word, base)
        try:
            found = bool(word) and os.path.lexists(path)
        except (OSError, ValueError):
            found = False
        if found:
            yield path
            if before == "cd":
                base = path
        before = word


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
