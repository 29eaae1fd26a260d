"""A question as a person reads it: what is to run, in full and with nothing in it that acts on the terminal."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dsh.cells import width as usual
from dsh.cells import wrapped
from dsh.jsonvalue import dumps
from dsh.terminal import visible
from dsh.tools.views import Diff, DiffCall

if TYPE_CHECKING:
    from dsh.approval import PermissionRequest

__all__ = ["body", "choices", "flowed", "shortened"]

LINES, SIGNS = 40, 6000
BAR = "  | "
"""What every line that somebody else wrote begins with, so that none looks like one of dsh's own."""
HANG = " " * 8
"""What a line of dsh's own goes on with in the next one: further in than any of them begins."""
GREEN, RED, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"
_COLOURS = {"+": GREEN, "-": RED}
_BLANKS = re.compile(r"(?<=[^ ]) {17,}| {41,}")


def body(request: PermissionRequest, *, width: int = 80, colour: bool = False, whole: bool = False) -> list[str]:
    """The lines of a question; those of a long call shortened in the middle, unless it shall be `whole`.

    Args:
        width: cells in a line of the terminal.  No line is wider, so that the terminal never begins one by itself,
            which would be without the mark of what others wrote.
        colour: what a change adds is green, and what it takes away red.
    """
    call = request.call
    who = f" ({' > '.join(visible(name) for name in request.lineage)})" if len(request.lineage) > 1 else ""
    asks = flowed(f"dsh: {visible(call.name, keep='')} needs your approval{who}", width)
    diff = _diffs(request)
    if diff is None:
        texts = [text for argument in _arguments(call.arguments) for text in _shown(argument)]
        pieces = [piece for text in texts for piece in _pieces(text, width, whole=whole)]
    else:
        pieces = [piece for path, lines in diff for piece in _change(path, lines, width, whole=whole)]
    if not whole:
        pieces = _middle_left_out(pieces)
    painted = [_painted(piece) if colour and diff is not None else piece for piece in pieces]
    return ["", *asks, *(f"{BAR}{piece}" for piece in painted), *_reasons(request, width)]


def _shown(text: str) -> list[str]:
    """The lines of what somebody wrote, with all that acts on the terminal, and many blanks, written out."""
    return [_BLANKS.sub(_counted, line) for line in visible(text).split("\n")]


def _counted(blanks: re.Match[str]) -> str:
    behind = " " if blanks.end() < len(blanks.string) else ""
    return f"{' ' if blanks.start() else ''}[... {len(blanks[0])} blanks]{behind}"


def _pieces(text: str, width: int, *, whole: bool) -> list[str]:
    return wrapped(text if whole else _cut(text), width - len(BAR), size=_most)


def _change(path: str, lines: Iterable[str], width: int, *, whole: bool) -> Iterator[str]:
    """A change: in the first column of its lines is what becomes of them, or > where the line above goes on."""
    first, *others = _pieces(_BLANKS.sub(_counted, visible(path, keep="")), width - 2, whole=whole)
    yield first
    yield from (f"> {other}" for other in others)
    for line in lines:
        first, *others = _pieces(_BLANKS.sub(_counted, visible(line[2:], keep="")), width - 2, whole=whole)
        yield f"{line[0]} {first}"
        yield from (f"> {other}" for other in others)


def _painted(piece: str) -> str:
    colour = _COLOURS.get(piece[:1])
    return f"{colour}{piece}{PLAIN}" if colour else piece


def _most(sign: str) -> int:
    """The most cells that a sign fills on any terminal; they differ in symbols, and in signs that join others."""
    kind = unicodedata.category(sign)
    if sign > "\x7f" and kind[0] == "S":
        return 2
    return max(usual(sign), 0 if kind in ("Mn", "Me") else 1)


def flowed(text: str, width: int) -> list[str]:
    """A line of dsh's own that may say what others wrote, wrapped at words; what goes on is set in by `HANG`."""
    text = _cut(_BLANKS.sub(_counted, text), "")
    lines: list[str] = []
    line = ""
    for word in re.findall(r" *[^ ]+", text):
        if _reckoned(line) + _reckoned(word) <= width:
            line += word
            continue
        if line:
            lines.append(line)
        *full, line = (f"{HANG}{piece}" for piece in wrapped(word.lstrip(), width - len(HANG), size=_most))
        lines += full
    return [*lines, line]


def _reckoned(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_most, text))


def shortened(lines: Sequence[str]) -> list[str]:
    """At most `LINES` lines with `SIGNS` signs: the head and the tail, and how much is between them."""
    return _middle_left_out([_cut(line) for line in lines])


def _middle_left_out(lines: list[str]) -> list[str]:
    if len(lines) <= LINES:
        return lines
    head, tail = LINES * 3 // 4, LINES // 4
    return [*lines[:head], f"[... {len(lines) - head - tail} more lines: v shows them ...]", *lines[-tail:]]


def _cut(line: str, how: str = ": v shows them") -> str:
    if len(line) <= SIGNS // 4:
        return line
    half = SIGNS // 8
    return f"{line[:half]} [... {len(line) - 2 * half} more signs{how} ...] {line[-half:]}"


def choices(request: PermissionRequest, *, width: int = 80) -> list[str]:
    """What can be answered."""
    rules = ", ".join(visible(rule, keep="") for rule in request.rules)
    always = []
    if rules:
        always = [f"  a  yes, and always in this session: {rules}", f"  p  yes, and always in this project: {rules}"]
    elif request.verdict is None:
        always = ["  a  yes, and for this very call always in this session"]
    lines = ["  y  yes, this once", *always, "  n  no", "  e  no, with a reason for the model"]
    return [piece for line in lines for piece in flowed(line, width)]


def _reasons(request: PermissionRequest, width: int) -> Iterator[str]:
    for line in _said(request):
        yield from flowed(line, width)


def _said(request: PermissionRequest) -> Iterator[str]:
    yield f"  why: {visible(request.reason, keep='')}"
    verdict = request.verdict
    if verdict is None:
        return
    if verdict.rule is not None:
        yield f"  rule: {visible(verdict.rule, keep='')} ({visible(verdict.source, keep='')})"
    if len(verdict.parts) > 1:
        asking = [part for part in verdict.parts if part.kind == "ask"]
        # the reason of the part that decides is why the whole is asked, and need not be said again
        others = [part for part in asking if part.reason != request.reason or part.text not in part.reason]
        for part in others[:8]:
            why = "" if part.reason == request.reason else f": {visible(part.reason, keep='')}"
            yield f"  asks: {visible(part.text, keep='')}{why}"
        if len(others) > 8:
            yield f"  asks: {len(others) - 8} more"


def _diffs(request: PermissionRequest) -> list[tuple[str, list[str]]] | None:
    """The files that a call changes, and how, where its tool can say it."""
    call = request.call
    view: Any = None
    if call.tool is not None and call.tool.effect == "write" and call.tool.present_call is not None:
        try:
            view = call.tool.present_call(call.arguments)
        except Exception:
            return None  # a view is decoration, and the arguments may be wrong
    if isinstance(view, DiffCall) and view.diffs:
        return [(diff.path, list(_diff(diff))) for diff in view.diffs]
    return None


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
    if diff.old_text is None:
        yield from (f"+ {line}" for line in diff.new_text.removesuffix("\n").split("\n"))
        return
    before, after = diff.old_text.split("\n"), diff.new_text.split("\n")
    for line in difflib.unified_diff(before, after, lineterm="", n=2):
        if not line.startswith(("---", "+++", "@@")):
            yield f"{line[0]} {line[1:]}"
