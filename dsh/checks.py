"""Checks of the machine and the program: what ``dsh doctor`` prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen

from .errors import PROBLEMS, blamed_message, survivable
from .hooks import Collector
from .hooks.step import wraps

if TYPE_CHECKING:
    from .harness import Harness

__all__ = ["Check", "Checks", "ask_plugins", "may_write"]


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

    def take(self, others: Checks) -> None:
        """Add what `others` have, in the names of those who added it."""
        for entry in others._entries:
            self._entries.append(entry._replace(number=len(self._entries)))


async def ask_plugins(harness: Harness, checks: Checks) -> None:
    """Add what the plugins find by ``dsh_doctor``; one that fails is a failed check, and loses nobody else's."""
    found = Checks()
    try:
        await harness.hook.dsh_doctor(harness=harness, checks=found)
    except Exception as error:
        found = await _one_by_one(harness)
        if not any(check.area == "plugins" and check.status == "error" for check in found):  # a wrapper's, then
            found.error("plugins", f"dsh_doctor failed: {type(error).__name__}: {blamed_message(error)}", _MEND, 51)
    checks.take(found)


_MEND = "mend it; --no-plugin NAME runs without a plugin"


async def _one_by_one(harness: Harness) -> Checks:
    """What each plugin finds by itself."""
    found = Checks()
    for impl in harness.plugins.implementations("dsh_doctor"):
        if wraps(impl):
            continue
        name, own = impl.plugin_name, Checks()
        given: dict[str, Any] = {"harness": harness, "checks": own.view(name)}
        try:
            answer = impl.function(*(given[argument] for argument in impl.argnames))
            if hasattr(answer, "__await__"):
                await answer
        except PROBLEMS as problem:
            error = survivable(problem)
            text = f"dsh_doctor of the plugin {name} failed: {type(error).__name__}: {blamed_message(error)}"
            found.view(name).error("plugins", text, f"mend it; --no-plugin {name} runs without the plugin", 51)
        found.take(own)
    return found


def may_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, or in what is there of the path to it; nothing is written to find out."""
    there = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), None)
    return there is not None and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
