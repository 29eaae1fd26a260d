"""What a parent's model reads of its children."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsh import ToolErrorInfo, ToolResult
from dsh.jsonvalue import dumps

from .provider import ChildInfo, Outcome

__all__ = ["delivery", "listing", "lost_notice", "progress_text", "result_of", "shortened"]

SHOWN = 20_000
"""Characters of a child's progress that are shown at once."""
CODES = {
    "aborted": "SUBAGENT_CANCELLED",
    "timeout": "SUBAGENT_TIMEOUT",
    "max-tokens": "SUBAGENT_MAX_TOKENS",
    "refused": "SUBAGENT_REFUSED",
    "answer": "SUBAGENT_ANSWER",
}
SAID = {
    "aborted": "was cancelled",
    "timeout": "did not finish in time",
    "max-tokens": "reached the limit of the model's output before it had finished",
    "refused": "did not take the task",
    "answer": "gave no usable answer",
    "error": "failed",
}


def result_of(outcome: Outcome, limit: int) -> ToolResult:
    """The result of a call that waited for a child."""
    meta = {"subagent": outcome.id, "session_id": outcome.session_id, "reason": outcome.reason}
    if outcome.completed:
        return ToolResult(_answer(outcome, limit), meta=meta)
    error = ToolErrorInfo("SubagentError", CODES.get(outcome.reason, "SUBAGENT_FAILED"))
    return ToolResult(f"Error: the subagent {_failure(outcome, limit)}", is_error=True, error=error, meta=meta)


def delivery(info: ChildInfo, outcome: Outcome, limit: int) -> str:
    """The message by which a parent learns of the end of a child in the background."""
    who = f"{info.id} ({info.description})"
    if outcome.completed:
        return f"{who} has finished. Its answer:\n\n{_answer(outcome, limit)}"
    return f"{who} {_failure(outcome, limit)}"


def _answer(outcome: Outcome, limit: int) -> str:
    if outcome.structured is not None:
        return dumps(outcome.structured).decode()
    if not outcome.text.strip():
        return "(the subagent finished without saying anything)"
    return shortened(outcome.text, limit, outcome.session_id)


def _failure(outcome: Outcome, limit: int) -> str:
    how = SAID.get(outcome.reason, f"ended abnormally ({outcome.reason})")
    why = f": {outcome.message}" if outcome.message else ""
    if not outcome.text.strip():
        return f"{how}{why}. It had said nothing."
    return f"{how}{why}. What it had said last:\n\n{shortened(outcome.text, limit, outcome.session_id)}"


def shortened(text: str, limit: int, session_id: str | None = None) -> str:
    """`text`, or its beginning and end with a word about what is missing."""
    if len(text) <= limit:
        return text
    where = "" if session_id is None else f"; all of it is in the session {session_id}"
    missing = len(text) - limit
    return f"{text[: limit // 2]}\n\n[... {missing} characters left out{where} ...]\n\n{text[-(limit - limit // 2) :]}"


def progress_text(lines: Sequence[str]) -> str:
    """What a child said and did since it was last looked at; the end of it, if it is long."""
    text = "\n".join(lines)
    return text if len(text) <= SHOWN else f"[... {len(text) - SHOWN} characters left out ...]\n{text[-SHOWN:]}"


def listing(live: Iterable[ChildInfo], ended: Iterable[tuple[ChildInfo, str]]) -> str:
    """All children of an agent, a line each."""
    lines = [f"{_line(info)}: running" for info in live]
    lines += [f"{_line(info)}: {_status(reason)}" for info, reason in ended]
    return "\n".join(lines) or "You have not started any subagents."


def _line(info: ChildInfo) -> str:
    kind = f", {info.type}" if info.type else ""
    return f"{info.id} ({info.description}{kind}{', in the background' if info.background else ''})"


def _status(reason: str) -> str:
    if reason == "completed":
        return "finished"
    return "lost when the program ended" if reason in ("lost", "disposed") else f"ended: {reason}"


def lost_notice(lost: Sequence[ChildInfo]) -> str:
    """What a resumed agent is told of children that were at work when the program ended."""
    lines = [
        f"- {info.id} ({info.description}){f', session {info.session_id}' if info.session_id else ''}" for info in lost
    ]
    return (
        "These subagents were at work in the background when the program ended. They are gone, and there will be no "
        "answer from them; start the work again if it is still wanted:\n" + "\n".join(lines)
    )
