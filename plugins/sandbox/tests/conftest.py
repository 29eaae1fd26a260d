# ruff: noqa: ASYNC220 - the tests' own processes, which start at once
from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import dsh_sandbox
import pytest
import trio
from attrs import frozen
from dsh_sandbox.box import find_backend

from dsh import Config, Harness
from dsh.process import Process, scrubbed_environment
from dsh.testing import memory_harness


def why_not(backend: str) -> str:
    """Why a backend does not work here; empty if it does."""
    with tempfile.TemporaryDirectory() as temp:
        return find_backend(backend, temp)[1]


BACKENDS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(reason), reason=reason))
    for name in ("bubblewrap", "landlock")
    for reason in [why_not(name)]
]


@frozen
class Ran:
    code: int
    out: str
    err: str
    refused: str | None

    @property
    def text(self) -> str:
        return self.out + self.err


@frozen
class Box:
    """A harness with a sandbox around what it starts, a workspace, and things outside of it."""

    harness: Harness
    backend: str
    tmp: Path
    warnings: list[str]

    @property
    def work(self) -> Path:
        return self.tmp / "work"

    @property
    def outside(self) -> Path:
        return self.tmp / "outside"

    async def prepared(self, command: str, **more: Any) -> Process:
        process = Process(
            ("bash", "-c", command),
            {**scrubbed_environment(), **more.pop("env", {})},
            str(more.pop("cwd", self.work)),
            **{"managed": True, "readable": (str(self.tmp),), **more},
        )
        return await self.harness.hook.process_prepare(agent=None, process=process, default=lambda: process)

    async def run(self, command: str, **more: Any) -> Ran:
        """Run a command to its end, and kill what it left in its group."""
        process = await self.prepared(command, **more)
        around = process.confinement
        # Into files, since of what a command leaves running bubblewrap holds the pipes.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with subprocess.Popen(
                process.argv,
                env=process.env,
                cwd=process.cwd,
                pass_fds=() if around is None else around.fds,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            ) as child:
                if around is not None:
                    around.started()
                try:
                    await trio.to_thread.run_sync(lambda: child.wait(timeout=30))
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode())
        code = child.returncode
        return Ran(code, *said, None if around is None else around.ended(code if code >= 0 else None))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


OpenBox = Callable[..., Any]


@pytest.fixture
def open_box(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> OpenBox:
    """``async with open_box(mode="read-only") as box``: the settings of ``[sandbox]``."""
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    person = tmp_path / "person"
    person.mkdir()
    monkeypatch.setenv("HOME", str(person))

    @asynccontextmanager
    async def opened(plugins: Mapping[str, object] | None = None, **settings: Any) -> AsyncIterator[Box]:
        table = {"mode": "workspace-write", "backend": backend, **settings}
        warnings: list[str] = []
        config = Config(tables={"sandbox": table})
        given = {"sandbox": dsh_sandbox, **(plugins or {})}
        async with memory_harness(plugins=given, config=config, warnings=warnings) as harness:
            yield Box(harness, backend, tmp_path, warnings)

    return opened


@pytest.fixture
async def box(open_box: OpenBox) -> AsyncIterator[Box]:
    async with open_box() as opened:
        yield opened


def bubblewrap_only(backend: str, why: str) -> None:
    if backend != "bubblewrap":
        pytest.skip(f"Landlock does not cover it: {why}")


@pytest.fixture
def covered(backend: str) -> Callable[[str], Awaitable[None]] | Callable[[str], None]:
    """``covered(why)`` skips for Landlock, which does not cover what the test is about."""
    return lambda why: bubblewrap_only(backend, why)
