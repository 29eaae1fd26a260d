"""What the model reads of commands."""

from __future__ import annotations

import signal
from typing import Any

from dsh.jsonvalue import Json
from dsh.messages import text_of
from dsh.tools.tool import ToolResult
from dsh_shell.executor import Outcome, Task, hint_for
from dsh_shell.spill import Spill
from dsh_shell.window import Cut, Piece

__all__ = [
    "foreground_meta",
    "foreground_result",
    "foreground_text",
    "lines",
    "notice_text",
    "read_result",
    "status_line",
]


def _milliseconds(value: float) -> str:
    """A number of milliseconds without a useless fraction."""
    return f"{value:.15g} ms"


def foreground_result(outcome: Outcome) -> ToolResult:
    """The result of a foreground command, with the facts about it for programs."""
    text, kept = _output(outcome.stdout, outcome.stderr, "(no output)")
    facts = foreground_meta(outcome)
    return ToolResult(lines(text, *_notes(outcome)), meta={**facts, "kept": kept} if kept else facts)


def foreground_text(outcome: Outcome) -> str:
    """Its text: the output, then what else there is to say, a bracketed line each."""
    return text_of(foreground_result(outcome).content)


def _notes(outcome: Outcome) -> list[str]:
    notes = []
    if outcome.left is not None:
        task = outcome.left.id
        notes.append(
            f"[background processes of this command are still running as task {task}, until they end or this session "
            f"does; bash_output reads what they print from now on, bash_kill stops them; "
            "start such commands with run_in_background to get all of their output]"
        )
    if outcome.stopped_rest:
        notes.append("[background processes of this command were stopped: they had nobody to run for]")
    if outcome.timed_out:
        notes.append(f"[timed out after {_milliseconds(outcome.timeout_ms)}; the command was stopped]")
    if outcome.signal is not None:
        notes.append(f"[killed by {outcome.signal}]")
    elif outcome.exit_code:
        notes.append(f"[exit code: {outcome.exit_code}{_meaning(outcome.exit_code)}]")
    if outcome.hint is not None:
        notes.insert(0, f"[this may be the sandbox's doing: {outcome.hint}]")
    return notes


def _meaning(code: int) -> str:
    """What shells and sandboxes say with the exit code of a program that a signal killed."""
    try:
        return f", as of {signal.Signals(code - 128).name}" if code > 128 else ""
    except ValueError:
        return ""


def foreground_meta(outcome: Outcome) -> dict[str, Any]:
    """The facts about a foreground command, for programs."""
    return {
        "exitCode": outcome.exit_code,
        "signal": outcome.signal,
        "timedOut": outcome.timed_out,
        "durationMs": outcome.duration_ms,
    }


def read_result(task: Task) -> ToolResult:
    """What a task printed since it was last read, and its status."""
    text, kept = _output(*task.read(), "(no new output)")
    notes = []
    hint = hint_for(task.child) if task.status == "completed" else None
    if hint is not None:
        notes.append(f"[this may be the sandbox's doing: {hint}]")
    return ToolResult(lines(text, *notes, status_line(task)), meta={"kept": kept} if kept else None)


def status_line(task: Task) -> str:
    """The status of a task in brackets."""
    if task.status == "running":
        return "[status: running]"
    if task.child.refused is not None:
        return f"[status: the command did not run, the sandbox could not be set up: {task.child.refused}]"
    if task.status == "killed":
        return f"[status: killed ({task.signal})]" if task.signal else "[status: killed]"
    return f"[status: completed, {_how(task)}]"


def notice_text(task: Task) -> str:
    """What the model is told when a background task has ended."""
    how = "was killed" if task.status == "killed" else f"has ended, {_how(task)}"
    return f"Background task {task.id} ({_short(task.command)}) {how}. Read the rest of its output with bash_output."


def _how(task: Task) -> str:
    return f"killed by {task.signal}" if task.signal else f"exit code: {task.exit_code}"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 80 else line[:79] + "…"


def _output(out: Piece, err: Piece, nothing: str) -> tuple[str, list[Json]]:
    """What both streams brought, and the files in which they are kept: one or both are cut if they are too long."""
    limits = out.window.limits
    long = out.total + err.total > limits.size or out.lines + err.lines > limits.lines
    kept: list[Json] = []
    texts = []
    for piece in (out, err):
        cut = piece.cut() if long else None
        if cut is None:
            texts.append(piece.text)
            continue
        spill = piece.window.keep()
        kept += [spill.path] if spill.path is not None else []
        texts.append(_shown(piece, cut, spill))
    text = lines(texts[0], f"[stderr]\n{texts[1]}" if texts[1] else "")
    return text or nothing, kept


def _shown(piece: Piece, cut: Cut, spill: Spill) -> str:
    """A stream without its middle, with what is left out, and where it is."""
    name, size = piece.window.stream, f"{piece.total} bytes in {piece.lines} line{'' if piece.lines == 1 else 's'}"
    here = f"{name} has {size}" if piece.fresh else f"{name} brought {size} since it was last read"
    where = _file(piece, spill)
    if cut.binary:
        return f"[{here}, which are no text and not shown; {where}]"
    many = f"{cut.left_bytes} bytes in {cut.left_lines} line{'' if cut.left_lines == 1 else 's'}"
    marker = f"[{many} of {name} are left out here]"
    return lines(cut.head, marker, cut.tail, f"[{here}; {where}]")


def _file(piece: Piece, spill: Spill) -> str:
    if spill.path is None:
        return f"the rest is lost, as it could not be saved: {spill.failure or 'there is no file'}"
    total = piece.window.total
    if spill.written < total:
        return f"its first {spill.written} bytes are in {spill.path}, the others are lost"
    what = "all of it" if piece.fresh else "all that it has printed"
    return f"{what} is in {spill.path}: read the part that you need, or search it"


def lines(*parts: str) -> str:
    """Join what is not empty, each part on a new line."""
    text = ""
    for part in filter(None, parts):
        text = f"{text}{part}" if not text or text.endswith("\n") else f"{text}\n{part}"
    return text
