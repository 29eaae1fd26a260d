"""A session as Markdown, as GitHub reads it.

What was said by anybody stands in fences that are longer than any in it, or in code spans, or is
escaped on one line of HTML; so none of it is taken for the document's own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from ...session.store import SessionHeader
from .html import facts
from .story import Call, Entry, Noted, Said, Thought, Totals, Turn, arguments, ending, plain, shown
from .times import minute

__all__ = ["document", "fenced", "span"]

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TICKS = re.compile("`+")
SUMMARY = 100
"""How many characters of a call's arguments stand in its summary."""


def fenced(value: str, kind: str = "") -> str:
    """A block of code that holds `value` and nothing else."""
    value = _printable(value)
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(value)), default=0))
    return f"{fence}{kind}\n{value}{'' if value.endswith(chr(10)) or not value else chr(10)}{fence}\n"


def span(value: str) -> str:
    """`value` on one line, as code."""
    value = " ".join(_printable(value).split())
    ticks = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(value)), default=0))
    if not value:
        return "-"
    # A space on either side is taken away again; it keeps ticks of the text from those of the span.
    return f"{ticks} {value} {ticks}" if "`" in value else f"{ticks}{value}{ticks}"


def document(header: SessionHeader, totals: Totals, turns: Iterable[Turn]) -> Iterator[str]:
    """The document, in pieces."""
    yield "# Session\n\n"
    for name, value in facts(header, totals):
        yield f"- {name}: {span(value)}\n"
    for turn in turns:
        if turn.number is not None:
            yield f"\n## Turn {turn.number}\n\n{minute(turn.time)}\n"
        for entry in turn.entries:
            yield from _entry(entry)
        end = ending(turn.reason) if turn.number is not None else None
        if end is not None:
            yield f"\n**Turn {turn.number} did not complete:** {span(end)}\n"


def _entry(entry: Entry) -> Iterator[str]:
    match entry:
        case Said():
            note = f" {span(entry.note)}" if entry.note else ""
            yield f"\n**{_word(entry.label)}**{note}\n\n{fenced(entry.text, 'markdown')}"
        case Thought():
            yield from _folded("Reasoning", [fenced(entry.text, "text")])
        case Call():
            yield from _call(entry)
        case Noted(details=""):
            yield f"\n- {span(entry.label)}\n"
        case Noted():
            yield from _folded(_line(entry.label), [fenced(entry.details, "text")])


def _call(call: Call) -> Iterator[str]:
    values = arguments(call.arguments)
    result = call.result
    state = "no result"
    if result is not None:
        state = "done"
        if result.is_error:
            state = f"failed: {result.error.code}" if result.error is not None else "failed"
    brief = _line(next(iter(values.values()), "")[: 4 * SUMMARY])[:SUMMARY]
    inside = [f"{span(name or 'arguments')}:\n\n{fenced(value, 'text')}" for name, value in values.items()]
    if call.decisions:
        inside.append("".join(f"- decision: {span(shown(decision))}\n" for decision in call.decisions))
    if result is not None:
        label = "Error" if result.is_error else "Result"
        inside.append(f"{label}:\n\n{fenced(plain(result.content), 'text')}")
    yield from _folded(
        f"<b>{html.escape(_line(call.name))}</b> {html.escape(brief)} ({html.escape(_line(state))})", inside, raw=True
    )


def _folded(summary: str, inside: Iterable[str], *, raw: bool = False) -> Iterator[str]:
    """A part that is shown on a click.  The summary is one line of HTML, what is inside Markdown."""
    yield f"\n<details><summary>{summary if raw else html.escape(summary)}</summary>\n\n"
    yield "\n".join(inside)
    yield "\n</details>\n"


def _line(value: str) -> str:
    return " ".join(_printable(value).split())


def _word(label: str) -> str:
    """A label that no sign of Markdown is in."""
    return re.sub(r"[^\w ,.-]", " ", _line(label)).replace("_", r"\_")


def _printable(value: str) -> str:
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value.replace("\r\n", "\n"))
