"""Conversations with a scripted service that is as strict as the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from dsh_chat.adapter import ChatAdapter
from dsh_chat.dialect import Dialect
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request, Text, ToolCallBlock, ToolResultBlock
from dsh.llm.assembler import Assembler

SHARED = Path(__file__).parents[3] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
SCRIPTS = SHARED / "bugs/scripts"
THINKING = Dialect(send_reasoning="always")

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted service is not here")


@asynccontextmanager
async def service(
    script: Path, tmp_path: Path, *options: str, dialect: Dialect | None = None
) -> AsyncIterator[ChatAdapter]:
    """An adapter for a service that plays `script`; what it is sent goes to ``sent.jsonl``."""
    log = tmp_path / "sent.jsonl"
    command = [sys.executable, str(SERVER), str(script), "--port", "0", "--log", str(log), *options]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        with trio.fail_after(30):
            url = bytes(await process.stdout.receive_some()).decode().strip()
        adapter = ChatAdapter(Provider("house", f"{url}/v1", dialect=dialect or Dialect()))
        yield adapter
        await adapter.aclose()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


def sent(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text(encoding="utf-8").splitlines()]


class Conversation:
    """The least of a loop: asks, answers calls with ``ok``, and makes ids unique."""

    def __init__(self, adapter: ChatAdapter) -> None:
        self.adapter = adapter
        self.messages: list[Message] = []
        self.calls: list[ToolCallBlock] = []

    async def ask(self) -> Assembler:
        assembler = Assembler()
        async for chunk in self.adapter.stream(Request("house/m", tuple(self.messages)), "m"):
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


DONE_SCRIPTS = {
    "T01": [("shell", '{"command": "touch SHOULD_NOT_EXIST')],
    "T02": [("read", "")],
    "T03": [("noargs", "")],
    "T04": [("shell", '{"command": "echo one"}'), ("shell", '{"command": "echo two"}')],
    "T05": [("shell", '{"command": "echo one >> log"}'), ("shell", '{"command": "echo two >> log"}')],
    "T06": [("shell", '{"command": "echo one"}'), ("shell", '{"command": "echo two"}')],
    "T07": [("shell", '{"command": "echo one"}'), ("shell", '{"command": "echo two"}')],
    "T08": [("shell", '{"command": "echo one"}')],
    "T10": None,
    "T11": None,
    "T13": None,
    "T14": None,
    "T16": [("square_root", "{}")],
    "S01": None,
    "R01": None,
    "R05": None,
}


@pytest.mark.parametrize(("name", "calls"), DONE_SCRIPTS.items(), ids=list(DONE_SCRIPTS))
async def test_calls_are_read_and_the_next_request_is_accepted(
    name: str, calls: list[tuple[str, str]] | None, tmp_path: Path
) -> None:
    async with service(SCRIPTS / f"{name}.json", tmp_path, "--split", "11", dialect=THINKING) as adapter:
        talk = Conversation(adapter)
        answer = await talk.say("go")

    assert answer in ("done", "a")
    assert [request["refused"] for request in sent(tmp_path)] == [None, None]
    assert talk.calls
    if calls is not None:
        assert [(call.name, call.arguments) for call in talk.calls] == calls


@pytest.mark.parametrize("split", ["1", "3", "1000"])
async def test_characters_cut_by_the_network_stay_whole(split: str, tmp_path: Path) -> None:
    async with service(SCRIPTS / "S02.json", tmp_path, "--split", split) as adapter:
        talk = Conversation(adapter)
        assert await talk.say("go") == "写好了 🙂"
    assert json.loads(talk.calls[0].arguments)["command"] == "printf '你好🙂' > 文件.txt"


async def test_odd_spellings_of_the_stream(tmp_path: Path) -> None:
    async with service(SCRIPTS / "S04.json", tmp_path, "--split", "1") as adapter:
        assert await Conversation(adapter).say("go") == "alpha beta"


@pytest.mark.parametrize(
    ("name", "code", "text", "retryable"),
    [
        ("S03", "STREAM_CLOSED", "", True),
        ("S05", "SERVER", "Internal server error", True),
        ("S06", "SERVER", "Provider disconnected", True),
        ("S07", "STREAM_CLOSED", "", True),
        ("S08", "STREAM_CLOSED", "", True),
        ("S10", "STREAM_CLOSED", "", True),
        ("S11", "EMPTY_RESPONSE", "", True),
        ("S12", "MALFORMED_RESPONSE", "", False),
    ],
)
async def test_answers_that_are_none(name: str, code: str, text: str, retryable: bool, tmp_path: Path) -> None:
    async with service(SCRIPTS / f"{name}.json", tmp_path) as adapter:
        talk = Conversation(adapter)
        with pytest.raises(LlmError) as caught:
            await talk.say("go")
        if name not in ("S11", "S12"):
            talk.messages.clear()
            assert await talk.say("again") in ("done", "recovered")

    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert text in str(caught.value)


async def test_empty_answers_leave_nothing_in_the_history(tmp_path: Path) -> None:
    async with service(SCRIPTS / "S11.json", tmp_path) as adapter:
        talk = Conversation(adapter)
        for _ in range(2):
            with pytest.raises(LlmError, match="empty"):
                await talk.say("go")
            talk.messages.append(Message("assistant", []))
        assert await talk.say("go") == "hello"
    assert [message["role"] for message in sent(tmp_path)[2]["body"]["messages"]] == ["user"] * 3


@pytest.mark.parametrize(("name", "prompts"), [("R02", 2), ("R03", 2), ("R06", 2)])
async def test_thoughts_go_back_on_every_message(name: str, prompts: int, tmp_path: Path) -> None:
    async with service(SCRIPTS / f"{name}.json", tmp_path, dialect=THINKING) as adapter:
        talk = Conversation(adapter)
        for n in range(prompts):
            await talk.say(f"prompt {n}")
    assert all(request["refused"] is None for request in sent(tmp_path))


async def test_thoughts_do_not_go_to_services_that_want_none(tmp_path: Path) -> None:
    async with service(SCRIPTS / "R04.json", tmp_path) as adapter:
        talk = Conversation(adapter)
        await talk.say("one")
        await talk.say("two")
    assert "reasoning_content" not in json.dumps(sent(tmp_path)[1])


async def test_call_cut_by_the_limit_says_so(tmp_path: Path) -> None:
    async with service(SCRIPTS / "L01.json", tmp_path) as adapter:
        talk = Conversation(adapter)
        talk.messages.append(Message("user", "go"))
        answer = await talk.ask()
    assert answer.finish is not None
    assert answer.finish.kind == "max-tokens"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"status": 429, "headers": {"retry-after": "2"}, "body": '{"error":{"message":"slow"}}'}, "RATE_LIMIT"),
        ({"status": 503, "body": '{"error":{"message":"Loading model"}}'}, "OVERLOADED"),
        ({"status": 200, "body": '{"error":{"message":"no"}}'}, "SERVER"),
        ({"status": 200, "body": "<html><body>Welcome</body></html>"}, "MALFORMED_RESPONSE"),
        ({"status": 200, "body": ""}, "EMPTY_RESPONSE"),
    ],
)
async def test_responses_that_are_no_streams(reply: dict[str, Any], code: str, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([reply, {"text": "fine"}]))
    async with service(script, tmp_path) as adapter:
        talk = Conversation(adapter)
        with pytest.raises(LlmError) as caught:
            await talk.say("go")
        assert await talk.say("again") == "fine"
    assert caught.value.code == code


async def test_whole_answer_in_place_of_a_stream(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "in one piece"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"status": 200, "body": json.dumps(whole)}]))
    async with service(script, tmp_path) as adapter:
        assert await Conversation(adapter).say("go") == "in one piece"


def transcripts() -> Sequence[Any]:
    found = sorted((SHARED / "local/transcripts").glob("[01]*.response.http"))
    return [pytest.param(file, id=file.name.removesuffix(".response.http")) for file in found]


def response(transcript: Path) -> bytes:
    """What the server sent, with the framing that the transcript lost."""
    head, _, body = transcript.read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    framing = (b"transfer-encoding", b"content-length", b"connection")
    kept = [line for line in head.split(b"\n") if not line.lower().startswith(framing)]
    return b"\r\n".join([*kept, b"Connection: close", b"", body])


@pytest.mark.parametrize("transcript", transcripts())
async def test_responses_of_a_llama_server(transcript: Path, nursery: trio.Nursery) -> None:
    recorded = response(transcript)

    async def play(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(recorded)
        await stream.aclose()

    listeners = await nursery.start(trio.serve_tcp, play, 0)
    talk = Conversation(ChatAdapter(Provider("house", f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")))
    talk.messages.append(Message("user", "go"))
    name = transcript.name
    if "error" in name or "503" in name:
        with pytest.raises(LlmError) as caught:
            await talk.ask()
        wanted = {"00": "OVERLOADED", "08": "CONTEXT_OVERFLOW", "09": "INVALID_REQUEST", "13": "SERVER"}
        assert caught.value.code == wanted[name[:2]]
        return
    answer = await talk.ask()
    assert answer.finish is not None
    assert answer.finish.kind != "error"
    assert answer.content()
    assert answer.usage is not None
