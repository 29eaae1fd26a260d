"""An exported session is readable, and nothing in it becomes part of the document."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from dsh.cli.sessions.export import FORMATS
from dsh.cli.sessions.html import text
from dsh.cli.sessions.markdown import fenced, span
from dsh.jsonvalue import loads
from dsh.messages import USER, CallConfig, OtherBlock, PluginSource, Reasoning, Text, TokenUsage, ToolCallBlock
from dsh.session import Session
from dsh.session import events as ev
from dsh.session.codec import default_codec
from dsh.session.store import SessionHeader, StoredSession

VOID = {"meta", "br"}
TAGS = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "hr", "a"}
TAGS |= {"dl", "dt", "dd", "div", "span", "p", "details", "summary", "pre", "ul", "li"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "href"}
NASTY = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "```",
                "````\n",
                "~~~",
                "`",
                "\n",
                "\r",
                "\r\n",
                "</details>",
                "</pre>",
                "<script>alert(1)</script>",
                "<!--",
                "]]>",
                "<img src=x onerror=y>",
                '" onclick="x',
                "&lt;",
                "&#0;",
                "# Heading\n",
                "    ",
                "> ",
                "<style>",
                "</title>",
                "\0",
                "\u202e",
                "\u2028",
                "{",
                '{"a": "b"}',
            ]
        ),
        st.text(max_size=8),
    ),
    max_size=8,
).map("".join)


def session(*data: Any, id: str = "abc", cwd: str | None = "/work") -> StoredSession:
    log = Session(id, header=SessionHeader(id, 1_796_048_292_416, cwd))
    for item in data:
        log.append(item)
    return StoredSession(log.header, log.events)


def conversation(said: str) -> StoredSession:
    """A session with `said` wherever somebody can say something."""
    start = ev.Trigger("message", USER)
    calls = (ToolCallBlock("c1", said, said), ToolCallBlock("c2", "bash", '{"command": "ls"}'))
    decision = ev.HookDecision("tools_pre_execute", said, said, "deny", said, (said,), 1.0, 1, 1, "c1")
    return session(
        ev.TurnStart(1, start),
        ev.UserMessage((Text(said), OtherBlock({"type": "image", "data": said})), USER),
        ev.ContextMessage((Text(said),), PluginSource(said)),
        ev.StepStart(1, 1),
        ev.RequestHeader(ev.Header(CallConfig(said or "m"), said), "initial"),
        ev.AssistantMessage(1, 1, (Reasoning(said), Text(said), *calls), TokenUsage(5, 6, 7, None, 2)),
        ev.ToolCall(1, 1, "c1", said, said),
        decision,
        ev.ToolResult(1, 1, "c1", (Text(said),), True, ev.ErrorInfo(said, said)),
        ev.ToolResult(1, 1, "c2", (), False),
        ev.SteeringMessage(1, (Text(said),), USER),
        ev.TodoWrite((ev.TodoItem(said, "pending"),)),
        ev.OtherData(f"x/{said}", {"a": said}),
        ev.StepEnd(1, 1),
        ev.TurnEnd(1, ev.EndReason("error", message=said)),
        ev.TurnStart(2, start),
        ev.PromptBlocked((Text(said),), USER, said),
        ev.TurnEnd(2, ev.EndReason("rejected", reason=said)),
        id=said or "abc",
        cwd=f"/{said}",
    )


def refuse(message: str) -> None:
    """No line of these logs is damaged."""
    raise AssertionError(message)


def exported(stored: StoredSession, kind: str) -> str:
    return b"".join(FORMATS[kind](stored, default_codec(), refuse)).decode()


# -- HTML


@define
class Page(HTMLParser):
    """Reads a page, and insists that tags are known, closed and in order."""

    stack: list[str] = field(factory=list)
    texts: list[str] = field(factory=list)
    seen: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        self.seen.append(tag)
        for name, value in attributes:
            assert name in ATTRIBUTES
            assert name != "href" or re.fullmatch(r"#turn-\d+", value or "")
            assert name != "id" or re.fullmatch(r"turn-\d+", value or "")
            assert name != "class" or re.fullmatch(r"[a-z ]+", value or "")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack[-1:] != ["style"]:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


def read(page: str) -> Page:
    reader = Page()
    reader.feed(page)
    reader.close()
    assert reader.stack == []
    return reader


@given(NASTY)
def test_no_content_becomes_markup(said: str) -> None:
    empty = read(exported(conversation("word"), "html"))
    page = read(exported(conversation(said), "html"))
    # Fences and empty texts are the only things that change what there is.
    known = {"div", "pre", "span", "p", "details", "summary"}
    assert [tag for tag in page.seen if tag not in known] == [tag for tag in empty.seen if tag not in known]


@given(st.text())
def test_text_is_shown_as_it_is(said: str) -> None:
    reader = Page()
    reader.feed(f"<p>{text(said)}</p>")
    reader.close()
    shown = "".join(reader.texts)
    assert len(shown) == len(said.replace("\r\n", "\n"))
    for there, was in zip(shown, said.replace("\r\n", "\n"), strict=True):
        assert there in (was, "\N{REPLACEMENT CHARACTER}")
        assert there == was or not was.isprintable()


def test_a_page_needs_nothing_else() -> None:
    page = exported(conversation("word"), "html")
    assert "default-src 'none'" in page
    for word in ("<script", "src=", "url(", "@import", "<link", "http://", "https://"):
        assert word not in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page


def shown(stored: StoredSession) -> str:
    return " ".join(" ".join(read(exported(stored, "html")).texts).split())


def test_a_page_tells_everything() -> None:
    page = exported(conversation("word"), "html")
    said = shown(conversation("word"))
    for part in (
        "Session word",
        "Directory /word",
        "Model word",
        "Turns 2, with 1 step",
        "12 in, 7 of them cached; 6 out, 2 of them reasoning",
        "Reasoning",
        "word word, tools_pre_execute: deny (word): word",
        "failed: word",
        "(empty)",
        "Turn 1 error: word",
        "Blocked prompt word",
        "Turn 2 rejected: word",
        "things to do",
        "x/word",
    ):
        assert part in said
    assert 'class="call failed"' in page


def test_what_was_cut_off_is_marked() -> None:
    start, call = ev.Trigger("message", USER), ToolCallBlock("c", "bash", "{}")
    stored = session(
        ev.TurnStart(1, start),
        ev.StepStart(1, 1),
        ev.AssistantMessage(1, 1, (Text("half an ans"), call), None, True),
        id="cut",
    )
    said = shown(stored)
    assert "Assistant interrupted half an ans" in said
    assert "no result" in said
    assert "Turn 1 not ended" in said
    document = exported(stored, "markdown")
    assert "**Assistant** `interrupted`" in document
    assert "(no result)" in document
    assert "**Turn 1 did not complete:** `not ended`" in document


def test_fenced_code_is_code() -> None:
    start = ev.Trigger("message", USER)
    answer = "before\n\n```python\nx = '<b>'\n```\nafter\n~~~\nopen"
    page = exported(
        session(ev.TurnStart(1, start), ev.StepStart(1, 1), ev.AssistantMessage(1, 1, (Text(answer),))), "html"
    )
    assert "<pre>x = &#x27;&lt;b&gt;&#x27;</pre>" in page
    assert '<div class="text">before</div>' in page
    assert '<div class="text">after</div>' in page
    assert "<pre>open</pre>" in page


# -- Markdown


def outside(document: str) -> tuple[list[str], list[str]]:
    """The lines of a document that are in no fence, and what is in each fence, by the rules of CommonMark."""
    lines: list[str] = []
    inside: list[str] = []
    fences: list[str] = []
    fence: str | None = None
    for line in re.split(r"\r\n|\r|\n", document):
        opening = re.match(r" {0,3}(`{3,})[^`]*$", line)
        if fence is None and opening:
            fence, inside = opening[1], []
        elif fence is not None and re.fullmatch(rf" {{0,3}}`{{{len(fence)},}}[ \t]*", line):
            fences.append("\n".join(inside))
            fence = None
        elif fence is not None:
            inside.append(line)
        else:
            assert not re.match(r" {0,3}~{3,}", line)
            lines.append(line)
    assert fence is None
    return lines, fences


OWN = r"""
    | \#\ Session | \#\#\ Turn\ \d+ | \d{4}-\d\d-\d\d\ \d\d:\d\d
    | -\ [A-Z][a-z ]+:\ SPAN | -\ decision:\ SPAN | -\ SPAN
    | \*\*[^*`<>\[\]]*\*\*(\ SPAN)? | \*\*Turn\ \d+\ did\ not\ complete:\*\*\ SPAN
    | SPAN: | Result: | Error:
    | <details><summary>[^<>]*</summary> | <details><summary><b>[^<>]*</b>[^<>]*</summary> | </details>
"""


def own_lines() -> re.Pattern[str]:
    """The lines that an export writes itself; a span is matched by ticks of its own number."""
    pattern, number = OWN, 0
    while "SPAN" in pattern:
        pattern = pattern.replace("SPAN", rf"(?:-|(?P<t{number}>`+)(?!`)(?:.*?[^`])(?P=t{number})(?!`))", 1)
        number += 1
    return re.compile(pattern, re.VERBOSE)


@given(NASTY)
def test_no_content_leaves_its_fence(said: str) -> None:
    document = exported(conversation(said), "markdown")
    lines, _ = outside(document)
    own = own_lines()
    for line in lines:
        assert own.fullmatch(line), line
    expected = outside(exported(conversation("word"), "markdown"))
    assert sum(line.startswith("<details>") for line in lines) == sum(line == "</details>" for line in lines)
    assert sum(line.startswith("## ") for line in lines) == sum(line.startswith("## ") for line in expected[0])


@given(st.text(st.sampled_from("`~ab\n\r <&")))
def test_a_fence_holds_its_content(said: str) -> None:
    lines, (inside,) = outside(fenced(said))
    assert lines == [""]
    assert inside.split("\n") == re.split(r"\r\n|\r|\n", printed(said).removesuffix("\n")) or not said


def printed(said: str) -> str:
    return said.replace("\r\n", "\n").replace("\r", "\N{REPLACEMENT CHARACTER}")


@given(st.text(st.sampled_from("`a \n<*_")))
def test_a_span_is_one_line_between_ticks_of_its_own_number(said: str) -> None:
    made = span(said)
    assert "\n" not in made
    if made != "-":
        ticks = re.match("`+", made)
        assert ticks is not None
        inner = made[ticks.end() : -ticks.end()]
        assert made.endswith(ticks[0])
        assert all(len(run) != ticks.end() for run in re.findall("`+", inner))
        assert inner.strip() == " ".join(said.split())


# -- JSON


@given(NASTY)
def test_json_is_one_document(said: str) -> None:
    stored = conversation(said)
    codec = default_codec()
    document = loads(exported(stored, "json"))
    assert document["header"] == loads(codec.encode_header(stored.header))
    assert document["events"] == [loads(codec.encode(event)) for event in stored.events]


def test_a_session_without_events_is_exported_all_the_same() -> None:
    stored = session()
    assert loads(exported(stored, "json"))["events"] == []
    assert "Session abc" in shown(stored)
    assert "`abc`" in exported(stored, "markdown")


@pytest.mark.parametrize("kind", FORMATS)
def test_pieces_are_made_as_they_are_read(kind: str) -> None:
    """The first piece needs no more than the header and the totals."""
    pieces = FORMATS[kind](conversation("word"), default_codec(), refuse)
    assert next(pieces)
    assert sum(1 for _ in pieces) > 10
