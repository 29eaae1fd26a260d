"""``/permissions``: the rules that hold, and another mode for the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from dsh import ConfigError, StashKey
from dsh.structure import did_you_mean

from .events import PermissionMode
from .guard import Guard, guard_of, root_of
from .verdict import MODES, Mode

if TYPE_CHECKING:
    from dsh import Agent

__all__ = ["back_to_first", "lines_of", "note_switch", "slash"]

PENDING: StashKey[PermissionMode] = StashKey("permissions: a switch of the mode that is not logged yet")

BY_WIDTH: tuple[Mode, ...] = ("plan", "dont-ask", "default", "accept-edits", "bypass")
"""The modes, from the one that lets least pass to the one that lets most."""
MEANS: dict[Mode, str] = {
    "plan": "nothing is changed",
    "dont-ask": "what would be asked about is denied",
    "default": "you are asked before something changes",
    "accept-edits": "files below the working directory are written unasked",
    "bypass": "everything runs unasked but for what a rule denies",
}


async def slash(agent: Agent, text: str) -> str:
    """``/permissions [MODE [yes]]``; what to tell the person.

    Raises:
        ConfigError: there is no such mode, or it may not be chosen here.
    """
    guard = guard_of(agent.harness)
    words = text.split()
    if not words or words == ["list"]:
        return "\n".join(lines_of(guard, agent))
    wanted = next((mode for mode in MODES if mode == words[0]), None)
    if wanted is None or words[1:] not in ([], ["yes"]):
        raise ConfigError(f"/permissions takes a mode: {', '.join(MODES)}{did_you_mean(words[0], MODES)}", code="USAGE")
    if wanted == guard.mode:
        return f"mode {wanted}: {MEANS[wanted]}; it holds already"
    if wanted == "bypass" and guard.first_mode != "bypass":
        raise ConfigError("bypass is for one run, from its start: dsh --permission-mode bypass", code="USAGE")
    if BY_WIDTH.index(wanted) > BY_WIDTH.index(guard.first_mode) and len(words) == 1:
        return (
            f"{wanted} lets more pass than {guard.first_mode}, which dsh was started with: {MEANS[wanted]}.\n"
            f"/permissions {wanted} yes  switches to it"
        )
    before = guard.mode
    guard.switch(wanted)
    root = root_of(agent)
    pending = root.stash.get(PENDING, None)
    root.stash[PENDING] = PermissionMode(0, wanted, before if pending is None else pending.before)
    note_switch(root)
    return f"mode {wanted} from now on: {MEANS[wanted]}"


def note_switch(root: Agent) -> None:
    """Log that the mode was switched, once a turn is open: everything in a log belongs to one."""
    pending, turn = root.stash.get(PENDING, None), root.session.open_turn
    if pending is not None and turn is not None:
        del root.stash[PENDING]
        root.session.append(evolve(pending, turn=turn))


def back_to_first(agent: Agent) -> None:
    """Another conversation begins: a mode looser than that of the start was for the one before it."""
    guard = guard_of(agent.harness)
    was, first = guard.mode, guard.first_mode
    if agent.parent is None and BY_WIDTH.index(was) > BY_WIDTH.index(first):
        guard.switch(first, "as dsh was started")
        agent.harness.warn(f"mode {first} again: {was} was chosen for the conversation before this one")


def lines_of(guard: Guard, agent: Agent) -> Iterator[str]:
    """The mode, the rules and what was allowed in this conversation."""
    yield f"mode {guard.mode} ({guard.settings.mode_source}): {MEANS[guard.mode]}"
    for kind in ("deny", "ask", "allow"):
        yield from (f"{kind:<5} {rule.text}  ({rule.source})" for rule in guard.rules.rules if rule.kind == kind)
    yield from (f"allow {rule.text}  ({rule.source})" for rule in guard.grants(agent))
    yield from (f"dir   {folder}" for folder in guard.settings.add_dirs)
    yield from (f"not in force, since the folder is not trusted: {text}" for text in guard.ignored)
    yield f"/permissions MODE chooses another mode: {', '.join(MODES)}"
