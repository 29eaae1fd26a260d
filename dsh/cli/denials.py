"""What was denied in a run, and which of it for want of somebody to ask."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from ..messages import text_of
from ..session.events import Event, HookDecision, ToolCall, ToolResult
from ..tools.pipeline import UNANSWERED
from .progress import one_line, summary_of

__all__ = ["Denials"]

GATE = "tools_pre_execute"
DECIDED = "permission/decided"
"""The event by which a plugin says what would have allowed a call."""
ASKED, ANSWERED = "acp/call", "acp/result"
"""The events by which a plugin says what another program asked for, as a call, and what it was answered."""

_Key = tuple[str, str]


@define
class Denials:
    """Gathers them from the events of all agents.

    Attributes:
        records: what was denied, as the result of a run has it.
    """

    records: list[dict[str, Any]] = field(factory=list)
    _calls: dict[_Key, Any] = field(factory=dict)
    _denied: set[_Key] = field(factory=set)
    _rules: dict[_Key, tuple[str, ...]] = field(factory=dict)

    @property
    def unanswered(self) -> bool:
        """Whether a call needed somebody's approval, and nobody was there."""
        return any(record["unanswered"] for record in self.records)

    def event(self, session_id: str, event: Event) -> None:
        """Look at an event."""
        data = event.data
        if isinstance(data, ToolCall) or event.type == ASKED:
            self._calls[session_id, data.call_id] = data
        elif isinstance(data, HookDecision):
            if data.hook == GATE and data.call_id is not None and data.verdict in ("deny", "raised", "late"):
                self._denied.add((session_id, data.call_id))
        elif event.type == DECIDED:
            key = session_id, str(getattr(data, "call_id", ""))
            self._rules[key] = tuple(getattr(data, "rules", ()))
        elif isinstance(data, ToolResult) or event.type == ANSWERED:
            self._result((session_id, data.call_id), data)

    def _result(self, key: _Key, result: Any) -> None:
        call, rules = self._calls.pop(key, None), self._rules.pop(key, ())
        unanswered = result.error is not None and result.error.code == UNANSWERED
        denied = key in self._denied
        self._denied.discard(key)
        if call is None or not (unanswered or denied):
            return
        self.records.append(
            {
                "session_id": key[0],
                "tool": call.name,
                "arguments": one_line(summary_of(call.arguments)),
                "reason": text_of(result.content).removeprefix("Error: "),
                "rule": ", ".join(rules) or None,
                "unanswered": unanswered,
            }
        )

    def lines(self) -> list[str]:
        """What nobody was there to allow, for a person to read."""
        found = dict.fromkeys(
            f"  {record['tool']}: {record['arguments']}" + (f"  (needs {record['rule']})" if record["rule"] else "")
            for record in self.records
            if record["unanswered"]
        )
        return ["denied, since nobody was there to ask:", *found] if found else []
