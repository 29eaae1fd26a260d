"""What becomes of a result: cleaned, and if it is too long, kept in a file and shown in part."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import evolve, frozen

from dsh import ToolCall, ToolResult
from dsh.jsonvalue import clean, dumps
from dsh.messages import Block, Text
from dsh.session.folder import encode_id, private_folder

from .clean import cleaned, is_binary, visible
from .config import SpillConfig, ToolLimits
from .cut import cut, lines_in

__all__ = ["Keeper"]

BINARY_SHOWN = 2048
"""Characters of what is no text that are shown at most."""
META = 256 * 1024
"""Bytes of JSON for user interfaces; what is longer would make the log as big as the results."""


@frozen
class Keeper:
    """Keeps the long results of one session.

    Attributes:
        home: ``$DSH_HOME``.
        mask: hides secrets; what is kept in files is masked as what the model sees, and before it is cut: of a secret
            that is cut in two neither part would be known.
    """

    config: SpillConfig
    home: Path
    mask: Callable[[str], str]

    def kept(self, call: ToolCall, result: ToolResult, session_id: str) -> ToolResult:
        """The result as it goes on; blocks for as long as the disk takes to write a long one."""
        whole = _is_kept(result)
        content = tuple(
            self._block(call, block, session_id, index, whole) for index, block in enumerate(result.content)
        )
        if all(new is old for new, old in zip(content, result.content, strict=True)):
            content = result.content
        meta = result.meta
        if meta is not None and (size := len(dumps(meta))) > META:
            meta = {"omittedBytes": size}
        if content is result.content and meta is result.meta:
            return result
        return evolve(result, content=content, meta=meta)

    def fits(self, call: ToolCall, result: ToolResult) -> bool:
        """Whether nothing needs to be written: then it costs no thread to look at it."""
        limits = self.config.limits(call.name)
        return all(not isinstance(block, Text) or self._within(block.text, limits) for block in result.content)

    def _block(self, call: ToolCall, block: Block, session_id: str, index: int, whole: bool) -> Block:
        """A block as it goes on; `whole`: the tool itself has cut it, and said where the rest is."""
        if not isinstance(block, Text):
            return block
        text, binary = clean(block.text), False
        if self.config.clean and not _exact(call):
            no_text = is_binary(text)
            binary = no_text and len(text) > BINARY_SHOWN and not whole
            text = visible(text) if no_text else cleaned(text)
            if not text and block.text:
                text = "(nothing that can be seen)"  # nothing at all is refused by some services
        if not binary and (whole or self._within(text, self.config.limits(call.name))):
            return block if text == block.text else Text(text)
        return Text(self._shown(call, self.mask(text), session_id, index, binary))

    @staticmethod
    def _within(text: str, limits: ToolLimits) -> bool:
        size, lines = limits.max_bytes, limits.max_lines
        return (not size or (len(text) <= size and len(text.encode()) <= size)) and (
            not lines or lines_in(text) <= lines
        )

    def _shown(self, call: ToolCall, text: str, session_id: str, index: int, binary: bool) -> str:
        """Head, tail, and where the rest is; of what is no text little: the end may say what became of it."""
        limits = self.config.limits(call.name)
        lines = max(limits.max_lines // 4, 1) if limits.max_lines else len(text)
        most = BINARY_SHOWN // 2 if binary else len(text) * 4
        if limits.max_bytes:
            most = min(most, limits.max_bytes // 3)
        parts = cut(text, min(self.config.head_bytes, most), min(self.config.tail_bytes, most), lines, lines)
        size, count = len(text.encode()), lines_in(text)
        try:
            path = self._save(call, text, session_id, index)
            where = f"all of it is in {path}: read the part that you need, or search it"
            if binary:
                where = f"it is no text for the most part; what can be shown is in {path}"
        except OSError as error:
            where = f"the rest is lost, as it could not be saved: {error.strerror or error}"
        marker = f"[{parts.left_bytes} bytes in {parts.left_lines} lines are left out here]"
        head = parts.head if parts.head.endswith("\n") or not parts.head else f"{parts.head}\n"
        tail = parts.tail if parts.tail.endswith("\n") or not parts.tail else f"{parts.tail}\n"
        return f"{head}{marker}\n{tail}[the result has {size} bytes in {count} lines; {where}]"

    def _save(self, call: ToolCall, text: str, session_id: str, index: int) -> Path:
        """Write a private file of its own.

        Raises:
            OSError: it cannot be written; nothing is left of it.
        """
        folder = private_folder(self.home, session_id, "results")
        name = f"{call.turn}-{call.step}-{encode_id(call.id or 'call')[:80]}" + (f"-{index}" if index else "")
        path, number = folder / f"{name}.txt", 1
        while True:
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                break
            except FileExistsError:
                number += 1
                path = folder / f"{name}-{number}.txt"
        try:
            with open(fd, "wb") as file:
                file.write(text.encode())
        except OSError:
            os.unlink(path)
            raise
        return path


def _is_kept(result: ToolResult) -> bool:
    """Whether the tool itself has kept what is too long, in the files that it names."""
    return isinstance(result.meta, Mapping) and bool(result.meta.get("kept"))


def _exact(call: ToolCall) -> bool:
    """Whether the result shows a file, which the model must see as it is to be able to edit it."""
    return call.tool is not None and call.tool.effect == "read"
