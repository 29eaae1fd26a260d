"""Killed at any event, a session goes on: nothing that was seen is lost, and the next request is valid.

A run that uses many tools is killed with SIGKILL, in the frame of an event, before or after everybody has
seen it.  Then ``dsh -p -c`` goes on with what was left.  The forks of tests/crash_sweep.py do both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
SWEEP = Path(__file__).with_name("crash_sweep.py")
WORKERS = 2
NOWHERE = "http://127.0.0.1:9"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder where syncing costs nothing, if there is one."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def start(folder: Path, store: str, model: str, when: str, deaths: Iterable[str], url: str) -> subprocess.Popen[str]:
    env = {**os.environ, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-test-0123456789"}
    command = [sys.executable, str(SWEEP), str(folder), store, model, when, *deaths]
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )


def types_of(folder: Path) -> list[str]:
    """The events of the run, when nobody kills it."""
    out, _ = start(folder, "jsonl", "", "trylast", (), NOWHERE).communicate(timeout=60)
    types: list[str] = json.loads(out)
    assert types.count("tool/call") == types.count("tool/result") == 8
    assert types[-1] == "turn/end"
    return types


def sweep(folder: Path, when: str, deaths: list[str], store: str = "jsonl") -> None:
    """Die at each of `deaths`, in a few processes; the requests of those that go on are checked by the server."""
    with ExitStack() as stack:
        url, model, log = NOWHERE, "quiet/model", folder / "requests.jsonl"
        if SERVER.exists():
            script = folder / "script.json"
            script.write_text(json.dumps([{"text": "on", "repeat": True}]))
            command = [sys.executable, str(SERVER), str(script), "--port", "0", "--log", str(log)]
            server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(server.kill)
            assert server.stdout is not None
            url, model = server.stdout.readline().strip(), "openai/scripted"
        workers = [start(folder / f"{n}", store, model, when, deaths[n::WORKERS], url) for n in range(WORKERS)]
        outputs = [worker.communicate(timeout=600)[0] for worker in workers]
    found: list[dict[str, Any]] = [json.loads(line) for output in outputs for line in output.splitlines()]
    assert [each for each in found if each["wrong"]] == []
    assert sorted(each["deaths"] for each in found) == sorted(deaths)
    if SERVER.exists():
        requests = [json.loads(line) for line in log.read_text().splitlines()]
        assert [request["refused"] for request in requests] == [None] * len(deaths)


def boundaries(types: list[str]) -> list[int]:
    """All events but those chunks that have chunks on both sides."""
    chunk = "assistant/chunk"
    return [at for at in range(len(types)) if {chunk} != set(types[max(at - 1, 0) : at + 2])]


@pytest.mark.parametrize("when", ["tryfirst", "trylast"])
def test_killed_at_the_boundaries(memory: Path, when: str) -> None:
    types = types_of(memory / "whole")
    sweep(memory, when, [str(at) for at in boundaries(types)])


@pytest.mark.parametrize("when", ["tryfirst", "trylast"])
def test_killed_with_the_other_store(memory: Path, when: str) -> None:
    types = types_of(memory / "whole")
    sweep(memory, when, [str(at) for at in boundaries(types)[::4]], store="sqlite")


def test_killed_again_while_it_goes_on(memory: Path) -> None:
    """The program that repairs the log dies, too, soon after: in the first events of its own."""
    types = types_of(memory / "whole")
    results = [at for at, kind in enumerate(types) if kind in ("tool/call", "tool/result")]
    later = (9, 12, 30)
    sweep(memory, "trylast", [f"{at}:{at + later[n % 3]}:{at + later[n % 3] + 9}" for n, at in enumerate(results)])


@pytest.mark.soak
@pytest.mark.parametrize("store", ["jsonl", "sqlite"])
@pytest.mark.parametrize("when", ["tryfirst", "trylast"])
def test_killed_at_every_event(memory: Path, when: str, store: str) -> None:
    types = types_of(memory / "whole")
    sweep(memory, when, [str(at) for at in range(len(types))], store)
