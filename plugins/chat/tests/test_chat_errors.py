"""Recorded refusals of many services, over a connection."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from dsh_chat.adapter import ChatAdapter
from dsh_chat.providers import Provider

from dsh import LlmError, Message, Request

SHARED = Path(__file__).parents[3] / "../shared"
ERRORS = SHARED / "streams/errors"
SERVER = SHARED / "tools/fakesrv.py"
KEY = "sk-abcdefgh12345678"
CODES = {
    "auth": ("AUTH", False),
    "context_overflow": ("CONTEXT_OVERFLOW", False),
    "invalid_request": ("INVALID_REQUEST", False),
    "not_found": ("NOT_FOUND", False),
    "payment": ("QUOTA", False),
    "rate_limit": ("RATE_LIMIT", True),
    "server": ("SERVER", True),
    "tool_generation_failed": ("TOOL_USE_FAILED", True),
    "tool_history": ("INVALID_REQUEST", False),
}

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the recorded errors are not here")


def served(answer: dict[str, Any]) -> dict[str, Any]:
    framing = ("content-length", "content-encoding", "transfer-encoding", "connection")
    headers = {name: value for name, value in answer["headers"].items() if name.lower() not in framing}
    return {"status": answer["status"], "headers": headers, "body": answer["body"]}


async def test_recorded_errors_are_what_their_manifest_says(tmp_path: Path) -> None:
    files = sorted(ERRORS.glob("*.json"))
    answers = [json.loads(file.read_bytes()) for file in files]
    script = tmp_path / "script.json"
    script.write_text(json.dumps([served(answer) for answer in answers]))
    command = [sys.executable, str(SERVER), str(script), "--port", "0"]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    found: list[tuple[str, str, bool]] = []
    try:
        with trio.fail_after(60):
            url = bytes(await process.stdout.receive_some()).decode().strip()
            adapter = ChatAdapter(Provider("house", f"{url}/v1", KEY, "HOUSE_KEY"))
            for file in files:
                with pytest.raises(LlmError) as caught:
                    await anext(adapter.stream(Request("house/m", (Message("user", "hi"),)), "m"))
                found.append((file.name, caught.value.code, caught.value.retryable))
                assert KEY not in str(caught.value)
                assert str(caught.value).startswith("house")
            await adapter.aclose()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
    assert len(found) > 30
    assert found == [(file.name, *CODES[answer["kind"]]) for file, answer in zip(files, answers, strict=True)]
