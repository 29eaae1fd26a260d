"""The event of a file that a tool changed."""

from __future__ import annotations

import os
from typing import ClassVar

from attrs import frozen

__all__ = ["FileChanged"]


@frozen
class FileChanged:
    """A tool changed a file, or tried to.

    Attributes:
        turn, step, call_id: the call.
        path: the file's real path.
        before, after: SHA-256 of its content in hex; None where there was no file.  What it was before is kept under
            that name.
        mode: its permission bits before; None where there was no file.
        kept: whether its content before can be brought back.
        reason: why not; empty if it can.
        folders: how many of the folders that it lies in were not there before.
        raw: the bytes of the path in hex, where they are no UTF-8 and `path` cannot show them; else empty.
    """

    type: ClassVar[str] = "checkpoints/file"
    turn: int
    step: int
    call_id: str
    path: str
    before: str | None
    after: str | None
    mode: int | None
    kept: bool
    reason: str = ""
    folders: int = 0
    raw: str = ""

    def place(self) -> str:
        """The path as the system takes it."""
        return os.fsdecode(bytes.fromhex(self.raw)) if self.raw else self.path
