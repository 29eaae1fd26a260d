"""A session as one page that needs nothing else: no script, no picture, no other file.

Everything that was said by anybody passes through `text`, and so cannot become markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from ...messages import TokenUsage
from ...session.store import SessionHeader
from ..progress import one_line
from .story import Call, Entry, Noted, Said, Thought, Totals, Turn, arguments, ending, plain, shown
from .style import STYLE
from .times import minute

__all__ = ["page", "text"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may load for the page, in case all else failed: nothing."""
SEVERE = frozenset(("deny", "block", "ask", "raised", "late", "restored"))
"""The verdicts that a reader should see without unfolding a call."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")


def text(value: str) -> str:
    """`value` as text of the page: escaped, and without what HTML does not allow."""
    return html.escape(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value.replace("\r\n", "\n")))


def page(header: SessionHeader, totals: Totals, turns: Iterable[Turn]) -> Iterator[str]:
    """The page, in pieces."""
    title = text(one_line(totals.title) or f"Session {header.id}")
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="generator" content="dsh">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{title}</h1>\n<dl class="facts">\n'
    )
    for name, value in facts(header, totals):
        yield f"<dt>{name}</dt><dd>{text(value)}</dd>\n"
    yield "</dl>\n</header>\n<main>\n"
    for turn in turns:
        yield from _turn(turn)
    yield "</main>\n<footer>Exported by dsh.</footer>\n</body>\n</html>\n"


def facts(header: SessionHeader, totals: Totals) -> Iterator[tuple[str, str]]:
    """What there is to know of a session, by name."""
    yield "Session", header.id
    if header.parent_session is not None:
        yield ("Forked from" if header.seed_length is not None else "Started by"), header.parent_session
    if header.cwd is not None:
        yield "Directory", header.cwd
    if totals.models:
        yield "Model", ", ".join(totals.models)
    yield "Date", minute(header.created_at) + (f" to {minute(totals.until)}" if totals.until else "")
    yield "Turns", f"{totals.turns}, with {totals.steps} step{'' if totals.steps == 1 else 's'}"
    yield "Tokens", tokens(totals.usage)


def tokens(usage: TokenUsage) -> str:
    """Counts of tokens, in words."""
    cached = usage.cache_read_tokens or 0
    read = usage.input_tokens + cached + (usage.cache_write_tokens or 0)
    thought = f", {usage.reasoning_tokens:,} of them reasoning" if usage.reasoning_tokens else ""
    return f"{read:,} in{f', {cached:,} of them cached' if cached else ''}; {usage.output_tokens:,} out{thought}"


def _turn(turn: Turn) -> Iterator[str]:
    if turn.number is None:
        yield "<section>\n"
    else:
        anchor = f"turn-{turn.number}"
        yield f'<section id="{anchor}">\n<h2><a href="#{anchor}">Turn {turn.number}</a> · '
        yield f"{text(minute(turn.time))}</h2>\n"
    for entry in turn.entries:
        yield from _entry(entry)
    end = ending(turn.reason) if turn.number is not None else None
    if end is not None:
        kind = "warn" if turn.reason is None or turn.reason.kind in ("aborted", "interrupted", "disposed") else "bad"
        yield f'<p class="end"><span class="{kind}">Turn {turn.number}</span> {text(end)}</p>\n'
    yield "</section>\n"


def _entry(entry: Entry) -> Iterator[str]:
    match entry:
        case Said():
            note = f' <span class="{_tone(entry)}">{text(entry.note)}</span>' if entry.note else ""
            yield f'<div class="said {entry.who}">\n<div class="who">{text(entry.label)}{note}</div>\n'
            yield from _prose(entry.text)
            yield "</div>\n"
        case Thought():
            yield (
                f'<details class="quiet thought"><summary>Reasoning</summary><div class="inside">'
                f'<div class="text">{text(entry.text)}</div></div></details>\n'
            )
        case Call():
            yield from _call(entry)
        case Noted(details=""):
            yield f'<p class="note">{text(entry.label)}</p>\n'
        case Noted():
            yield f'<details class="quiet"><summary>{text(entry.label)}</summary><div class="inside">'
            yield f"<pre>{text(entry.details)}</pre></div></details>\n"


def _tone(said: Said) -> str:
    return "bad" if said.who == "blocked" else "warn" if said.who == "assistant" else "badge"


def _prose(value: str) -> Iterator[str]:
    """Text as it is, but for fenced blocks, which become blocks of code."""
    plain_lines: list[str] = []
    code: list[str] = []
    fence = ""
    for line in value.replace("\r\n", "\n").split("\n"):
        match = _FENCE.fullmatch(line)
        if not fence and match is not None:
            yield from _paragraph(plain_lines)
            plain_lines, fence = [], match[1]
        elif fence and match is not None and match[1].startswith(fence) and not match[2].strip():
            yield f"<pre>{text(chr(10).join(code))}</pre>\n"
            code, fence = [], ""
        else:
            (code if fence else plain_lines).append(line)
    if fence:
        yield f"<pre>{text(chr(10).join(code))}</pre>\n"
    yield from _paragraph(plain_lines)


def _paragraph(lines: list[str]) -> Iterator[str]:
    joined = "\n".join(lines).strip("\n")
    if joined:
        yield f'<div class="text">{text(joined)}</div>\n'


def _call(call: Call) -> Iterator[str]:
    result, values = call.result, arguments(call.arguments)
    failed = result is not None and result.is_error
    badges = []
    if result is None:
        badges.append('<span class="badge warn">no result</span>')
    elif failed:
        code = f": {result.error.code}" if result.error is not None else ""
        badges.append(f'<span class="badge bad">failed{text(code)}</span>')
    badges += [
        f'<span class="badge warn">{text(decision.plugin)}: {text(decision.verdict)}</span>'
        for decision in call.decisions
        if decision.verdict in SEVERE
    ]
    if call.ms is not None:
        badges.append(f'<span class="badge">{call.ms / 1000:.1f} s</span>')
    brief = text(one_line(next(iter(values.values()), "")))
    yield f'<details class="call{" failed" if failed else ""}"><summary><span class="name">{text(call.name)}</span> '
    yield f'{brief}{"".join(badges)}</summary><div class="inside">\n'
    for name, value in values.items():
        yield f'<div class="label">{text(name) or "arguments"}</div><pre>{text(value)}</pre>\n'
    if call.decisions:
        items = "".join(f"<li>{text(shown(decision))}</li>" for decision in call.decisions)
        yield f'<div class="label">decisions</div><ul class="decisions">{items}</ul>\n'
    if result is not None:
        said = plain(result.content)
        yield f'<div class="label">{"error" if failed else "result"}</div><pre>{text(said) or "(empty)"}</pre>\n'
    yield "</div></details>\n"
