"""A program for tests/test_crash_suite.py: runs ``dsh`` in forks that die, and resumes what they leave.

    python crash_sweep.py FOLDER STORE MODEL WHEN DEATHS...

Each of DEATHS is the number of an event, or several joined by colons: then the program that
resumes dies, too, at the next number.  MODEL answers whoever resumes at last.  A line is printed for
each of them: what is wrong with the outcome, as JSON.  Without DEATHS the line holds the types
of the events of a run that nobody disturbs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

import dsh_files.tools  # noqa: F401
import dsh_jsonl.files  # noqa: F401
import dsh_shell.tools  # noqa: F401  # imported here, they need not be in every fork
import dsh_sqlite

import dsh.cli.run  # noqa: F401
from dsh.cli import main
from dsh.harness import open_harness  # noqa: F401
from dsh.session.codec import default_codec
from dsh.testing.grammar import problems

PLUGIN = str(Path(__file__).with_name("crash_plugin.py"))


def stored(home: Path) -> list[bytes] | None:
    """The lines of the events of the only session there is; None if there is none."""
    for path in home.rglob("*.jsonl"):
        lines = path.read_bytes().split(b"\n")
        return lines[1:-1] if lines[-1] == b"" else lines[1:]
    for path in home.glob("sessions.db"):
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT id FROM sessions").fetchall()
        for (session_id,) in rows:
            codec = default_codec()
            return [codec.encode(event) for event in dsh_sqlite.read_session(path, session_id).events]
    return None


def fork(folder: Path, store: str, at: int, when: str, *arguments: str) -> tuple[int, int]:
    """Run ``dsh -p`` in a fork; its exit code, and the signal that killed it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            (folder / "work").mkdir(exist_ok=True)
            os.chdir(folder / "work")
            os.environ.update(
                DSH_HOME=str(folder / "home"),
                CRASH_AT=str(at),
                CRASH_WHEN=when,
                CRASH_SEEN=str(folder / "seen"),
            )
            out = os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            err = os.open(folder / "err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(err, 2)
            code = main(
                [
                    "-p",
                    *arguments,
                    "-e",
                    PLUGIN,
                    "--no-plugin",
                    "local",
                    "--permission-mode",
                    "bypass",
                    "--config",
                    f"sessions.store={store}",
                ]
            )
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def sweep(folder: Path, store: str, model: str, when: str, deaths: list[int]) -> list[str]:
    """Die at each of `deaths` in turn, then go on; what is wrong."""
    folder.mkdir(parents=True)
    wrong: list[str] = []
    resuming: list[str] = []
    for at in deaths:
        _, killed = fork(folder, store, at, when, "go", "-m", "busy/model", *resuming)
        if killed != signal.SIGKILL:
            return [f"was to die at {at}, and did not: {(folder / 'err').read_text()}"]
        resuming = ["-c"] if stored(folder / "home") else []
    seen = (folder / "seen").read_bytes().splitlines() if (folder / "seen").exists() else []
    if seen and not resuming:
        return ["there is no session, though events were seen"]
    code, _ = fork(folder, store, -1, when, "go on", "-m", model, *resuming)
    if code != 0 or (folder / "out").read_text() != "on\n":
        wrong.append(f"resuming: exit {code}, {(folder / 'out').read_text()!r}, {(folder / 'err').read_text()}")
    lines = stored(folder / "home") or []
    codec = default_codec()
    events = [codec.decode(line) for line in lines]
    wrong += problems(events)
    lost = [json.loads(line)["type"] for line in seen if line not in set(lines)]
    if lost:
        wrong.append(f"lost: {lost}")
    if when == "trylast" and len(deaths) == 1 and len(seen) != deaths[0] + 1:
        wrong.append(f"{len(seen)} events were seen instead of {deaths[0] + 1}")
    return wrong


if __name__ == "__main__":
    root, kind, asked, moment = Path(sys.argv[1]), *sys.argv[2:5]
    if not sys.argv[5:]:
        root.mkdir(parents=True, exist_ok=True)
        fork(root, kind, -1, moment, "go", "-m", "busy/model")
        print(json.dumps([json.loads(line)["type"] for line in (root / "seen").read_bytes().splitlines()]))
    for word in sys.argv[5:]:
        found = sweep(
            root / f"{moment}-{word.replace(':', '-')}", kind, asked, moment, [int(n) for n in word.split(":")]
        )
        print(json.dumps({"deaths": word, "wrong": found}), flush=True)
