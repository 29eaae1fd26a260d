"""Whole runs of the command on disks that fail, files that are changed underneath, and sessions that are taken."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from dsh.session.events import TurnEnd

jsonl = pytest.importorskip("dsh_jsonl")
sqlite = pytest.importorskip("dsh_sqlite")

MODEL = """\
from dsh import hookimpl
from dsh.llm.scripted import ScriptedModel, call, text

@hookimpl
def llm_adapters(adapters):
    adapters.add("scripted", ScriptedModel(REPLIES))
"""
BIG = """call("bash", {"command": "head -c 20000 /dev/zero | tr '\\\\0' x"})"""


@frozen
class Done:
    code: int
    out: str
    err: str


@frozen
class Dsh:
    """Runs the command in a folder of its own, with one of the stores."""

    folder: Path
    store: str

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def argv(self, replies: str, *more: str) -> list[str]:
        model = self.folder / "scripted_model.py"
        model.write_text(MODEL.replace("REPLIES", replies))
        chosen = ("-m", "scripted/model", "-e", str(model), "--config", f"sessions.store={self.store}")
        return [sys.executable, "-m", "dsh", *more, *chosen, "--permission-mode", "bypass", "-s", "danger-full-access"]

    def start(self, replies: str, *more: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(replies, *more),
            cwd=self.folder,
            # A limit of files' sizes would hold for compiled modules, too, which others would load.
            env={**os.environ, "DSH_HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def __call__(self, replies: str, *more: str, **options: Any) -> Done:
        process = self.start(replies, *more, **options)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)

    def read(self, home: Path | None = None) -> Any:
        """The only session, as it is stored; None if there is none."""
        home = home or self.home
        if self.store == "jsonl":
            paths = sorted(home.glob("sessions/*/*.jsonl"))
            return jsonl.read_session(paths[0]) if paths else None
        from dsh_sqlite.database import Database

        with Database(home / "sessions.db").reading() as connection:
            ids = [] if connection is None else [row[0] for row in connection.execute("SELECT id FROM sessions")]
        return sqlite.read_session(home / "sessions.db", ids[0].decode()) if ids else None


@pytest.fixture(params=["jsonl", "sqlite"])
def dsh(request: pytest.FixtureRequest, tmp_path: Path) -> Dsh:
    return Dsh(tmp_path, request.param)


def limited(size: int) -> Callable[[], None]:
    """No file of the program can grow beyond `size`, as on a full disk."""
    return functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))


def goes_on(dsh: Dsh) -> None:
    """The session that was left is whole, and can be resumed."""
    before = list(dsh.read().events.lines())
    done = dsh("""text("and on")""", "-c", "-p", "go on")
    assert (done.code, done.out) == (0, "and on\n"), done.err
    events = dsh.read().events
    assert list(events.lines())[: len(before)] == before
    assert [event.seq for event in events] == list(range(len(events)))
    ends = [event.data.reason.kind for event in events if isinstance(event.data, TurnEnd)]
    assert ends[-1] == "completed"


def test_a_run_on_a_full_disk_fails_and_keeps_what_was_written(dsh: Dsh) -> None:
    size = 60_000 if dsh.store == "jsonl" else 200_000
    done = dsh(f"""{", ".join([BIG] * 8)}, text("never")""", "-p", "go", preexec_fn=limited(size))

    assert done.code == 1
    assert done.out == ""
    assert "cannot write the session" in done.err
    assert "could not be stored" in done.err
    assert len(dsh.read().events) > 10
    goes_on(dsh)


def test_a_run_on_a_disk_that_was_full_before_fails_at_once(dsh: Dsh) -> None:
    done = dsh("""text("never")""", "-p", "go", preexec_fn=limited(0))

    assert (done.code, done.out) == (1, "")
    assert "cannot write the session" in done.err
    assert dsh.read() is None
    assert dsh("""text("fine")""", "-p", "go").code == 0


def namespace() -> list[str]:
    """The beginning of a command line that may mount what it likes."""
    for argv in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") is None:
            break
        probe = [*argv, "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return argv
    pytest.skip("file systems cannot be mounted here")


def test_a_small_disk_fills_up(dsh: Dsh) -> None:
    script = 'mount -t tmpfs -o size=400k none "$DSH_HOME"; "$@"; code=$?; cp -r "$DSH_HOME/." saved; exit $code'
    dsh.home.mkdir()
    (dsh.folder / "saved").mkdir()
    calls = ", ".join(BIG.replace("20000", str(20000 + number)) for number in range(20))
    argv = dsh.argv(f"""{calls}, text("never")""", "-p", "go")
    env = {**os.environ, "DSH_HOME": str(dsh.home)}
    done = subprocess.run(
        [*namespace(), "sh", "-c", script, "sh", *argv],
        cwd=dsh.folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot write the session" in done.stderr
    shutil.copytree(dsh.folder / "saved", dsh.home, dirs_exist_ok=True)
    assert len(dsh.read().events) > 10
    goes_on(dsh)


def test_a_file_system_that_is_read_only(dsh: Dsh) -> None:
    dsh("""text("first")""", "-p", "go")
    before = list(dsh.read().events.lines())
    script = 'mount --bind "$DSH_HOME" "$DSH_HOME" && mount -o remount,ro,bind "$DSH_HOME"; exec "$@"'
    env = {**os.environ, "DSH_HOME": str(dsh.home)}
    for more in (["-p", "go"], ["-c", "-p", "go"]):
        argv = [*namespace(), "sh", "-c", script, "sh", *dsh.argv("""text("never")""", *more)]
        done = subprocess.run(argv, cwd=dsh.folder, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "Traceback" not in done.stderr
        assert "Read-only file system" in done.stderr

    assert list(dsh.read().events.lines()) == before
    goes_on(dsh)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("truncate -s 300 home/sessions/*/*.jsonl", "was changed by another program: it has 300 bytes instead of"),
        ("echo junk >> home/sessions/*/*.jsonl", "was changed by another program"),
        ("rm home/sessions/*/*.jsonl", "was deleted while the session was open"),
    ],
    ids=["cut", "longer", "gone"],
)
def test_a_file_that_is_changed_underneath(tmp_path: Path, change: str, said: str) -> None:
    dsh = Dsh(tmp_path, "jsonl")
    done = dsh(f"""call("bash", {{"command": {change!r}}}), text("never")""", "-p", "go")

    assert (done.code, done.out) == (1, "")
    assert said in done.err
    left = [path.read_bytes() for path in dsh.home.glob("sessions/*/*.jsonl")]
    if change.startswith("rm"):
        assert left == []
        return
    assert len(left[0]) == 300 or left[0].endswith(b"}\njunk\n")
    if change.startswith("echo"):
        goes_on(dsh)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM events WHERE seq > 2", "was changed by another program"),
        ("DELETE FROM sessions", "was changed by another program"),
        (None, "was deleted or replaced while sessions in it were open"),
    ],
    ids=["cut", "session gone", "database gone"],
)
def test_a_database_that_is_changed_underneath(tmp_path: Path, change: str | None, said: str) -> None:
    dsh = Dsh(tmp_path, "sqlite")
    remove = "[os.remove(path) for path in glob.glob('home/sessions.db*') if os.path.isfile(path)]"
    execute = f"c = sqlite3.connect('home/sessions.db'); c.execute('PRAGMA foreign_keys = 1'); c.execute({change!r})"
    script = f"{execute}; c.commit()" if change else remove
    (tmp_path / "change.py").write_text(f"import glob, os, sqlite3\n{script}\n")
    command = f"{sys.executable} change.py"
    done = dsh(f"""call("bash", {{"command": {command!r}}}), text("never")""", "-p", "go")

    assert (done.code, done.out) == (1, "")
    assert said in done.err
    if change == "DELETE FROM events WHERE seq > 2":
        assert len(dsh.read().events) == 3
        goes_on(dsh)


def test_two_programs_on_one_session(dsh: Dsh) -> None:
    slow = """call("bash", {"command": "touch started; while [ ! -e go ]; do sleep 0.05; done"}), text("done")"""
    running = dsh.start(slow, "-p", "go", "--session-id", "one")
    deadline = time.monotonic() + 60
    while not (dsh.folder / "started").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    try:
        resumed = dsh("""text("never")""", "-r", "one", "-p", "me too")
        begun = dsh("""text("never")""", "-p", "me too", "--session-id", "one")
        listed = subprocess.run(
            dsh.argv("", "-c", "-p", "me too"),
            cwd=dsh.folder,
            env={**os.environ, "DSH_HOME": str(dsh.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        (dsh.folder / "go").touch()
        out, err = running.communicate(timeout=60)

    for done in (resumed, Done(listed.returncode, listed.stdout, listed.stderr)):
        assert (done.code, done.out) == (1, "")
        assert "is open in another program" in done.err
    assert (begun.code, begun.out) == (2, "")
    assert "resume it, or choose another id" in begun.err
    assert (running.returncode, out) == (0, "done\n"), err
    goes_on(dsh)


def test_no_session_stores_nothing(dsh: Dsh) -> None:
    assert dsh("""text("fine")""", "-p", "go", "--no-session").code == 0
    assert dsh.read() is None


def test_an_unknown_store_is_refused(tmp_path: Path) -> None:
    done = Dsh(tmp_path, "sqlit")("""text("never")""", "-p", "go")

    assert (done.code, done.out) == (2, "")
    assert "--config sessions.store: no plugin 'sqlit' stores sessions, did you mean sqlite?" in done.err
