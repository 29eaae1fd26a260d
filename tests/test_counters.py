"""What must not grow: counted, because counting does not depend on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import dsh_jsonl
import httpx
import pytest
from dsh_chat.adapter import ChatAdapter
from dsh_chat.encode import Encoder
from dsh_chat.providers import built_in
from dsh_jsonl.writer import SessionFile

from dsh import AgentOptions, hookimpl
from dsh.jsonvalue import dumps
from dsh.session.events import Event
from dsh.testing import ScriptedModel, call, memory_harness, plugin_of, text, tool_of

STEPS = 30


def body_of(request: int) -> bytes:
    """A streamed answer: a call in all but the last step."""
    if request < STEPS:
        function = {"name": "work", "arguments": "{}"}
        delta: dict[str, Any] = {"tool_calls": [{"index": 0, "id": f"c{request}", "function": function}]}
        finish = "tool_calls"
    else:
        delta, finish = {"content": "done"}, "stop"
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


class Service:
    """The plugin that offers a provider whose answers come from `body_of`; it keeps what it is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(b"".join([part async for part in aiter_of(request)]))
        return httpx.Response(200, content=body_of(len(self.bodies) - 1), headers={"content-type": "text/event-stream"})

    @hookimpl
    def llm_adapters(self, adapters: Any) -> None:
        provider = built_in("openai", {"OPENAI_API_KEY": "sk-0123456789"})
        adapters.add("served", ChatAdapter(provider, httpx.MockTransport(self.answer)))


async def aiter_of(request: httpx.Request) -> AsyncIterator[bytes]:
    stream = request.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    async for part in stream:
        yield part


async def test_a_message_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps a turn has, each message becomes bytes once, and each body extends the last."""
    encoded: Counter[int] = Counter()
    kept: list[Any] = []
    original = Encoder._encode

    def counting(self: Encoder, message: Any, maker: str) -> Any:
        encoded[id(message)] += 1
        kept.append(message)
        return original(self, message, maker)

    monkeypatch.setattr(Encoder, "_encode", counting)
    service = Service()
    plugins = {"service": service, "tool": tool_of("work")}
    async with memory_harness(plugins=plugins) as harness:
        agent = harness.create_agent(options=AgentOptions(model="served/model")).agent
        result = await agent.run("go")
    assert result.text == "done"
    assert len(service.bodies) == STEPS + 1
    assert encoded
    assert set(encoded.values()) == {1}
    for last, body in zip(service.bodies, service.bodies[1:], strict=False):
        assert body.startswith(last[: last.rindex(b"]")])


async def test_a_turn_is_made_durable_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many events it has: the file is synced at the end of the turn, and when it is closed."""
    synced: list[int] = []
    original = os.fsync

    def counting(descriptor: int) -> None:
        synced.append(descriptor)
        original(descriptor)

    turns = 3
    model = ScriptedModel(*(reply for _ in range(turns) for reply in (*[call("work")] * 5, text("done"))))
    async with memory_harness(model=model, plugins={"jsonl": dsh_jsonl, "tool": tool_of("work")}) as harness:
        agent = harness.create_agent(options=AgentOptions(model="scripted/model")).agent
        await agent.run("make the file and its folder")
        monkeypatch.setattr(os, "fsync", counting)
        for _ in range(turns - 1):
            await agent.run("go")
        assert len(synced) == turns - 1


async def test_what_one_read_brought_is_written_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer's deltas are events of their own, and whoever listens hears of each, behind the store."""
    deltas = 200
    pieces: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": f"{n} "}}]} for n in range(deltas)]
    pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    answer = b"".join(b"data: " + dumps(piece) + b"\n\n" for piece in pieces) + b"data: [DONE]\n\n"
    monkeypatch.setattr(f"{__name__}.body_of", lambda request: answer)
    written: list[int] = []
    heard: list[int] = []
    original = SessionFile.write

    def counting(self: SessionFile, lines: Sequence[bytes]) -> None:
        written.append(len(lines))
        original(self, lines)

    def hear(event: Event) -> None:
        assert sum(written) > event.seq
        heard.append(event.seq)

    monkeypatch.setattr(SessionFile, "write", counting)
    plugins = {"service": Service(), "jsonl": dsh_jsonl, "listener": plugin_of(session_event=hear)}
    async with memory_harness(plugins=plugins) as harness:
        agent = harness.create_agent(options=AgentOptions(model="served/model")).agent
        await agent.run("go")
        assert heard == list(range(len(agent.session.events)))
    assert len(heard) > deltas
    assert sum(written) == len(heard)
    assert len(written) < 20


def test_what_a_program_that_embeds_dsh_imports() -> None:
    """Opening a harness brings no HTTP library, no grammar, no prices, no embedded model and nothing that draws."""
    program = """
import sys, trio, dsh

async def main():
    async with dsh.open_harness():
        pass

trio.run(main)
heavy = {"httpx", "h11", "httpcore", "anyio", "rich", "click", "xllamacpp", "numpy", "sqlite3", "asyncio", "pytest"}
heavy |= {"tree_sitter", "tree_sitter_bash", "yaml", "prompt_toolkit", "genai_prices", "html", "dsh.approval"}
heavy |= {"dsh.tools.views", "dsh.llm.http.link", "dsh_anthropic.encode", "dsh_compaction.compactor"}
heavy |= {"dsh_shell.executor", "dsh_files.views", "dsh_terminal.live", "dsh_subagents.acp.provider"}
print(sorted(heavy & sys.modules.keys()))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[]", ran.stderr
