"""The question's lines: none is wider than the terminal, and none that others wrote looks like one of dsh's own."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from dsh_permissions.question import BAR, HANG, body, choices, flowed
from dsh_permissions.verdict import Part, Verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh import Agent, ToolCall
from dsh.approval import PermissionRequest
from dsh.cells import cells
from dsh.terminal import visible
from dsh.tools.views import Diff, DiffCall


def question(command: str, reason: str = "no rule allows it", **more: Any) -> PermissionRequest:
    call = ToolCall("c1", "bash", {"command": command})
    return PermissionRequest("q", call, reason, more.get("verdict"), more.get("rules", ()), cast(Agent, None), ("a",))


def command_of(lines: list[str]) -> list[str]:
    """The pieces of the command, without their bar."""
    start = next(at for at, line in enumerate(lines) if line.startswith(BAR))
    end = next(at for at, line in enumerate(lines) if at > start and line.startswith("  why:"))
    assert all(line.startswith(BAR) for line in lines[start:end])
    return [line[len(BAR) :] for line in lines[start:end]]


@pytest.mark.parametrize(
    ("command", "pieces"),
    [
        ("x" * 40, ["x" * 36, "x" * 4]),
        ("你" * 20, ["你" * 18, "你" * 2]),
        ("a" + "你" * 18, ["a" + "你" * 17, "你"]),
        ("e\u0301" * 37, ["e\u0301" * 36, "e\u0301"]),
        ("⚠" * 19, ["⚠" * 18, "⚠"]),  # one cell here, two there
        ("\u1161" * 40, ["\u1161" * 36, "\u1161" * 4]),  # none here, one there
        ("a\u202eb\u200bc\x1b[Jd\u00a0\te", ["a\\u202eb\\u200bc\\x1b[Jd\\xa0\\te"]),
        ("ls" + " " * 84 + "x", ["ls [... 84 blanks] x"]),
        ("ls" + " " * 84, ["ls [... 84 blanks]"]),
        (" " * 84 + "x", ["[... 84 blanks] x"]),
        ("ls" + " " * 16 + "x\n" + " " * 24 + "y", ["ls" + " " * 16 + "x", " " * 24 + "y"]),
    ],
)
def test_each_piece_of_a_command_has_the_bar(command: str, pieces: list[str]) -> None:
    assert command_of(body(question(command), width=40)) == pieces


TEXTS = st.lists(
    st.one_of(st.text(max_size=9), st.sampled_from([" " * 50, "你好" * 9, "⚠️", "\n  why: no", "  y  yes", "a" * 90]))
).map("".join)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal(text: str, width: int) -> None:
    parts = (Part("command", text, "ask", "this and that"), Part("command", "ls", "ask", text))
    verdict = Verdict("ask", text, text, text, parts=parts)
    request = question(text, text, verdict=verdict, rules=(text, "bash(ls *)"))
    lines = [*body(request, width=width, whole=True), *choices(request, width=width)]
    assert max(map(cells, lines)) <= width
    command_of(lines)
    heads = [match[0] for line in lines if (match := re.match(r"  (?! |\|)\S+", line))]
    assert set(heads) <= {"  why:", "  rule:", "  asks:", "  y", "  a", "  p", "  n", "  e"}
    assert [heads.count(head) for head in ("  why:", "  rule:", "  y", "  n", "  e")] == [1] * 5
    assert not any(line.startswith("dsh:") for line in lines[2:])
    if not any(" " * 17 in line for line in text.split("\n")):
        assert "".join(command_of(lines)) == visible(text).replace("\n", "") or len(text) > 1500


def test_words_go_on_set_in() -> None:
    assert flowed("  why: one two three four five", 20) == ["  why: one two three", f"{HANG}four five"]
    assert flowed("  why: " + "x" * 20, 20) == ["  why:", HANG + "x" * 12, HANG + "x" * 8]


def test_a_change_goes_on_with_a_mark_of_its_own_and_has_colours_where_they_are_wanted() -> None:
    class Tool:
        effect = "write"

        def present_call(self, arguments: Any) -> Any:
            return DiffCall("Edit", (Diff("a\nb", "x" * 20 + "+ y\nz", "w\nz"),))

    call = ToolCall("c1", "edit", {}, tool=cast(Any, Tool()))
    request = PermissionRequest("q", call, "why not", None, (), cast(Agent, None), ("a",))
    assert command_of(body(request, width=26)) == ["a\\nb", "- " + "x" * 20, "> + y", "+ w", "  z"]
    assert command_of(body(request, width=26, colour=True)) == [
        "a\\nb",
        f"\x1b[31m- {'x' * 20}\x1b[0m",
        "> + y",
        "\x1b[32m+ w\x1b[0m",
        "  z",
    ]


def test_a_reason_is_said_once() -> None:
    first = Part("command", "git push", "ask", "no rule allows git push")
    second = Part("command", "npm test", "ask", "no rule allows npm test")
    verdict = Verdict("ask", first.reason, parts=(first, second))
    lines = body(question("git push && npm test", first.reason, verdict=verdict))
    assert lines[3:] == ["  why: no rule allows git push", "  asks: npm test: no rule allows npm test"]
