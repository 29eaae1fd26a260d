"""The tools ``read``, ``write`` and ``edit``, and what an agent has seen of the files it wants to change."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio
from attrs import frozen

from dsh import StashKey, Tool, ToolArgsError, ToolCall, ToolResult
from dsh.jsonvalue import Json
from dsh.paths import judged_path

from . import prompts
from .config import FilesConfig
from .errors import FsError
from .local import Version, open_regular, version_of
from .paths import Target, TargetKey, resolve
from .store import Written, edit_of, edit_text, editable, exclusive, window, writable, write_text
from .window import Window

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["FileTools"]

Seen = dict[TargetKey, Version | None]
"""The version of each file that was read or written; None for those found missing."""

SEEN: StashKey[dict[str, Seen]] = StashKey("files: versions seen, by session")

DIRECT = 128 * 1024
"""Bytes that are read sooner than a worker thread is woken up."""


def seen_by(agent: Agent | None) -> Seen:
    """What `agent` has seen in its session; without an agent, nothing, and nothing is kept."""
    if agent is None:
        return {}
    return agent.stash.setdefault(SEEN, {}).setdefault(agent.session.id, {})


def _target(arguments: Mapping[str, Json], call: ToolCall) -> Target:
    cwd = call.agent.session.header.cwd if call.agent is not None else None
    target = resolve(arguments["file_path"], cwd or os.getcwd())
    judged = judged_path(call)
    if judged is not None and judged != target.key:
        moved = f"{target.shown} leads to another file than when this call was allowed; nothing was done"
        raise FsError(moved, "FS_MOVED")
    return target


def _late(name: str) -> Any:
    """A presenter, imported when a user interface asks it."""

    def present(*arguments: Any) -> Any:
        from . import views

        return getattr(views, name)(*arguments)

    return present


def _never() -> None:
    """Short work is not interrupted."""


@frozen
class FileTools:
    """The three tools with one configuration.  What they raise as `FsError` becomes an error result."""

    config: FilesConfig

    def tools(self) -> tuple[Tool, Tool, Tool]:
        """The tools as the model gets them."""
        return (
            Tool(
                "read",
                prompts.READ,
                prompts.read_parameters(self.config.read_limit),
                self.read,
                parallel=True,
                present_call=_late("read_call"),
                effect="read",
                subject="file_path",
            ),
            Tool(
                "write",
                prompts.WRITE,
                prompts.WRITE_PARAMETERS,
                self.write,
                check=self.check_write,
                present_call=_late("write_call"),
                present_result=_late("write_result"),
                effect="write",
                subject="file_path",
            ),
            Tool(
                "edit",
                prompts.EDIT,
                prompts.EDIT_PARAMETERS,
                self.edit,
                check=self.check_edit,
                present_call=_late("edit_call"),
                present_result=_late("edit_result"),
                effect="write",
                subject="file_path",
            ),
        )

    async def read(self, arguments: Mapping[str, Json], call: ToolCall) -> str:
        """Show lines of a file.  A big file is read in a thread, which cancelling stops at the next piece."""
        target, seen = _target(arguments, call), seen_by(call.agent)
        offset = int(arguments.get("offset", 1))
        limit = int(arguments.get("limit", self.config.read_limit))
        try:
            with open_regular(target) as (descriptor, found):
                version = version_of(found)
                if 0 < found.st_size <= DIRECT:
                    shown = window(descriptor, found, target, offset, limit, self.config, _never)
                else:
                    shown = await trio.to_thread.run_sync(
                        window, descriptor, found, target, offset, limit, self.config, trio.from_thread.check_cancelled
                    )
        except FsError as error:
            if error.absent:
                seen[target.key] = None
            raise
        if not shown.lines and offset > 1:
            raise FsError(f"{target.shown} has {_lines(shown.total or 0)}, none at offset {offset}", "FS_NOT_FOUND")
        seen[target.key] = version
        body = [f"{shown.first + n}: {line}" for n, line in enumerate(shown.lines)]
        return _envelope(target, "\n".join([*body, "", _footer(shown, self.config)]))

    def check_write(self, arguments: Mapping[str, Json], call: ToolCall) -> None:
        """What is there already must have been read, and be as it was then."""
        target = _target(arguments, call)
        writable(target, seen_by(call.agent).get(target.key))

    async def write(self, arguments: Mapping[str, Json], call: ToolCall) -> ToolResult:
        """Make or overwrite a file.  Cancelled before the file appears, nothing is changed; afterwards it is done."""
        target, seen = _target(arguments, call), seen_by(call.agent)
        expected = seen.get(target.key)
        content = arguments["content"]
        written = await _change(target, seen, lambda check: write_text(target, content, expected, check))
        what = "Created the file" if expected is None else "Updated the file"
        text = f"{what}; {written.note}" if written.note else what
        meta = None if written.diffs is None else {"diffs": written.diffs}
        return ToolResult(_envelope(target, text), meta=meta)

    def check_edit(self, arguments: Mapping[str, Json], call: ToolCall) -> None:
        """The file must have been read and be as it was then; in a short one it is looked whether the text is there."""
        target, seen = _to_edit(arguments, call)
        found = editable(target, seen[target.key])
        if found.st_size <= DIRECT:
            edit_of(target, found, *_edit(arguments))

    async def edit(self, arguments: Mapping[str, Json], call: ToolCall) -> ToolResult:
        """Replace text in a file.  Cancelled before the file appears, nothing is changed; afterwards it is done."""
        target, seen = _to_edit(arguments, call)
        old, new, every = _edit(arguments)
        expected = seen[target.key]
        written = await _change(target, seen, lambda check: edit_text(target, old, new, every, expected, check))
        places = "1 place" if written.count == 1 else f"{written.count} places"
        text = f"Edited {target.shown}" + (f": replaced {places}" if every else "")
        return ToolResult(text, meta=None if written.diffs is None else {"diffs": written.diffs})


def _to_edit(arguments: Mapping[str, Json], call: ToolCall) -> tuple[Target, Seen]:
    """The file that an edit is for, which was read, and what else was."""
    old, new, _ = _edit(arguments)
    if old == new:
        violation = '"new_string" must differ from "old_string"'
        raise ToolArgsError(f"invalid arguments for edit: {violation}", [violation])
    target, seen = _target(arguments, call), seen_by(call.agent)
    if target.key not in seen:
        raise FsError(f"{target.shown} was not read; read it before you edit it", "FS_NOT_OBSERVED")
    return target, seen


def _edit(arguments: Mapping[str, Json]) -> tuple[str, str, bool]:
    return arguments["old_string"], arguments["new_string"], arguments.get("replace_all", False)


async def _change(target: Target, seen: Seen, work: Callable[[Callable[[], None]], Written]) -> Written:
    """Do `work` in a thread while nobody else writes the file, and remember what came of it."""
    async with exclusive(target.key):
        try:
            written = await trio.to_thread.run_sync(work, trio.from_thread.check_cancelled)
        except FsError as error:
            if error.absent:
                seen[target.key] = None
            raise
    seen[target.key] = written.version
    return written


def _envelope(target: Target, body: str) -> str:
    return f"<path>{target.shown}</path>\n<type>file</type>\n<content>\n{body}\n</content>"


def _footer(shown: Window, config: FilesConfig) -> str:
    """Where the shown lines are, and how to go on."""
    if shown.ending == "end":
        return f"(end of file, {_lines(shown.total or 0)})"
    span = f"lines {shown.first}-{shown.last}"
    following = f"continue with offset={shown.last + 1}"
    if shown.ending == "lines":
        return f"({span} of {shown.total}; {following})"
    return f"({span}, as much as {config.read_max_bytes} bytes hold; {following})"


def _lines(number: int) -> str:
    return f"{number} line" if number == 1 else f"{number} lines"
