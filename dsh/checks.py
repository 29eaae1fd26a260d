"""Checks of the machine and the program: what ``dsh doctor`` prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from .hooks import Collector

__all__ = ["Check", "Checks", "may_write"]


LAST = 100
"""Behind dsh's own checks of the machine and the program."""


@frozen
class Check:
    """What one check found.

    Attributes:
        area: what it is about, in a word.
        status: ``ok``, ``note``, ``warning`` or ``error``.
        text: what was found.
        advice: what to do about it; empty where there is nothing to do.
    """

    STATUSES: ClassVar[tuple[str, ...]] = ("ok", "note", "warning", "error")
    area: str
    status: str
    text: str
    advice: str = ""


class Checks(Collector[Check]):
    """The collector of ``dsh_doctor``."""

    def ok(self, area: str, text: str, order: int = LAST) -> None:
        """All is well."""
        self.collect(Check(area, "ok", text), order)

    def note(self, area: str, text: str, advice: str = "", order: int = LAST) -> None:
        """Something to know, which is no fault."""
        self.collect(Check(area, "note", text, advice), order)

    def warning(self, area: str, text: str, advice: str, order: int = LAST) -> None:
        """Something works less well than it could; `advice` says what to do."""
        self.collect(Check(area, "warning", text, advice), order)

    def error(self, area: str, text: str, advice: str, order: int = LAST) -> None:
        """Something does not work; `advice` says what to do."""
        self.collect(Check(area, "error", text, advice), order)


def may_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, or in what is there of the path to it; nothing is written to find out."""
    there = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
