"""Conversations with services: a scripted one that is strict, a paused one, a llama server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from dsh_anthropic.adapter import AnthropicAdapter
from dsh_anthropic.settings import Provider, ServiceSettings

from dsh import LlmError, Message, Request, Text, ToolCallBlock, ToolResultBlock
from dsh.llm.assembler import Assembler
from dsh.llm.http.service import Place
from dsh.messages import Reasoning, TokenUsage
from dsh.session.codec import default_codec

SHARED = Path(__file__).parents[3] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
SCRIPTS = SHARED / "bugs/scripts"
scripted = pytest.mark.skipif(not SERVER.exists(), reason="the scripted service is not here")


@asynccontextmanager
async def service(script: Path, tmp_path: Path, *options: str) -> AsyncIterator[AnthropicAdapter]:
    """An adapter for a service that plays `script`; what it is sent goes to ``sent.jsonl``."""
    command = [sys.executable, str(SERVER), str(script), "--port", "0", "--log", str(tmp_path / "sent.jsonl"), *options]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            url = bytes(await process.stdout.receive_some()).decode().strip()
        adapter = AnthropicAdapter(Provider(Place("house", "/v1/messages", url)))
        yield adapter
        await adapter.aclose()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


def sent(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text(encoding="utf-8").splitlines()]


def complaint(kind: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": "not now"}})


class Conversation:
    """The least of a loop: asks, answers calls with ``ok``, and makes ids unique."""

    def __init__(self, adapter: AnthropicAdapter, model: str = "house/m") -> None:
        self.adapter = adapter
        self.model = model
        self.messages: list[Message] = []
        self.calls: list[ToolCallBlock] = []

    async def ask(self) -> Assembler:
        assembler = Assembler()
        async for chunk in self.adapter.stream(Request(self.model, tuple(self.messages)), self.model.partition("/")[2]):
            assembler.feed(chunk)
        return assembler

    async def say(self, text: str) -> str:
        """The answer to `text`, after all calls."""
        self.messages.append(Message("user", text))
        while True:
            content = list((await self.ask()).content())
            for place, block in enumerate(content):
                if isinstance(block, ToolCallBlock):
                    self.calls.append(block)
                    content[place] = ToolCallBlock(f"{block.id}-{len(self.calls)}", block.name, block.arguments)
            self.messages.append(Message("assistant", content))
            calls = [block for block in content if isinstance(block, ToolCallBlock)]
            if not calls:
                return "".join(block.text for block in content if isinstance(block, Text))
            self.messages += [Message("user", [ToolResultBlock(call.id, (Text("ok"),))]) for call in calls]

    def resume(self) -> None:
        """Go on with what a log would keep of the messages."""
        codec = default_codec()
        self.messages = [codec.from_json(codec.to_json(message), Message) for message in self.messages]


@scripted
@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        ("R02", 2),
        ("R03", 2),
        ("R06", 2),
        *((name, 1) for name in ("T01", "T03", "T09", "T10", "T11", "T12", "T13", "R05")),
    ],
)
async def test_calls_are_read_and_the_next_request_is_accepted(name: str, prompts: int, tmp_path: Path) -> None:
    async with service(SCRIPTS / f"{name}.json", tmp_path, "--split", "11") as adapter:
        talk = Conversation(adapter)
        for n in range(prompts):
            assert await talk.say(f"prompt {n}")
    assert all(request["refused"] is None for request in sent(tmp_path))
    assert talk.calls


@scripted
async def test_call_without_a_name_does_not_spoil_the_session(tmp_path: Path) -> None:
    async with service(SCRIPTS / "T14.json", tmp_path) as adapter:
        await Conversation(adapter).say("go")
    assert all(request["refused"] is None for request in sent(tmp_path))


@scripted
@pytest.mark.parametrize("split", ["1", "3", "1000"])
async def test_characters_cut_by_the_network_stay_whole(split: str, tmp_path: Path) -> None:
    async with service(SCRIPTS / "S02.json", tmp_path, "--split", split) as adapter:
        talk = Conversation(adapter)
        assert await talk.say("go") == "写好了 🙂"
    assert json.loads(talk.calls[0].arguments)["command"] == "printf '你好🙂' > 文件.txt"


@scripted
async def test_thoughts_go_back_as_they_came_also_after_the_log_was_read_again(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    thinking = {"reasoning": " leading space and trailing \n", "calls": [["@shell", {"command": "ls"}]]}
    script.write_text(json.dumps([thinking, {"text": "one"}, {"text": "two"}, {"text": "three"}]))
    async with service(script, tmp_path) as adapter:
        talk = Conversation(adapter)
        assert await talk.say("go") == "one"
        assert await talk.say("on") == "two"
        talk.resume()
        assert await talk.say("on") == "three"

    requests = sent(tmp_path)
    assert all(request["refused"] is None for request in requests)
    thought = {"type": "thinking", "thinking": " leading space and trailing \n", "signature": "sig0"}
    for request in requests[1:]:
        assert request["body"]["messages"][1]["content"][0] == thought
    assert "cache_control" in json.dumps(requests[0])


@scripted
async def test_thoughts_of_another_model_stay_behind(tmp_path: Path) -> None:
    async with service(SCRIPTS / "R05.json", tmp_path) as adapter:
        talk = Conversation(adapter)
        await talk.say("go")
        talk.model = "house/other"
        talk.resume()
        await talk.say("on")
        talk.model = "house/m"
        await talk.say("back")
    requests = sent(tmp_path)
    assert ["thinking" in json.dumps(request["body"]["messages"]) for request in requests] == [False, True, False, True]


@scripted
async def test_parallel_calls_and_their_results(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    calls = [["@shell", {"command": f"echo {n}"}] for n in range(5)]
    script.write_text(json.dumps([{"text": "look", "calls": calls}, {"text": "done"}]))
    async with service(script, tmp_path) as adapter:
        talk = Conversation(adapter)
        assert await talk.say("go") == "done"
    assert [json.loads(call.arguments) for call in talk.calls] == [{"command": f"echo {n}"} for n in range(5)]
    turns = sent(tmp_path)[1]["body"]["messages"]
    assert [message["role"] for message in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result"] * 5


@scripted
@pytest.mark.parametrize(
    ("reply", "code", "retryable"),
    [
        ({"status": 429, "body": complaint("rate_limit_error")}, "RATE_LIMIT", True),
        ({"status": 529, "body": complaint("overloaded_error")}, "OVERLOADED", True),
        ({"status": 200, "body": complaint("api_error")}, "SERVER", True),
        ({"status": 200, "body": "<html><body>Welcome</body></html>"}, "MALFORMED_RESPONSE", False),
        ({"status": 200, "body": ""}, "EMPTY_RESPONSE", True),
        ({"text": "cut here", "cut": 300}, "STREAM_CLOSED", True),
        ({"text": "dropped here", "abort": 300}, "STREAM_CLOSED", True),
    ],
)
async def test_responses_that_are_no_answers(reply: dict[str, Any], code: str, retryable: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([reply, {"text": "fine"}]))
    async with service(script, tmp_path) as adapter:
        talk = Conversation(adapter)
        with pytest.raises(LlmError) as caught:
            await talk.say("go")
        assert await talk.say("again") == "fine"
    assert (caught.value.code, caught.value.retryable) == (code, retryable)


def read(file: Path) -> bytes:
    return file.read_bytes()


def transcripts() -> Sequence[Any]:
    found = sorted((SHARED / "local/transcripts").glob("2*.response.http"))
    return [pytest.param(file, id=file.name.removesuffix(".response.http")) for file in found]


@pytest.mark.parametrize("transcript", transcripts())
async def test_responses_of_a_llama_server(transcript: Path) -> None:
    _, _, body = read(transcript).replace(b"\r\n", b"\n").partition(b"\n\n")
    answer = await Conversation(played([httpx.Response(200, content=body)])).ask()
    assert answer.finish is not None
    assert answer.finish.kind == ("tool-calls" if "tool-use" in transcript.name else "stop")
    assert answer.usage is not None
    assert answer.usage.cache_read_tokens
    (block,) = answer.content()
    if isinstance(block, ToolCallBlock):
        assert (block.name, json.loads(block.arguments)) == ("read_file", {"path": "notes.txt"})
    else:
        assert isinstance(block, Text)
        assert block.text


def events(*wires: dict[str, Any]) -> httpx.Response:
    body = "".join(f"event: {wire['type']}\ndata: {json.dumps(wire)}\n\n" for wire in wires)
    return httpx.Response(200, content=body.encode())


def message(*blocks: dict[str, Any], stop: str, tokens: int = 1) -> httpx.Response:
    """A message that comes block by block."""
    wires: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": tokens}}}]
    for index, block in enumerate(blocks):
        wires.append({"type": "content_block_start", "index": index, "content_block": block})
        wires.append({"type": "content_block_stop", "index": index})
    wires.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": tokens}})
    return events(*wires, {"type": "message_stop"})


def played(responses: list[httpx.Response], seen: list[Any] | None = None, **settings: Any) -> AnthropicAdapter:
    """An adapter that gets `responses`, in turn; the bodies it sends go to `seen`."""
    script = iter(responses)

    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(json.loads(request.content))
        return next(script)

    place = Place("house", "/v1/messages", "http://models.example", "sk-ant-12345678", key_header="x-api-key")
    return AnthropicAdapter(Provider(place, ServiceSettings(**settings)), httpx.MockTransport(answer))


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


async def test_paused_answer_is_taken_up_again() -> None:
    seen: list[Any] = []
    first = message({"type": "thinking", "thinking": "hm", "signature": "s"}, SEARCH, stop="pause_turn", tokens=3)
    then = message(FOUND, {"type": "text", "text": "found"}, stop="end_turn", tokens=4)
    talk = Conversation(played([first, then, message({"type": "text", "text": "more"}, stop="end_turn")], seen))

    assert await talk.say("go") == "found"
    assert await talk.say("on") == "more"

    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert [turn["role"] for turn in seen[1]["messages"]] == ["user", "assistant"]
    assert seen[1]["messages"][1]["content"] == [thought, SEARCH]
    assert seen[2]["messages"][1]["content"] == [thought, SEARCH, FOUND, {"type": "text", "text": "found"}]


async def test_usage_of_all_parts_is_summed_and_said_once() -> None:
    responses = [message(SEARCH, stop="pause_turn", tokens=3), message(FOUND, stop="end_turn", tokens=4)]
    answer = await Conversation(played(responses)).ask()
    assert answer.usage == TokenUsage(7, 7)
    assert answer.finish is not None
    assert answer.finish.kind == "stop"


@pytest.mark.parametrize(
    "failing",
    [
        httpx.Response(529, json={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    ],
    ids=["status", "event"],
)
async def test_usage_of_the_parts_before_a_failure_is_told(failing: httpx.Response) -> None:
    adapter = played([message(SEARCH, stop="pause_turn", tokens=3), failing])
    assembler = Assembler()
    stream = adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")

    async def read() -> None:
        async for chunk in stream:
            assembler.feed(chunk)

    with pytest.raises(LlmError) as caught:
        await read()
    assert caught.value.code == "OVERLOADED"
    assert assembler.usage == TokenUsage(3, 3)
    assert assembler.finish is None
    with pytest.raises(StopAsyncIteration):
        await stream.__anext__()


async def test_pauses_have_an_end() -> None:
    seen: list[Any] = []
    responses = [message(SEARCH, stop="pause_turn") for _ in range(3)]
    answer = await Conversation(played(responses, seen, pauses=2)).ask()
    assert len(seen) == 3
    assert answer.finish is not None
    assert answer.finish.kind == "pause"


@pytest.mark.parametrize(
    ("stop", "kind"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "max-tokens"),
        ("model_context_window_exceeded", "max-tokens"),
        ("refusal", "refusal"),
        ("something_new", "error"),
    ],
)
async def test_reasons_to_stop(stop: str, kind: str) -> None:
    answer = await Conversation(played([message({"type": "text", "text": "a"}, stop=stop)])).ask()
    assert answer.finish is not None
    assert answer.finish.kind == kind


BOUND = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block. It is bound to another place.",
    },
}


async def test_thoughts_that_are_not_taken_back_are_left_out() -> None:
    seen: list[Any] = []
    thinking = message(
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}, stop="end_turn"
    )
    fine = [message({"type": "text", "text": text}, stop="end_turn") for text in "bc"]
    talk = Conversation(played([thinking, httpx.Response(400, json=BOUND), *fine], seen))

    assert [await talk.say(word) for word in ("go", "on", "on")] == ["a", "b", "c"]

    assert ["thinking" in json.dumps(request) for request in seen] == [False, True, False, False]


async def test_refusal_for_another_reason_is_not_tried_again() -> None:
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "top_k: too large"}}
    thinking = message(
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}, stop="end_turn"
    )
    talk = Conversation(played([thinking, httpx.Response(400, json=refusal)]))
    await talk.say("go")
    with pytest.raises(LlmError, match="top_k"):
        await talk.say("on")


async def test_message_that_was_not_streamed() -> None:
    whole = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "1", "name": "work", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5},
    }
    answer = await Conversation(played([httpx.Response(200, json=whole)])).ask()
    assert answer.content() == (
        Reasoning("hm", "s", model="house/m"),
        Text("a"),
        ToolCallBlock("1", "work", '{"a":1}'),
    )
    assert answer.usage == TokenUsage(3, 4, 5)


async def test_halves_of_a_character_are_put_together() -> None:
    def delta(text: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}

    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    wires = (start, delta("a\ud83d"), delta("\ude42"), stop, {"type": "message_stop"})
    answer = await Conversation(played([events(*wires)])).ask()
    assert answer.text() == "a🙂"


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 0},
        {"choices": []},
        {"type": "message_start", "message": None},
    ],
)
async def test_data_that_cannot_be_understood(wire: dict[str, Any]) -> None:
    response = httpx.Response(200, content=b"data: " + json.dumps(wire).encode() + b"\n\n")
    with pytest.raises(LlmError) as caught:
        await Conversation(played([response])).ask()
    assert caught.value.code == "MALFORMED_RESPONSE"


async def test_take_ready_gives_what_came() -> None:
    adapter = played([message(SEARCH, stop="pause_turn"), message({"type": "text", "text": "a"}, stop="end_turn")])
    stream = adapter.stream(Request("house/m", (Message("user", "hi"),)), "m")
    chunks = [await anext(stream)]
    chunks += stream.take_ready()
    chunks += [chunk async for chunk in stream]
    assert [chunk.type for chunk in chunks] == [
        *("block-start", "block-end"),
        *("block-start", "text-delta", "block-end", "usage", "finish"),
    ]


async def test_headers() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(401, json={"error": {"type": "authentication_error", "message": "bad sk-ant-12345678"}})

    own = {"anthropic-version": "2023-06-01"}
    place = Place(
        "house", "/v1/messages", "http://models.example/x", "sk-ant-12345678", key_header="x-api-key", own_headers=own
    )
    adapter = AnthropicAdapter(Provider(place), httpx.MockTransport(answer))
    with pytest.raises(LlmError) as caught:
        await Conversation(adapter).ask()
    assert str(asked[0].url) == "http://models.example/x/v1/messages"
    assert asked[0].headers["x-api-key"] == "sk-ant-12345678"
    assert asked[0].headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked[0].headers
    assert caught.value.code == "AUTH"
    assert "sk-ant" not in str(caught.value)
    assert "sk-ant" not in repr(adapter)
