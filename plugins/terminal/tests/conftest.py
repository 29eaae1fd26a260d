"""The real program in a real pseudo-terminal, and what its screen shows."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import types
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest
import trio
from dsh_terminal.config import TerminalConfig
from dsh_terminal.feed import SPINNER
from dsh_terminal.paint import Look
from dsh_terminal.screen import Cancel, Leave, Line
from dsh_terminal.talk import Talk

ROOM = 2000
"""Lines that scrolled away, which are kept."""


class Terminal:
    """A program in a pseudo-terminal of so many columns and lines.

    Attributes:
        screen: what is seen, with what scrolled away above it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 80,
        lines: int = 24,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, lines, history=ROOM, ratio=0.5)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self.code: int | None = None
        self.cwd = cwd
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", **environ}
            os.execvpe(argv[0], list(argv), env)
        self.resize(columns, lines, tell=False)

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        """Give the terminal another size."""
        while tell and self.read(0):
            pass  # what was drawn for the old size is shown at that
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.screen.resize(lines, columns)
            os.kill(self.pid, signal.SIGWINCH)

    def type(self, text: str) -> None:
        """Press keys; a long text is taken as fast as the program reads."""
        data = text.encode()
        while data:
            self.read(0)
            _, writable, _ = select.select([], [self.master], [], 5)
            if not writable:
                raise AssertionError("the program does not read what is typed")
            data = data[os.write(self.master, data[:1024]) :]

    def read(self, seconds: float) -> bool:
        """Take what the program writes; whether there was anything."""
        readable, _, _ = select.select([self.master], [], [], seconds)
        if not readable:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            return False
        self.raw += data
        self.stream.feed(data)
        # What a terminal answers to being asked where its cursor is.
        if b"\x1b[6n" in data:
            os.write(self.master, f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R".encode())
        return True

    def wait_for(self, text: str, seconds: float = 30.0, *, gone: bool = False, words: bool = False) -> None:
        """Read until the screen shows a text, or does not any more; as `words`, also where a line ends between them."""
        until = time.monotonic() + seconds

        def seen() -> bool:
            shown = self.shown()
            return text in (" ".join(shown.split()) if words else shown)

        while seen() == gone:
            if time.monotonic() > until:
                raise AssertionError(f"{text!r} is {'still' if gone else 'not'} shown:\n{self.shown()}")
            if not self.read(0.1) and self.ended():
                self.read(0)
                if seen() == gone:
                    raise AssertionError(f"the program ended; {text!r} is not shown:\n{self.shown()}")
                return

    def wait_asked(self) -> None:
        """Wait for a question at the end of what is shown."""
        until = time.monotonic() + 30
        while not self.shown().rstrip().endswith("[y/a/p/n/e]"):
            assert time.monotonic() < until, f"nothing is asked:\n{self.shown()}"
            assert self.read(0.1) or not self.ended(), self.shown()
        self.settle()

    def settle(self, seconds: float = 0.4) -> None:
        """Read until nothing comes for a moment."""
        while self.read(seconds):
            pass

    def lines(self) -> list[str]:
        """What is on the screen now."""
        return [line.rstrip() for line in self.screen.display]

    def shown(self) -> str:
        """What scrolled away and what is on the screen."""
        above = ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in self.screen.history.top]
        return "\n".join([*above, *self.lines()])

    def kept(self, name: str) -> None:
        """Compare what is shown with the picture of that name; ``DSH_KEEP_SCREENS=1`` takes the pictures anew."""
        self.settle()
        path = Path(__file__).parent / "screens" / f"{name}.txt"
        rule = "-" * self.screen.columns
        above, _, status = _plain(self.shown().rstrip()).rpartition("\n")
        picture = f"{rule}\n{above.rstrip()}\n\n{status}\n{rule}\n"
        if os.environ.get("DSH_KEEP_SCREENS"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(picture)
        assert picture == path.read_text(), f"{path} is another picture:\n{picture}"

    def termios(self) -> str:
        """How the terminal is set."""
        return repr(termios.tcgetattr(self.master))

    def before(self) -> str:
        """How it was set before the program started; see `Desk.keeps_modes`."""
        return (self.cwd / "before").read_text()

    def after(self) -> str:
        """How it was set when the program had ended."""
        return (self.cwd / "after").read_text()

    def ended(self) -> bool:
        """Whether the program has ended; its code is kept."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, seconds: float = 20.0) -> int:
        """Wait until the program has ended; its exit code."""
        until = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > until:
                raise AssertionError(f"the program does not end:\n{self.shown()}")
            self.read(0.05)
        while self.read(0):
            pass
        assert self.code is not None
        return self.code

    def close(self) -> None:
        """End whatever is left."""
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


NOISE = [
    (re.compile(r"dsh: the plugin[^>]*?meanwhile\n"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "DATE TIME"),
    (re.compile(r"\b\d+\.\d s\b"), "N.N s"),
    (re.compile(r"  \d+ s$", re.MULTILINE), "  N s"),
    (re.compile(f"[{SPINNER}]"), "*"),
    (re.compile(r"bash-1-[0-9a-f]{12}"), "bash-1-xxxxxxxxxxxx"),
]
_ID = re.compile(r"[0-9a-f](?:\n?[0-9a-f-]){35}")
_FOLDER = re.compile(r"/tmp/dsh-(?:\n?\w){8}")


def _plain(text: str) -> str:
    """A text without what differs between two runs; ends of lines stay where they are."""
    text = _ID.sub(lambda match: re.sub("[0-9a-f]", "x", match[0]), text)
    text = _FOLDER.sub(lambda match: "/tmp/dsh-" + re.sub(r"\w", "x", match[0][9:]), text)
    for pattern, words in NOISE:
        text = pattern.sub(words, text)
    return text


def dsh(*arguments: str) -> list[str]:
    """The command line of dsh."""
    return [sys.executable, "-m", "dsh", *arguments]


MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import Reply, ScriptedModel, call, hang, reply, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES, otherwise=text("more")))
"""


class Desk:
    """A person's folder, and dsh opened in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        self.opened: list[Terminal] = []

    def open(
        self,
        replies: str,
        *arguments: str,
        columns: int = 80,
        lines: int = 24,
        mode: str = "bypass",
        ready: str = "lists commands",
        wrap: Sequence[str] = (),
        **environ: str,
    ) -> Terminal:
        """Start dsh on a terminal, with a model that plays a script; returns when it takes input.

        Args:
            ready: what shows that it does.
            wrap: a program that starts it.
        """
        env = {**self.environ(), **environ}
        argv = [*wrap, *dsh(*self.flags(replies, mode), *arguments)]
        terminal = Terminal(argv, cwd=self.work, environ=env, columns=columns, lines=lines)
        self.opened.append(terminal)
        terminal.wait_for(ready, words=True)
        terminal.settle(0.2)
        return terminal

    def flags(self, replies: str, mode: str = "bypass") -> list[str]:
        """Flags for a model that plays a script."""
        model = self.home.parent / "scripted_model.py"
        model.write_text(MODEL.replace("REPLIES", replies))
        return ["-m", "scripted/m", "-e", str(model), "--permission-mode", mode, "-s", "danger-full-access"]

    def environ(self) -> dict[str, str]:
        """Where the program keeps its files."""
        return {"DSH_HOME": str(self.home), "HOME": str(self.home.parent), "HISTFILE": os.devnull, "PS1": "$ "}

    def command(self, replies: str) -> list[str]:
        """The command line."""
        return dsh(*self.flags(replies))

    @staticmethod
    def python() -> list[str]:
        """The interpreter."""
        return [sys.executable]

    def pipe(self, replies: str, typed: str, *arguments: str, out: Any = subprocess.PIPE) -> Any:
        """Run it without a terminal, with `typed` as its input."""
        return subprocess.run(
            [*self.command(replies), *arguments],
            input=typed,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.work,
            env={**os.environ, **self.environ()},
            timeout=60,
        )

    def shell(self) -> Terminal:
        """A shell with jobs."""
        environ = {**self.environ(), "TERM": "xterm-256color"}
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], cwd=self.work, environ=environ)
        self.opened.append(terminal)
        terminal.wait_for("$")
        return terminal

    @property
    def keeps_modes(self) -> list[str]:
        """A program that starts dsh, and tells how the terminal was set before and after it."""
        code = (
            "import os, signal, subprocess, sys, termios, json\n"
            "attributes = lambda: repr(termios.tcgetattr(0))\n"
            "open('before', 'w').write(attributes())\n"
            "child = subprocess.Popen(sys.argv[1:])\n"
            "for number in (signal.SIGTERM, signal.SIGHUP):\n"
            "    signal.signal(number, lambda number, frame: child.send_signal(number))\n"
            "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "code = child.wait()\n"
            "open('after', 'w').write(attributes())\n"
            "sys.exit(code)\n"
        )
        return [sys.executable, "-c", code]

    def events(self) -> list[dict[str, Any]]:
        """The events of the session that was written last."""
        paths = sorted(self.home.glob("sessions/*/*.jsonl"), key=lambda path: path.stat().st_mtime)
        return [json.loads(line) for line in paths[-1].read_text().splitlines()[1:]]

    def kinds(self) -> list[str]:
        """Their types."""
        return [event["type"] for event in self.events()]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A folder of its own, with a short name; what was opened in it ends with the test."""
    with tempfile.TemporaryDirectory(prefix="dsh-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        desk = Desk(Path(folder))
        yield desk
        for terminal in desk.opened:
            terminal.close()


SCRIPT = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, cut, fail, hang, reply, text
from dsh.messages import TokenUsage
import types
try:
    import dsh_terminal_script as script
except ImportError:  # a command beside the conversation
    script = types.SimpleNamespace()

@hookimpl
def llm_adapters(adapters):
    script.model = ScriptedModel(REPLIES, otherwise=text("more"))
    adapters.add("scripted", script.model)

@hookimpl
async def dsh_conversation(conversation):
    return await script.hold(conversation)
"""


class ScriptedScreen:
    """A screen in memory, with somebody at it who enters one thing after another.

    Attributes:
        steps: what is entered, or functions that are called with the screen, and awaited.
        said: what was shown after each step; the first is what was shown at the start.
        answers: which of the choices are taken, one after another; None for none.
        chosen: the questions and choices that were shown.
    """

    def __init__(self, steps: Sequence[Any], answers: Sequence[int | None], *, interactive: bool, columns: int) -> None:
        self.look = Look(colour=False, plain=False, width=columns)
        self.columns = columns
        self.running = False
        self.interactive = interactive
        self.steps = list(steps)
        self.answers = list(answers)
        self.chosen: list[tuple[str, Sequence[str]]] = []
        self.said: list[str] = [""]
        self.lives: list[Any] = []
        self.statuses: list[str] = []
        self.back: list[str] = []
        self.rung: list[str] = []
        self.talk: Any = None
        self.unsent = ""
        self._left = False
        self._moved = trio.Event()

    def words(self, number: int) -> str:
        """What was shown after a step, without ends of lines."""
        return " ".join(self.said[number].split())

    def show(self, text: str) -> None:
        self.said[-1] += text

    def live(self, parts: Any) -> None:
        self.lives.append(parts)
        self._moved.set()

    async def until(self, text: str) -> None:
        """Wait until what is not finished has a text in it."""
        with trio.fail_after(60):
            while text not in str(self.lives[-1:]):
                self._moved = trio.Event()
                await self._moved.wait()

    def status(self, text: str) -> None:
        self.statuses.append(text)

    def bell(self, words: str = "") -> None:
        self.rung.append(words)

    def put_back(self, text: str) -> None:
        self.back.append(text)

    def interrupt(self) -> None:
        self.talk._told(Cancel())

    @asynccontextmanager
    async def borrow(self, *, patient: bool = False) -> AsyncIterator[None]:
        yield

    async def choose(self, question: str, choices: Sequence[str]) -> int | None:
        self.chosen.append((question, choices))
        return self.answers.pop(0)

    def leave(self) -> None:
        self._left = True

    async def run(self, told: Any, started: Any) -> None:
        started()
        self.enter = told
        for step in self.steps:
            if self._left:
                break
            self.said.append("")
            if isinstance(step, str):
                told(Line(step))
            else:
                await step(self)
            with trio.fail_after(60):
                await self.talk.settled()
        if not self._left:
            told(Leave())


class Scripted:
    """The whole program in this process, but for the screen."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk = desk
        monkeypatch.setenv("DSH_HOME", str(desk.home))
        monkeypatch.setenv("HOME", str(desk.home.parent))
        monkeypatch.chdir(desk.work)
        self.module = types.ModuleType("dsh_terminal_script")
        monkeypatch.setitem(sys.modules, "dsh_terminal_script", self.module)
        self.code: int | None = None

    def __call__(
        self,
        replies: str,
        *steps: Any,
        answers: Sequence[int | None] = (),
        flags: Sequence[str] = (),
        mode: str = "bypass",
        interactive: bool = True,
        columns: int = 80,
        **config: Any,
    ) -> ScriptedScreen:
        """Hold a conversation in which `steps` are entered, each when the one before it is done with."""
        from dsh.cli import main

        screen = ScriptedScreen(steps, answers, interactive=interactive, columns=columns)

        async def hold(conversation: Any) -> int:
            screen.talk = Talk(conversation, screen, TerminalConfig(**config))
            code: int = await screen.talk.main()
            return code

        vars(self.module)["hold"] = hold
        plugin = self.desk.home.parent / "script_plugin.py"
        plugin.write_text(SCRIPT.replace("REPLIES", replies))
        given = ["-m", "scripted/model"] if not {"-c", "-r"} & set(flags) else []
        self.code = main([*given, "-e", str(plugin), "--permission-mode", mode, "-s", "danger-full-access", *flags])
        return screen


@pytest.fixture
def scripted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Conversations in this process, on a screen in memory."""
    return Scripted(desk, monkeypatch)
