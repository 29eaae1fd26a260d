"""The provider of docs/writing-plugins.md: it works, alone and in a run, and fails as the page says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from dsh import LlmError, Message, Request
from dsh.llm.adapter import Adapter
from dsh.llm.assembler import Assembler

PAGE = (Path(__file__).parents[1] / "docs/writing-plugins.md").read_text(encoding="utf-8")
KEY = "house-0123456789"
GOOD: list[dict[str, Any]] = [{"say": "A cat"}, {"say": " and I."}, {"end": "quiet", "words": [7, 4]}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the page."""
    (code,) = re.findall(r"^```python\n# dsh_house\.py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "dsh_house.py"
    path.write_text(code)
    return path


@pytest.fixture
def house(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("dsh_house", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def events(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads)


async def ask(house: Any, answer: httpx.Response, *, environ: dict[str, str] | None = None) -> tuple[Assembler, Any]:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer

    environ = {"HOUSE_API_KEY": KEY} if environ is None else environ
    adapter: Adapter = house.HouseAdapter(house.HouseConfig(), environ, httpx.MockTransport(handler))
    assembler = Assembler()
    request = Request("house/attic", (Message("user", "who lives here?"),), "be brief", max_tokens=9)
    async for chunk in adapter.stream(request, "attic"):
        assembler.feed(chunk)
    await adapter.aclose()
    return assembler, seen[0]


async def test_an_answer(house: Any) -> None:
    answer, request = await ask(house, httpx.Response(200, content=events(*GOOD)))

    assert answer.text() == "A cat and I."
    assert answer.finish is not None
    assert answer.finish.kind == "stop"
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (7, 4)
    assert (str(request.url), request.headers["x-house-key"]) == ("https://models.house/say", KEY)
    assert json.loads(request.content) == {
        "model": "attic",
        "rules": "be brief",
        "said": [{"who": "user", "what": "who lives here?"}],
        "most": 9,
    }


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(401, json={"error": {"message": "who are you?"}}), "AUTH"),
        (httpx.Response(503, text="too many guests"), "OVERLOADED"),
        (httpx.Response(200, content=events(*GOOD[:2])), "STREAM_CLOSED"),
        (httpx.Response(200, content=events(GOOD[0], {"error": {"message": "the roof is on fire"}})), "SERVER"),
        (httpx.Response(200, content=b"data: {no json\n\n"), "MALFORMED_RESPONSE"),
        (httpx.Response(200, content=b"data: 7\n\n"), "MALFORMED_RESPONSE"),
        (httpx.Response(200, content=events(GOOD[2])), "EMPTY_RESPONSE"),
        (httpx.Response(200, content=b""), "EMPTY_RESPONSE"),
    ],
    ids=["key", "busy", "cut", "error inside", "no json", "no event", "says nothing", "nothing at all"],
)
async def test_what_goes_wrong(house: Any, answer: httpx.Response, code: str) -> None:
    with pytest.raises(LlmError) as caught:
        await ask(house, answer)
    assert caught.value.code == code
    assert KEY not in str(caught.value)


async def test_without_a_key(house: Any) -> None:
    with pytest.raises(LlmError, match="HOUSE_API_KEY"):
        await ask(house, httpx.Response(200), environ={})


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(events(*GOOD))

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_whole_run(file: Path, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}"
            env = {**os.environ, "DSH_HOME": str(tmp_path / "home"), "HOUSE_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}
            command = [sys.executable, "-m", "dsh", "-e", str(file), "-m", "house", "-p", "who lives here?"]
            done = subprocess.run(
                [*command, "--config", f"house.base_url={url}"], env=env, cwd=tmp_path, capture_output=True, text=True
            )
        finally:
            server.shutdown()
            thread.join()
    assert (done.returncode, done.stdout) == (0, "A cat and I.\n"), done.stderr
