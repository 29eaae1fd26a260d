"""Fixtures for tests of the whole command against the scripted server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from attrs import define, field, frozen

from dsh.testing import child_processes
from dsh.testing.screen import Screen

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
        freely: run commands and writes without asking.
    """

    tmp: Path
    url: str = "http://127.0.0.1:9"
    plugins: list[Path] = field(factory=list)
    env: dict[str, str] = field(factory=dict)
    freely: bool = False

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

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "DSH_HOME": str(self.home),
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-test-0123456789",
            **self.env,
        }

    def words(self, *arguments: str) -> list[str]:
        extra = [word for path in self.plugins for word in ("-e", str(path))]
        return [sys.executable, "-m", "dsh", *arguments, *extra]

    @contextmanager
    def screen(self, text: str, *arguments: str, before: Sequence[str] = ()) -> Iterator[Screen]:
        """Run ``dsh -p`` at a terminal; `before` is a command that starts it."""
        self.work.mkdir(exist_ok=True)
        words = self.words("-p", text, "-m", "openai/scripted", *arguments)
        with Screen.of([*before, *words], self.work, self.environ) as screen:
            yield screen

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start ``dsh`` with the scripted model, in a session of its own."""
        self.work.mkdir(exist_ok=True)
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen(
            self.words(*arguments),
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **more,
        )

    def prompt(self, text: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start ``dsh -p``."""
        mode = ("--permission-mode", "bypass") if self.freely else ()
        return self.start("-p", text, "-m", "openai/scripted", *mode, *arguments, **more)

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
        """The file of the only session there is, but for those of subagents."""
        paths = (self.home / "sessions").rglob("*.jsonl")
        (path,) = (path for path in paths if b'"parentSession"' not in path.read_bytes().partition(b"\n")[0])
        return path

    def children(self) -> list[list[dict[str, Any]]]:
        """The logs of subagents, each with its header; in the order in which they were made."""
        paths = (self.home / "sessions").rglob("*.jsonl")
        logs = [[json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] for path in paths]
        return sorted((log for log in logs if "parentSession" in log[0]), key=lambda log: log[0]["createdAt"])

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
            lines = [self.command_of(pid) for pid in child_processes(running.pid)]
            # The sandbox carries the command in its own line before there is anything that runs it.
            return any(command in line and not line.partition(" ")[0].endswith("bwrap") for line in lines)

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


@contextmanager
def _serving(routes: Mapping[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            route = routes.get(f"{self.command} {self.path}")
            if route is None:
                status, kind, body = 404, "application/json", b'{"error": {"message": "Unknown request URL"}}'
            elif callable(route):
                status, kind, body = route(self)
            else:
                status, kind, body = 200, "application/json", json.dumps(route).encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serving() -> Callable[[Mapping[str, Any]], AbstractContextManager[str]]:
    """Serve routes over HTTP, as ``with serving({"GET /v1/models": ...}) as url``.

    A route is JSON to answer with, or a function of the request that gives status, type and body.
    What there is no route for is a 404.
    """
    return _serving


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings, an empty folder to work in, and an environment without keys and proxies."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL")) or name.lower().endswith("_proxy") or name == "DSH_MODEL":
            monkeypatch.delenv(name)
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
