"""An agent that says anything: what the client makes of it is an answer or an error, and never a wait without end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing

import dsh_subagents
import pytest
import trio
import trio.testing
from dsh_subagents.acp.client import Client
from dsh_subagents.acp.lines import Garbage, objects
from dsh_subagents.acp.peer import Peer
from dsh_subagents.acp.provider import AcpChild, AcpProvider
from dsh_subagents.acp.settings import AcpConfig
from dsh_subagents.provider import Answer, SubagentError, Task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh import Agent
from dsh.testing import memory_agent, tool_of

OWN_METHODS = (
    "session/update",
    "session/request_permission",
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
    "what/ever",
)
UPDATES = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "other")

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=5)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
contents = st.fixed_dictionaries({}, optional={"type": st.just("text") | values, "text": st.text() | values})
updates = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(UPDATES)},
    optional={
        "content": contents | values,
        "toolCallId": st.sampled_from(["a", "b"]) | values,
        "title": values,
        "kind": values,
        "status": st.sampled_from(["pending", "completed", "failed"]) | values,
    },
)
calls = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["execute", "edit", "read", "fetch", "other"]) | values,
        "title": values,
        "rawInput": st.dictionaries(st.sampled_from(["command", "path", "url", "args"]), values, max_size=3) | values,
        "locations": st.lists(st.fixed_dictionaries({}, optional={"path": values})) | values,
        "content": values,
    },
)
params = st.fixed_dictionaries(
    {},
    optional={
        "sessionId": st.just("s") | values,
        "update": updates | values,
        "toolCall": calls | values,
        "options": st.lists(st.fixed_dictionaries({"optionId": values, "kind": values})) | values,
        "path": values,
        "content": values,
        "line": values,
        "command": values,
        "args": values,
        "env": st.lists(st.fixed_dictionaries({"name": values, "value": values})) | values,
        "cwd": values,
        "outputByteLimit": values,
        "terminalId": st.sampled_from(["terminal-1", "terminal-2"]) | values,
    },
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": st.sampled_from([0, 1, 2, 3, "a"]) | values,
        "method": st.sampled_from(OWN_METHODS) | values,
        "params": params | values,
        "result": st.fixed_dictionaries({}, optional={"stopReason": st.just("end_turn") | values, "usage": values})
        | values,
        "error": values,
    },
)
requests = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", 7]),
        "method": st.sampled_from(OWN_METHODS),
        "params": params.map(lambda found: {**found, "sessionId": "s"}),
    }
)
lines = st.lists(
    st.binary(max_size=30).map(lambda data: data.replace(b"\n", b""))
    | (messages | requests | values).map(lambda value: json.dumps(value).encode()),
    max_size=8,
)


async def outcome(agent: Agent, noise: Sequence[Sequence[bytes]], *, answers: bool) -> Answer | str:
    """What a prompt comes to, of an agent that says `noise` before each of its answers, and then is gone."""
    theirs, ours = trio.testing.memory_stream_pair()
    before = iter(noise)
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}

    async def other() -> None:
        async with aclosing(objects(theirs.receive_some)) as heard:
            async for message in heard:
                try:
                    await react(message)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    return

    async def react(message: dict[str, object]) -> None:
        method = str(message.get("method"))
        if method not in (*results, "session/prompt"):
            return
        for line in next(before, ()):
            await theirs.send_all(line + b"\n")
        result = results.get(method, {"stopReason": "end_turn"})
        if method in results or answers:
            await theirs.send_all(json.dumps({"id": message["id"], "result": result}).encode() + b"\n")
        if method == "session/prompt":
            await theirs.send_eof()

    async def listen(peer: Peer) -> None:
        await peer.end(await peer.listen(ours.receive_some) or "is gone")

    found: Answer | str
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            config = AcpConfig("unused")
            client = Client("other", "ask", nursery)
            peer = Peer(ours, client)
            nursery.start_soon(listen, peer)
            nursery.start_soon(other)
            try:
                await client.open(peer, agent, "/")
                task = Task(agent, "a part", "do it")
                async with AcpProvider({"other": config})._agent(task, client, "/") as child:
                    found = await AcpChild(child, client, config).ask("do it")
            except SubagentError as error:
                found = str(error)
            nursery.cancel_scope.cancel()
    return found


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(noise=st.lists(lines, min_size=3, max_size=3), answers=st.booleans())
async def test_it_says_anything(noise: list[list[bytes]], answers: bool) -> None:
    tools = {name: tool_of(name) for name in ("bash", "read", "write")}
    warnings: list[str] = []
    async with memory_agent(plugins={"subagents": dsh_subagents, **tools}, warnings=warnings) as agent:
        found = await outcome(agent, noise, answers=answers)
        assert isinstance(found, str) or found.reason in ("completed", "max-tokens", "error", "aborted", "refused")
        assert [child for child in agent.harness.agents.list() if child is not agent] == []
    assert [warning for warning in warnings if "nothing else ran meanwhile" not in warning] == []


async def test_it_says_what_it_should() -> None:
    async with memory_agent(plugins={"subagents": dsh_subagents}) as agent:
        assert await outcome(agent, [(), (), ()], answers=True) == Answer("completed", "")
        gone = await outcome(agent, [(), (), ()], answers=False)
        assert isinstance(gone, Answer)
        assert (gone.reason, gone.code) == ("error", "ACP_GONE")


@settings(deadline=None)
@given(
    parts=st.lists(st.sampled_from([b'{"a": 1}', b"\n", b" ", b"noise", b"{", b"[1]\n", b'{"b": "\\n"}\n', b"\r\n"])),
    size=st.integers(1, 7),
)
async def test_lines_are_the_same_in_whatever_pieces_they_come(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]

    async def receive(most: int) -> bytes:
        return pieces.pop(0) if pieces else b""

    found = [message async for message in objects(receive)]
    expected = []
    for line in data.split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            expected.append(value)
    assert found == expected


@pytest.mark.parametrize(("piece", "word"), [(b'{"a": "' + b"x" * (1 << 20), "message"), (b"x" * (1 << 20), "no mess")])
async def test_what_never_ends_is_not_kept(piece: bytes, word: str) -> None:
    async def receive(most: int) -> bytes:
        return piece

    with pytest.raises(Garbage, match=word):
        async with aclosing(objects(receive)) as found:
            await anext(found)
