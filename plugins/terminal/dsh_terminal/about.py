"""``/doctor`` and ``/config``: as the shell's, but for what is another way in this conversation than beside it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dsh.checks import Check, Checks, ask_plugins
from dsh.jsonvalue import loads

from .looks import split
from .state import counted

if TYPE_CHECKING:
    from .talk import Talk

__all__ = ["config", "doctor"]

SIGNS = {"ok": "ok", "note": "note", "warning": "warn", "error": "FAIL"}


async def doctor(talk: Talk, rest: str) -> str:
    """``/doctor``: plugins are asked here, where they know of modes and flags; the rest is asked beside."""
    printed = await talk.conversation.shell(["doctor", "--json", *split(rest)])
    beside = _checks(printed)
    if beside is None:
        # it says what is wrong with the flags, for programs and for people
        return "\n".join(line for line in printed.splitlines() if not line.startswith("{"))
    here = Checks()
    _here(talk, here)
    await ask_plugins(talk.conversation.harness, here)
    return "\n".join(_lines(_merged(list(here), beside), talk.painter.width))


async def config(talk: Talk, rest: str) -> str:
    """``/config [path]``: the settings, and what holds in this conversation whatever they say."""
    printed = await talk.conversation.shell(["config", *split(rest)])
    return printed if rest.strip() else f"# in this conversation, whatever follows: {_what_holds(talk)}\n{printed}"


def _what_holds(talk: Talk) -> str:
    effort = f", effort {talk.state.effort}" if talk.state.effort else ""
    return ", ".join([f"model {talk.state.model or 'none'}{effort}", *(part for part in talk.state.parts if part)])


def _here(talk: Talk, checks: Checks) -> None:
    session = talk.agent.session
    text = f"{_what_holds(talk)}; session {session.id}, {counted(session.last_turn, 'turn')}"
    checks.ok("conversation", text)
    look = talk.screen.look
    kind = "lines alone" if look.plain else "with colours" if look.colour else "without colours"
    checks.ok("terminal", f"{talk.screen.columns} columns, TERM={os.environ.get('TERM') or '(not set)'}, {kind}")


def _checks(printed: str) -> list[Check] | None:
    """What ``dsh doctor --json`` printed; None if it is something else."""
    try:
        found = [loads(line) for line in printed.splitlines() if line.strip()]
        return [Check(row["area"], row["status"], row["text"], row["advice"]) for row in found]
    except (ValueError, TypeError, KeyError):
        return None


def _merged(here: Sequence[Check], beside: Sequence[Check]) -> list[Check]:
    """All of them, an area where it stood beside, and as it is here where it was asked for here."""
    areas = {check.area for check in here}
    found: list[Check] = [check for check in here if check.area == "conversation"]
    told = {"conversation"}
    for check in beside:
        if check.area not in areas:
            found.append(check)
        elif check.area not in told:
            told.add(check.area)
            found += [ours for ours in here if ours.area == check.area]
    return [*found, *(check for check in here if check.area not in told)]


def _lines(checks: Sequence[Check], columns: int) -> Iterator[str]:
    width = max(len(check.area) for check in checks)
    margin = " " * (width + 8) if columns > 3 * width else ""

    def wrapped(head: str, text: str) -> str:
        whole = f"{head}{' '.join(text.split())}"
        return textwrap.fill(whole, columns, subsequent_indent=margin, break_on_hyphens=False)

    for check in checks:
        yield wrapped(f"{SIGNS.get(check.status, check.status):<4}  {check.area:<{width}}  ", check.text)
        if check.advice:
            yield wrapped(f"{margin}-> ", check.advice)
    bad = sum(check.status == "error" for check in checks)
    odd = sum(check.status == "warning" for check in checks)
    yield f"\n{bad} failed, {odd} could be better" if bad or odd else "\nall is well"
