"""Fixtures for tests of the whole command against the scripted server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field, frozen

from dsh.testing import child_processes

SHARED = Path(__file__).parents[1] / "../shared"
SCRIPTS = SHARED / "bugs/scripts"
SERVER = SHARED / "tools/fakesrv.py"
PATIENCE = 60.0
"""Seconds that something may take before a test gives up on it."""


@frozen
class Ran:
    """What a run came to: its exit code, output, the requests that the server saw, and the log."""

    code: int
    out: str
    err: str
    requests: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def data(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]

    @property
    def results(self) -> list[str]:
        return ["".join(block["text"] for block in data["content"]) for data in self.data("tool/result")]

    @property
    def codes(self) -> list[str | None]:
        """The codes of the results' errors."""
        return [(data.get("error") or {}).get("code") for data in self.data("tool/result")]

    @property
    def ends(self) -> list[str]:
        """Why the turns ended."""
        return [data["reason"]["kind"] for data in self.data("turn/end")]

    @property
    def end(self) -> dict[str, Any]:
        reason: dict[str, Any] = self.data("turn/end")[-1]["reason"]
        return reason


@define
class Stage:
    """A folder, a home, and maybe a scripted server, for ``dsh -p`` to run between.

    Attributes:
        plugins: files that are loaded with ``-e``.
        env: set for every run, over this process's.
    """

    tmp: Path
    url: str = "http://127.0.0.1:9"
    plugins: list[Path] = field(factory=list)
    env: dict[str, str] = field(factory=dict)

    @property
    def work(self) -> Path:
        return self.tmp / "work"

    @property
    def home(self) -> Path:
        return self.tmp / "home"

    def plugin(self, name: str, code: str) -> None:
        path = self.tmp / f"{name}.py"
        path.write_text(code)
        self.plugins.append(path)

    def script(self, *replies: dict[str, Any]) -> Path:
        path = self.tmp / "script.json"
        path.write_text(json.dumps(replies))
        return path

    @contextmanager
    def serving(self, script: str | Path, *options: str) -> Iterator[None]:
        """Play a row's script, or a file."""
        path = SCRIPTS / f"{script}.json" if isinstance(script, str) else script
        names = "shell=bash,read=read,write=write,edit=edit,task=subagent,noargs=list_jobs"
        log = self.tmp / "requests.jsonl"
        command = [sys.executable, str(SERVER), str(path), "--port", "0", "--log", str(log), "--map", names, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                self.url = server.stdout.readline().strip()
                yield
            finally:
                server.kill()

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start ``dsh`` with the scripted model, in a session of its own."""
        self.work.mkdir(exist_ok=True)
        env = {
            **os.environ,
            "DSH_HOME": str(self.home),
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-test-0123456789",
            **self.env,
        }
        extra = [word for path in self.plugins for word in ("-e", str(path))]
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(
            [sys.executable, "-m", "dsh", *arguments, *extra],
            cwd=self.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **more,
        )

    def prompt(self, text: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start ``dsh -p``."""
        return self.start("-p", text, "-m", "openai/scripted", *arguments, **more)

    def end(self, running: subprocess.Popen[str]) -> Ran:
        """Wait for a run's end, and tell what it came to."""
        try:
            out, err = running.communicate(timeout=2 * PATIENCE)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
            raise
        assert "Traceback" not in err, err
        return Ran(running.returncode, out, err, self.requests(), self.events())

    def run(self, text: str, *arguments: str, **more: Any) -> Ran:
        """Run ``dsh -p`` to its end."""
        return self.end(self.prompt(text, *arguments, **more))

    def requests(self) -> list[dict[str, Any]]:
        """What the server was asked; none of it was refused."""
        log = self.tmp / "requests.jsonl"
        found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        assert [request["refused"] for request in found] == [None] * len(found)
        return found

    @property
    def log(self) -> Path:
        (path,) = (self.home / "sessions").rglob("*.jsonl")
        return path

    def events(self) -> list[dict[str, Any]]:
        """The log of the only session there is, as far as lines are complete; nothing if there is none."""
        if not list((self.home / "sessions").rglob("*.jsonl")):
            return []
        return [json.loads(line) for line in self.log.read_bytes().split(b"\n")[1:-1]]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that happens in another process."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(0.02)

    def until_running(self, running: subprocess.Popen[str], command: str) -> list[int]:
        """Wait until a child of `running` executes `command`; the children there are then."""

        def executes() -> bool:
            assert running.poll() is None, running.communicate()
            return any(command in self.command_of(pid) for pid in child_processes(running.pid))

        self.until(executes, command)
        return child_processes(running.pid)

    @staticmethod
    def command_of(pid: int) -> str:
        """The command line of a process; empty if it is gone, or dead."""
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""

    def until_gone(self, pids: list[int]) -> None:
        """Wait until none of `pids` runs."""
        self.until(lambda: not any(self.command_of(pid) for pid in pids), f"the end of {pids}")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


NOARGS = """\
from dsh import hookimpl, tool

@tool
def list_jobs() -> str:
    "List the jobs."
    return "two jobs"

@hookimpl
def tools_register(tools):
    tools.add(list_jobs)
"""


@pytest.fixture
def play(stage: Stage) -> Callable[..., Ran]:
    """Run ``dsh -p`` against a row's script, or a file, so many times in one session.

    ``arguments`` are for ``dsh``, the others for the server.
    """

    def play(script: str | Path, *options: str, prompts: int = 1, arguments: Sequence[str] = ()) -> Ran:
        stage.plugin("noargs", NOARGS)
        with stage.serving(script, *options):
            for number in range(prompts):
                ran = stage.run("go", *arguments, *(["-c"] if number else []))
        return ran

    return play
