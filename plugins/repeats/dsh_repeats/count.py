"""Counting what a turn repeats."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field, frozen
from attrs.validators import ge

from dsh.jsonvalue import dumps, loads
from dsh.messages import Text, ToolCallBlock
from dsh.session.events import AssistantMessage, Event, ToolResult

__all__ = ["Circles", "Finding", "Outcome", "RepeatsConfig", "outcomes"]


@frozen
class RepeatsConfig:
    """The table ``[repeats]``; a limit of 0 turns its rule off.

    Nothing ends a turn about which the model was not told a step before, unless reminders are off.

    Attributes:
        failing_remind, failing_stop: how often in a row the same call may fail before the model is told,
            and before the turn ends.
        same_remind, same_stop: how often the same call may have the same result, also with others in between.  A
            file that was changed in another way than before begins to count anew; where other new things were done
            half of the times, and with tools that wait, it may be `PATIENCE` times as often.
        continuations: how often in a row plugins may make a turn go on in which the model does nothing; it is told
            after half as often.
        ignore: tools that do not count.
        waiting: tools that look whether something has happened yet; and so does a command that sleeps.
    """

    failing_remind: int = field(default=3, validator=ge(0))
    failing_stop: int = field(default=6, validator=ge(0))
    same_remind: int = field(default=4, validator=ge(0))
    same_stop: int = field(default=8, validator=ge(0))
    continuations: int = field(default=10, validator=ge(0))
    ignore: tuple[str, ...] = ("todo_write",)
    waiting: tuple[str, ...] = ("bash_output",)


PATIENCE = 3
"""How many times as often something may be the same that may yet become another."""
_SLEEPS = re.compile(r"[^{]*\{[^{}]*:\s*\"\s*sleep [0-9.]+[smh]?\s*\"")
SHORT = 200


@frozen
class Outcome:
    """A call and what came of it; the texts tell apart what is different, and no more.

    Attributes:
        effect: what the tool does: ``read`` and ``fetch`` change nothing, ``write`` does, others may.
    """

    tool: str
    call: str
    result: str
    failed: bool
    effect: str | None = field(default="read", eq=False)


@frozen
class Finding:
    """What is repeated, and how often."""

    kind: str
    count: int
    stop: bool
    tool: str = ""


@define
class Circles:
    """The counts of a turn."""

    config: RepeatsConfig
    turn: int
    _row: tuple[str, int] = ("", 0)
    _recent: deque[Outcome] = field(init=False)
    _told: dict[tuple[str, str], int] = field(factory=dict)
    _before: frozenset[tuple[str, str]] = frozenset()
    _idle: int = 0

    def __attrs_post_init__(self) -> None:
        # A circle of up to four different calls is seen.
        self._recent = deque(maxlen=4 * PATIENCE * max(self.config.same_stop, self.config.same_remind, 1))

    def step(self, done: Iterable[Outcome]) -> list[Finding]:
        """Count the calls of a step; the worst of what is found comes first."""
        found: list[Finding] = []
        self._before = frozenset(self._told)
        for outcome in done:
            if outcome.tool in self.config.ignore:
                continue
            found += self._failing(outcome)
            found += self._same(outcome)
        return sorted(found, key=lambda finding: not finding.stop)

    def continued(self, proposed_stop: bool, goes_on: bool) -> Finding | None:
        """Count a turn that goes on although the model had nothing more to do."""
        self._idle = self._idle + 1 if proposed_stop and goes_on else 0
        limit = self.config.continuations
        if not limit or self._idle <= limit // 2:
            return None
        if self._idle > limit:
            return Finding("continuation", self._idle, True)
        return Finding("continuation", self._idle, False) if self._idle == limit // 2 + 1 else None

    def _failing(self, outcome: Outcome) -> Iterator[Finding]:
        last, count = self._row
        count = (count + 1 if outcome.call == last else 1) if outcome.failed else 0
        self._row = (outcome.call, count)
        yield from self._judged("failing-call", outcome, count, self.config.failing_remind, self.config.failing_stop)

    def _same(self, outcome: Outcome) -> Iterator[Finding]:
        if outcome.effect == "write" and not outcome.failed and outcome not in self._recent:
            # What is the same as before may now be so for another reason; but not what was changed, lest it goes
            # to and fro.
            kept = [other for other in self._recent if other.effect == "write"]
            self._recent.clear()
            self._recent.extend(kept)
            self._told.clear()
        self._recent.append(outcome)
        if outcome.failed and self.config.failing_remind and self._row[1] > 1:
            return  # the other rule's, as long as nothing comes between
        count = self._recent.count(outcome)
        times = PATIENCE if count > 1 and self._patient(outcome, count) else 1
        yield from self._judged(
            "same-result", outcome, count, times * self.config.same_remind, times * self.config.same_stop
        )

    def _patient(self, outcome: Outcome, count: int) -> bool:
        """Whether it may be the same for longer: it waits for something, or there was something new between."""
        if outcome.tool in self.config.waiting or _SLEEPS.match(outcome.call):
            return True
        others = Counter(other for other in self._recent if other != outcome)
        new = sum(
            times == 1 and not other.failed and other.effect not in ("read", "fetch") for other, times in others.items()
        )
        return 2 * new >= count - 1

    def _judged(self, kind: str, outcome: Outcome, count: int, remind: int, stop: int) -> Iterator[Finding]:
        key = (kind, outcome.call)
        if stop and count >= stop and (key in self._before or not remind):
            yield Finding(kind, count, True, outcome.tool)
        elif remind and count >= remind and count > self._told.get(key, 0):
            # Told again only when it has gone on for as long once more.
            self._told[key] = count + remind - 1
            yield Finding(kind, count, False, outcome.tool)
        elif count <= 1:
            self._told.pop(key, None)


def outcomes(events: Iterable[Event], effects: Mapping[str, str | None] | None = None) -> list[Outcome]:
    """The calls in the events of a step, each with its result, in the order of the results.

    Args:
        effects: of the tools that were called, by the calls' ids; a call that is not in it has not run.
    """
    calls: dict[str, ToolCallBlock] = {}
    found: list[Outcome] = []
    for event in events:
        data = event.data
        if isinstance(data, AssistantMessage):
            calls |= {block.id: block for block in data.content if isinstance(block, ToolCallBlock)}
        elif isinstance(data, ToolResult) and data.call_id in calls:
            call = calls[data.call_id]
            effect = (effects or {}).get(data.call_id, "read")
            name = f"{call.name} {_canonical(call.arguments)}"
            found.append(Outcome(call.name, name, _said(data), data.is_error, effect))
    return found


def _canonical(arguments: str) -> str:
    """The arguments with sorted keys; text that is no JSON as it is."""
    try:
        return dumps(_sorted(loads(arguments or "{}"))).decode()
    except ValueError:
        return arguments


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _said(result: ToolResult) -> str:
    text = "\n".join(block.text if isinstance(block, Text) else repr(block) for block in result.content)
    return text if len(text) <= SHORT else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
