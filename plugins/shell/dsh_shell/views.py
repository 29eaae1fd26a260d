"""How a user interface may show the tools' calls and results.  Arguments come unchecked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dsh.messages import Text, text_of
from dsh.tools.tool import ToolResult
from dsh.tools.views import CallView, GenericCall, GenericResult, ResultView, TerminalCall, TerminalResult

__all__ = ["present_bash_call", "present_bash_result", "present_block", "present_kill_call", "present_output_call"]

_LAST_EXIT = re.compile(r"\n\[exit code: (\d+)\]\s*\Z")
_LAST_SIGNAL = re.compile(r"\n\[killed by ([^\]\n]+)\]\s*\Z")


def present_bash_call(arguments: Mapping[str, Any]) -> CallView | None:
    """A terminal for a foreground command, a generic card for one in the background."""
    command, description, workdir = (_string(arguments.get(key)) for key in ("command", "description", "workdir"))
    if command is None:
        return None
    if arguments.get("run_in_background") is True:
        return GenericCall(description or command, kind="execute", raw_input=dict(arguments))
    return TerminalCall(command, description=description, cwd=workdir)


def present_bash_result(arguments: Mapping[str, Any], result: ToolResult) -> ResultView | None:
    """A terminal with the output, or a block of it where the command failed to run or runs in the background."""
    text = text_of(result.content)
    if result.is_error or arguments.get("run_in_background") is True:
        return present_block(arguments, result)
    meta = result.meta if isinstance(result.meta, Mapping) else None
    if meta is not None:
        code, name = meta.get("exitCode"), meta.get("signal")
    else:
        found, killed = _LAST_EXIT.search("\n" + text), _LAST_SIGNAL.search("\n" + text)
        code = int(found[1]) if found else None if killed else 0
        name = killed[1] if killed else None
    return TerminalResult(
        output=text,
        exit_code=code if isinstance(code, int) else None,
        signal=name if isinstance(name, str) else None,
    )


def present_block(arguments: Mapping[str, Any], result: ToolResult) -> ResultView | None:
    """The result as a fenced block."""
    text = text_of(result.content)
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    end = "" if not text or text.endswith("\n") else "\n"
    return GenericResult(content=(Text(f"{fence}console\n{text}{end}{fence}"),))


def present_output_call(arguments: Mapping[str, Any]) -> CallView | None:
    """A card for ``bash_output``."""
    return _task_call("Output of", arguments)


def present_kill_call(arguments: Mapping[str, Any]) -> CallView | None:
    """A card for ``bash_kill``."""
    return _task_call("Stop", arguments)


def _task_call(verb: str, arguments: Mapping[str, Any]) -> CallView | None:
    task = _string(arguments.get("task_id"))
    return None if task is None else GenericCall(f"{verb} {task}", kind="execute")


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
