"""The parent's side of the server's process: start, wait until it answers, stop."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import trio
from attrs import define, field, frozen

from dsh import LlmError, Process
from dsh.jsonvalue import dumps, loads
from dsh.process import scrubbed_environment

from ._server import NO_RUNTIME
from .weights import INSTALL

__all__ = ["ModelServer", "Serve"]

_STEP = 2.0  # seconds from the pipe's end to TERM, and from there to KILL
_TAIL = 2000  # bytes of the server's own last words that a person is shown


@frozen
class Serve:
    """What to serve, and how.

    Attributes:
        model: a GGUF file.
        alias: what the server calls it.
        template: text of a chat template; None for the one in the file.
        context: in tokens.
        port: None for any free one.
        ready_within: seconds.
    """

    model: Path
    alias: str
    template: str | None
    context: int
    threads: int
    temperature: float
    port: int | None
    ready_within: float


@define(eq=False)
class ModelServer:
    """One llama.cpp server in a process group of its own, which ends when this process does.

    Its address and key stay the same when it has to be started again.
    """

    serve: Serve
    prepare: Callable[[Process], Awaitable[Process]]
    key: str = field(factory=lambda: secrets.token_hex(24), repr=False)
    url: str | None = None
    _process: trio.Process | None = None
    _log: BinaryIO | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> str:
        """Start the server, wait until it is ready, and return its URL.  One call at a time.

        Cancelling stops what was started.

        Raises:
            LlmError: the file is no model, the process ended, or it was not ready in time.
        """
        await self.stop()
        _check_model(self.serve.model)
        try:
            process = await self._open()
            with trio.move_on_after(self.serve.ready_within):
                self.url = await self._ready(process)
                return self.url
            raise LlmError(
                f"the embedded model was not ready within {self.serve.ready_within:g} s; "
                f"raise `start_timeout` in [local]{self._last_words()}",
                code="LOCAL_SERVER",
            )
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the server: close the pipe, TERM to its group after two seconds, KILL after four.

        Nothing happens when none runs.  Cancelling waits for the end all the same, which is at most
        a few seconds away.
        """
        process, self._process = self._process, None
        log, self._log = self._log, None
        if log is not None:
            log.close()
        if process is None:
            return
        with trio.CancelScope(shield=True):
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
                with trio.move_on_after(_STEP):
                    await process.wait()
                    break
                _signal(process, number)
            await process.wait()
            await process.stdout.aclose()

    async def _open(self) -> trio.Process:
        wanted = Process(
            # -P: the folder of the file stays out of the module path
            argv=(sys.executable, "-P", str(Path(__file__).with_name("_server.py"))),
            env={**scrubbed_environment(), "OMP_WAIT_POLICY": "PASSIVE"},
            cwd=str(self.serve.model.parent),
            purpose="local model",
            managed=True,
            trusted=True,
        )
        ready = await self.prepare(wanted)
        self._log = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  # read after the process's end
        try:
            self._process = await trio.lowlevel.open_process(
                list(ready.argv),
                env=dict(ready.env),
                cwd=ready.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            raise LlmError(f"the embedded model's server cannot be started: {error}", code="LOCAL_SERVER") from error
        return self._process

    async def _ready(self, process: trio.Process) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(trio.BrokenResourceError):  # it died; what follows says why
            await process.stdin.send_all(dumps(self._order()) + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            got = await process.stdout.receive_some()
            if not got:
                await process.wait()
                raise self._died(process)
            line += got
        url: str = loads(line)["url"]
        await self._answers(url, process)
        return url

    async def _answers(self, url: str, process: trio.Process) -> None:
        import httpx

        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get(f"{url}/health")).is_success:
                        return
                if process.poll() is not None:
                    raise self._died(process)
                await trio.sleep(0.1)

    def _order(self) -> dict[str, object]:
        serve = self.serve
        # After a death the old address is taken again: adapters know it.
        port = int(self.url.rpartition(":")[2]) if self.url else serve.port or 0
        return {
            "model": str(serve.model),
            "alias": serve.alias,
            "template": serve.template,
            "context": serve.context,
            "threads": serve.threads,
            "temperature": serve.temperature,
            "port": port,
            "key": self.key,
        }

    def _died(self, process: trio.Process) -> LlmError:
        status, words = process.returncode, self._last_words()
        if status == NO_RUNTIME:
            text = (
                f"the embedded model's runtime cannot be loaded: {INSTALL} brings it for Linux on x86-64 (with AVX2) "
                f"and aarch64, for macOS from 13 and for Windows on x86-64{words}"
            )
            return LlmError(text, code="LOCAL_NOT_INSTALLED")
        if status == -getattr(signal, "SIGILL", 4):
            text = "the embedded model's runtime needs instructions that this processor lacks (AVX2 on x86-64)"
        elif status == -getattr(signal, "SIGKILL", 9):
            text = (
                "the embedded model's server was killed as it started, "
                "as happens when memory runs out (it takes about 0.7 GB)"
            )
        else:
            text = f"the embedded model's server ended with status {status} as it started"
        return LlmError(text + words, code="LOCAL_SERVER")

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _TAIL))
        words = self._log.read().decode("utf-8", "replace").strip()
        return f"; its last words:\n{words}" if words else ""


def _signal(process: trio.Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, number)


def _check_model(path: Path) -> None:
    try:
        with path.open("rb") as opened:
            magic = opened.read(4)
    except OSError as error:
        raise LlmError(
            f"the model file {path} cannot be read ({error.strerror}); see `model` in [local]", code="LOCAL_WEIGHTS"
        ) from error
    if magic != b"GGUF":
        raise LlmError(f"{path} is not a GGUF file; see `model` in [local]", code="LOCAL_WEIGHTS")
