"""A question as a person reads it: what is to run, in full and with nothing in it that acts on the terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsh.jsonvalue import dumps
from dsh.terminal import visible
from dsh.tools.views import Diff, DiffCall

if TYPE_CHECKING:
    from dsh.approval import PermissionRequest

__all__ = ["body", "choices", "shortened"]

LINES, SIGNS = 40, 6000
BAR = "  | "
"""What every line that somebody else wrote begins with, so that none looks like one of dsh's own."""


def body(request: PermissionRequest, *, whole: bool = False) -> list[str]:
    """The lines of a question; those of a long call shortened in the middle, unless it shall be `whole`."""
    call = request.call
    who = f" ({' > '.join(visible(name) for name in request.lineage)})" if len(request.lineage) > 1 else ""
    shown = [line for line in _call(request) for line in visible(line).split("\n")]
    lines = [f"{BAR}{line}" for line in (shown if whole else shortened(shown))]
    return ["", f"dsh: {visible(call.name, keep='')} needs your approval{who}", *lines, *_reasons(request)]


def shortened(lines: Sequence[str]) -> list[str]:
    """At most `LINES` lines with `SIGNS` signs: the head and the tail, and how much is between them."""
    cut = [line if len(line) <= SIGNS // 4 else _cut(line) for line in lines]
    if len(cut) <= LINES:
        return cut
    head, tail = LINES * 3 // 4, LINES // 4
    return [*cut[:head], f"[... {len(cut) - head - tail} more lines: v shows them ...]", *cut[-tail:]]


def _cut(line: str) -> str:
    half = SIGNS // 8
    return f"{line[:half]} [... {len(line) - 2 * half} more signs: v shows them ...] {line[-half:]}"


def choices(request: PermissionRequest) -> list[str]:
    """What can be answered."""
    rules = ", ".join(visible(rule, keep="") for rule in request.rules)
    always = []
    if rules:
        always = [f"  a  yes, and always in this session: {rules}", f"  p  yes, and always in this project: {rules}"]
    elif request.verdict is None:
        always = ["  a  yes, and for this very call always in this session"]
    return ["  y  yes, this once", *always, "  n  no", "  e  no, with a reason for the model"]


def _reasons(request: PermissionRequest) -> Iterator[str]:
    yield f"  why: {visible(request.reason, keep='')}"
    verdict = request.verdict
    if verdict is None:
        return
    if verdict.rule is not None:
        yield f"  rule: {visible(verdict.rule, keep='')} ({visible(verdict.source, keep='')})"
    asking = [part for part in verdict.parts if part.kind == "ask"]
    if len(verdict.parts) > 1:
        for part in asking[:8]:
            yield f"  asks: {shortened([visible(part.text, keep='')])[0]}: {visible(part.reason, keep='')}"
        if len(asking) > 8:
            yield f"  asks: {len(asking) - 8} more"


def _call(request: PermissionRequest) -> Iterator[str]:
    call = request.call
    view: Any = None
    if call.tool is not None and call.tool.effect == "write" and call.tool.present_call is not None:
        try:
            view = call.tool.present_call(call.arguments)
        except Exception:
            view = None  # a view is decoration, and the arguments may be wrong
    if isinstance(view, DiffCall) and view.diffs:
        for diff in view.diffs:
            yield from _diff(diff)
        return
    yield from _arguments(call.arguments)


def _arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    texts = [(key, value if isinstance(value, str) else dumps(value).decode()) for key, value in arguments.items()]
    for key, text in texts:
        if len(texts) == 1:
            yield text
        elif "\n" in text:
            yield f"{key}:"
            yield "\n".join(f"  {line}" for line in text.split("\n"))
        else:
            yield f"{key}: {text}"


def _diff(diff: Diff) -> Iterator[str]:
    yield diff.path
    if diff.old_text is None:
        yield from (f"+ {line}" for line in diff.new_text.removesuffix("\n").split("\n"))
        return
    before, after = diff.old_text.split("\n"), diff.new_text.split("\n")
    for line in difflib.unified_diff(before, after, lineterm="", n=2):
        if not line.startswith(("---", "+++", "@@")):
            yield f"{line[0]} {line[1:]}"
