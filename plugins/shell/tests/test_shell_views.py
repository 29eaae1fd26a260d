"""What a user interface shows, also of old logs with strange arguments."""

from __future__ import annotations

import pytest
from dsh_shell.views import (
    present_bash_call,
    present_bash_result,
    present_block,
    present_kill_call,
    present_output_call,
)

from dsh.messages import text_of
from dsh.tools.tool import ToolResult
from dsh.tools.views import GenericCall, GenericResult, TerminalCall, TerminalResult


def test_a_foreground_command_is_a_terminal() -> None:
    assert present_bash_call({"command": "ls", "description": "List files", "workdir": "sub"}) == TerminalCall(
        "ls", description="List files", cwd="sub"
    )
    assert present_bash_call({"command": "ls", "description": ""}) == TerminalCall("ls")


def test_a_background_command_is_a_card() -> None:
    arguments = {"command": "make", "description": "Build", "run_in_background": True}

    assert present_bash_call(arguments) == GenericCall("Build", kind="execute", raw_input=arguments)


@pytest.mark.parametrize("arguments", [{}, {"command": 5}, {"command": None}])
def test_nothing_is_shown_of_arguments_without_a_command(arguments: dict[str, object]) -> None:
    assert present_bash_call(arguments) is None


def test_the_other_tools_are_cards() -> None:
    assert present_output_call({"task_id": "bash-1"}) == GenericCall("Output of bash-1", kind="execute")
    assert present_kill_call({"task_id": "bash-1"}) == GenericCall("Stop bash-1", kind="execute")
    assert present_kill_call({"task_id": 1}) is None


def test_a_result_is_shown_with_its_facts() -> None:
    result = ToolResult("x\n[exit code: 3]", meta={"exitCode": 3, "signal": None, "timedOut": False, "durationMs": 1})

    assert present_bash_result({"command": "x"}, result) == TerminalResult(output="x\n[exit code: 3]", exit_code=3)


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [
        ("x\n[exit code: 3]", 3, None),
        ("[exit code: 3]\nx", 0, None),
        ("x [exit code: 3]", 0, None),
        ("x\n[timed out after 5 ms; the command was stopped]\n[killed by SIGTERM]", None, "SIGTERM"),
        ("", 0, None),
    ],
)
def test_without_facts_the_last_line_tells(text: str, code: int | None, signal: str | None) -> None:
    expected = TerminalResult(output=text, exit_code=code, signal=signal)

    assert present_bash_result({"command": "x"}, ToolResult(text)) == expected


def test_an_error_is_a_block_whose_fence_is_long_enough() -> None:
    view = present_bash_result({"command": "x"}, ToolResult("a\n```\nb", is_error=True))

    assert isinstance(view, GenericResult)
    assert text_of(view.content or ()) == "````console\na\n```\nb\n````"
    assert isinstance(present_block({}, ToolResult("a")), GenericResult)
