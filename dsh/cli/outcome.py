"""How a run ended, as an exit code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import EXIT_BLOCKED, EXIT_FAILED, EXIT_LIMIT, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE

if TYPE_CHECKING:
    from ..session.events import EndReason

__all__ = ["exit_code", "explanation", "is_limit", "is_mistake", "is_unavailable"]

_UNAVAILABLE = re.compile(
    r"UNAVAILABLE|TIMEOUT|RATE_LIMIT|SERVER|OVERLOADED|STREAM_CLOSED|EMPTY_RESPONSE|HTTP_(409|425|429|5\d\d)"
)


def is_unavailable(code: str | None) -> bool:
    """Whether an error of this code is the provider's, and may pass."""
    return code is not None and _UNAVAILABLE.fullmatch(code) is not None


_MISTAKES = frozenset({"CONFIG", "PLUGIN", "PROMPT", "NO_ADAPTER", "LOCAL_NOT_INSTALLED"})


def is_mistake(code: str | None) -> bool:
    """Whether an error of this code says that the settings or a plugin are wrong."""
    return code in _MISTAKES


def is_limit(code: str | None) -> bool:
    """Whether an error of this code says that a limit of the run was reached."""
    return code is not None and code.startswith("LIMIT_")


def exit_code(reason: EndReason | None, *, unanswered: bool, limit: str | None = None, keyless: bool = False) -> int:
    """The exit code of a run whose last turn ended for `reason`; None when none opened.

    Args:
        unanswered: a tool needed a person's approval, and nobody was there.
        limit: the code of the limit for which the run was cancelled, if it was.
        keyless: the provider has no key that could be sent, so that it never refused one.
    """
    if reason is None:
        return EXIT_FAILED
    if reason.kind == "completed":
        return EXIT_BLOCKED if unanswered else EXIT_OK
    if reason.kind == "rejected":
        return EXIT_BLOCKED
    if reason.kind == "max-tokens" or (reason.kind == "aborted" and limit is not None):
        return EXIT_LIMIT
    if reason.kind == "error" and is_limit(reason.code):
        return EXIT_LIMIT
    if reason.kind == "error" and (is_mistake(reason.code) or (keyless and reason.code == "AUTH")):
        return EXIT_USAGE
    if reason.kind == "error" and is_unavailable(reason.code):
        return EXIT_UNAVAILABLE
    return EXIT_FAILED


def explanation(reason: EndReason | None, *, unanswered: bool, limit: str | None = None) -> dict[str, str] | None:
    """What to tell of a run that did not end well, as ``code`` and ``message``; None of one that did."""
    if reason is None:
        return {"code": "ABORTED", "message": "the run was stopped before it began"}
    if reason.kind == "completed":
        if not unanswered:
            return None
        return {
            "code": "APPROVAL_UNANSWERED",
            "message": "a tool needed a person's approval, and nobody was there to give it",
        }
    if reason.kind == "error":
        return {"code": reason.code or "ERROR", "message": reason.message or "the turn failed"}
    if reason.kind == "aborted" and limit is not None:
        return {"code": limit, "message": reason.reason or "a limit was reached"}
    texts = {
        "max-tokens": "the answer is cut off: the model reached the limit of its output",
        "rejected": f"the prompt was blocked: {reason.reason or 'no reason was given'}",
        "aborted": f"stopped: {reason.reason or 'cancelled'}",
    }
    text = texts.get(reason.kind, f"the turn ended: {reason.kind}")
    return {"code": reason.kind.upper().replace("-", "_"), "message": text}
