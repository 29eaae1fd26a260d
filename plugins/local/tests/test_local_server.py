"""The server's process, around a stand-in for the runtime."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trio
from attrs import evolve
from dsh_local.server import ModelServer, Serve

from dsh import LlmError, Process

pytestmark = [
    pytest.mark.usefixtures("no_leftovers"),
    pytest.mark.skipif(sys.platform == "win32", reason="sends signals"),
]

RUNTIME = '''
"""What the server's process uses of the runtime, without a model."""
import json, os, signal, sys, threading, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(),
                           cpuparams_batch=SimpleNamespace(), sampling=SimpleNamespace(), chat_template="")

class Server:
    def __init__(self, params):
        mode = os.environ.get("STAND_IN", "")
        if mode == "dies":
            print("cannot load the model", file=sys.stderr, flush=True)
            os._exit(7)
        if mode == "ill":
            os.kill(os.getpid(), signal.SIGILL)
        if mode == "never":
            time.sleep(1000)
        if mode == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os._exit = lambda status: time.sleep(1000)
        print("noise on standard output", flush=True)
        seen = {"model": params.model.path, "context": params.n_ctx, "threads": params.cpuparams.n_threads,
                "template": params.chat_template, "key": params.api_keys[0], "environment": dict(os.environ),
                "argv": sys.orig_argv, "group": os.getpgrp(), "pid": os.getpid()}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = json.dumps(seen).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *args): pass

        server = HTTPServer(("127.0.0.1", params.port), Handler)
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
'''

Make = Callable[..., ModelServer]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a server of a model file; `mode` tells the stand-in how to behave."""
    (tmp_path / "xllamacpp.py").write_text(RUNTIME)
    model = tmp_path / "m.gguf"
    model.write_bytes(b"GGUF and more")

    def made(
        mode: str = "", ready_within: float = 60.0, prepare: Callable[[Process], Process] | None = None
    ) -> ModelServer:
        async def prepared(process: Process) -> Process:
            env = {**process.env, "PYTHONPATH": str(tmp_path), "STAND_IN": mode}
            process = evolve(process, env=env)
            return process if prepare is None else prepare(process)

        serve = Serve(
            model=model,
            alias="m",
            template="a template",
            context=1024,
            threads=3,
            temperature=0.2,
            port=None,
            ready_within=ready_within,
        )
        return ModelServer(serve, prepared)

    return made


async def ask(url: str) -> dict[str, object]:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer: dict[str, object] = (await client.get(f"{url}/anything")).json()
        return answer


async def gone(pid: int) -> None:
    with trio.fail_after(20):
        while _exists(pid):  # noqa: ASYNC110  # nobody tells when a stranger's child is gone
            await trio.sleep(0.02)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_serves_what_it_was_told_to(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-person")
    server = make()
    url = await server.start()
    try:
        seen = await ask(url)
    finally:
        await server.stop()

    assert url.startswith("http://127.0.0.1:")
    assert (seen["context"], seen["threads"], seen["template"], seen["key"]) == (1024, 3, "a template", server.key)
    environment, argv = seen["environment"], seen["argv"]
    assert isinstance(environment, dict)
    assert environment["OMP_WAIT_POLICY"] == "PASSIVE"
    assert "SOME_API_KEY" not in environment
    assert server.key not in str(argv) + str(environment)
    assert seen["group"] == seen["pid"] != os.getpgrp()


async def test_stopping_ends_the_process(make: Make) -> None:
    server = make()
    pid = (await ask(await server.start()))["pid"]
    await server.stop()

    assert isinstance(pid, int)
    await gone(pid)
    assert not server.alive
    await server.stop()


async def test_a_server_that_does_not_listen_to_anything_is_killed(make: Make) -> None:
    server = make("stubborn")
    await server.start()
    await server.stop()

    assert not server.alive


async def test_a_server_that_died_starts_again_at_its_address_with_its_key(make: Make) -> None:
    server = make()
    url, key = await server.start(), server.key
    pid = (await ask(url))["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    while server.alive:  # noqa: ASYNC110  # reaped by asking
        await trio.sleep(0.02)

    again = await server.start()
    seen = await ask(again)
    await server.stop()

    assert again == url
    assert seen["key"] == key


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("dies", r"ended with status 7 as it started; its last words:\ncannot load the model"),
        ("ill", "needs instructions that this processor lacks"),
    ],
)
async def test_a_server_that_dies_says_why(make: Make, mode: str, text: str) -> None:
    with pytest.raises(LlmError, match=text) as caught:
        await make(mode).start()

    assert caught.value.code == "LOCAL_SERVER"


async def test_a_server_that_is_never_ready_is_given_up(make: Make) -> None:
    server = make("never", ready_within=1.0)
    with pytest.raises(LlmError, match="not ready within 1 s; raise `start_timeout`"):
        await server.start()

    assert not server.alive


async def test_a_cancelled_start_leaves_no_process(make: Make) -> None:
    server = make("never")
    with trio.move_on_after(0.5) as scope:
        await server.start()

    assert scope.cancelled_caught
    assert not server.alive


async def test_a_missing_runtime_says_what_to_install(make: Make, tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('no such wheel')")
    with pytest.raises(LlmError, match=r"pip install 'dsh-harness\[local\]'(.|\n)*no such wheel") as caught:
        await make().start()

    assert caught.value.code == "LOCAL_NOT_INSTALLED"


async def test_a_program_that_cannot_be_started_is_an_error(make: Make) -> None:
    server = make(prepare=lambda process: evolve(process, argv=("/no/such/program",)))
    with pytest.raises(LlmError, match=r"cannot be started.*no/such/program"):
        await server.start()


@pytest.mark.parametrize(("content", "text"), [(b"PK\x03\x04", "not a GGUF file"), (None, "cannot be read")])
async def test_a_file_that_is_no_model_is_refused(make: Make, tmp_path: Path, content: bytes | None, text: str) -> None:
    server = make()
    (tmp_path / "m.gguf").unlink()
    if content is not None:
        (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(LlmError, match=text):
        await server.start()


PARENT = """
import sys
from pathlib import Path
import trio
from attrs import evolve
from dsh_local.server import ModelServer, Serve

async def prepare(process):
    return evolve(process, env={**process.env, "PYTHONPATH": sys.argv[1]})

async def main():
    serve = Serve(Path(sys.argv[1]) / "m.gguf", "m", None, 1024, 1, 0.2, None, 60.0)
    server = ModelServer(serve, prepare)
    await server.start()
    print(server._process.pid, flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


async def test_the_server_dies_with_a_parent_that_was_killed(make: Make, tmp_path: Path) -> None:
    make()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = await trio.lowlevel.open_process(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path)], env=env, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    async with parent.stdout:
        pid = int(await parent.stdout.receive_some())
        assert _exists(pid)
        parent.kill()
        await parent.wait()

    await gone(pid)
