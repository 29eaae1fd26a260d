"""What the model reads of commands."""

from __future__ import annotations

from typing import Any

from dsh_shell.executor import Outcome, Task
from dsh_shell.window import Window

__all__ = [
    "foreground_meta",
    "foreground_text",
    "lines",
    "notice_text",
    "read_text",
    "status_line",
]


def _milliseconds(value: float) -> str:
    """A number of milliseconds without a useless fraction."""
    return f"{value:.15g} ms"


def foreground_text(outcome: Outcome) -> str:
    """The result of a foreground command: its output, then what else there is to say, a bracketed line each."""
    parts = [_stream(outcome.stdout)]
    errors = _stream(outcome.stderr)
    if errors:
        parts.append(f"[stderr]\n{errors}")
    text = lines(*parts) or "(no output)"
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
        notes.append(f"[exit code: {outcome.exit_code}]")
    return lines(text, *notes)


def foreground_meta(outcome: Outcome) -> dict[str, Any]:
    """The facts about a foreground command, for programs."""
    return {
        "exitCode": outcome.exit_code,
        "signal": outcome.signal,
        "timedOut": outcome.timed_out,
        "durationMs": outcome.duration_ms,
    }


def read_text(task: Task) -> str:
    """What a task printed since it was last read, and its status."""
    out, err = task.read()
    text = lines(out.text, f"[stderr]\n{err.text}" if err.text else "") or "(no new output)"
    notes = []
    if out.lossy or err.lossy:
        kept = f"only the last {task.child.stdout.limit} bytes of a stream are kept"
        files = [
            f"{name}: {_file(stream)}"
            for name, stream in (("stdout", task.child.stdout), ("stderr", task.child.stderr))
            if stream.truncated
        ]
        notes.append(f"[older output is left out: {kept}; {'; '.join(files)}]")
    return lines(text, *notes, status_line(task))


def status_line(task: Task) -> str:
    """The status of a task in brackets."""
    if task.status == "running":
        return "[status: running]"
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


def _stream(window: Window) -> str:
    text = window.text()
    if not window.truncated:
        return text
    shown = f"above are the last {window.limit} of {window.total} bytes"
    return lines(text, f"[output cut: {shown}; {_file(window)}]")


def _file(window: Window) -> str:
    if window.spill_path is None:
        return "the rest could not be saved to a file"
    return f"{'everything' if window.spill_complete else 'the beginning'} is in {window.spill_path}"


def lines(*parts: str) -> str:
    """Join what is not empty, each part on a new line."""
    text = ""
    for part in filter(None, parts):
        text = f"{text}{part}" if not text or text.endswith("\n") else f"{text}\n{part}"
    return text
