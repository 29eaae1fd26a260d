"""Finding model servers that run already."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
from dsh_local.detect import Found, base_url, choose, find, models_of

LLAMA = {"object": "list", "data": [{"id": "qwen3-coder", "object": "model", "owned_by": "llamacpp"}]}
OLLAMA = {"models": [{"name": "nomic-embed-text:latest"}, {"name": "llama3.2:1b"}, {"name": "qwen2.5-coder:3b"}]}
PATIENT = 20.0  # seconds; a busy machine answers late
NOBODY = "http://127.0.0.1:9"


async def serve(nursery: trio.Nursery, answers: Mapping[str, Any], *, status: str = "200 OK", head: str = "") -> str:
    """A server that answers these paths with JSON, and others with 404; returns its URL."""

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive_some()
            path = request.split(b" ")[1].decode()
            if answers.get(path) == "hang":
                await trio.sleep_forever()
            body = json.dumps(answers.get(path)).encode()
            line = status if path in answers else "404 Not Found"
            await stream.send_all(
                f"HTTP/1.1 {line}\r\n{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
            )

    listeners = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    return f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"


async def test_a_llama_cpp_server_is_found(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/v1/models": LLAMA})

    found = await find(llama_cpp=url, ollama=NOBODY, timeout=PATIENT)

    assert found == Found("llama.cpp", f"{url}/v1", ("qwen3-coder",))


async def test_an_ollama_server_is_found_without_its_embedding_models(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/api/tags": OLLAMA})

    found = await find(llama_cpp=NOBODY, ollama=url, timeout=PATIENT)

    assert found == Found("Ollama", f"{url}/v1", ("llama3.2:1b", "qwen2.5-coder:3b"))


async def test_llama_cpp_goes_before_ollama(nursery: trio.Nursery) -> None:
    llama = await serve(nursery, {"/v1/models": LLAMA})
    ollama = await serve(nursery, {"/api/tags": OLLAMA})

    found = await find(llama_cpp=llama, ollama=ollama, timeout=PATIENT)

    assert found is not None
    assert found.name == "llama.cpp"


@pytest.mark.parametrize(
    "answer",
    [
        {"object": "list", "data": [{"id": "gpt", "owned_by": "somebody"}]},
        {"data": "none"},
        ["models"],
        "text",
        {"object": "list", "data": []},
    ],
)
async def test_other_programs_at_the_address_do_not_count(nursery: trio.Nursery, answer: Any) -> None:
    url = await serve(nursery, {"/v1/models": answer, "/api/tags": answer})

    assert await find(llama_cpp=url, ollama=url, timeout=PATIENT) is None


async def test_a_server_that_wants_a_key_does_not_count(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/v1/models": LLAMA}, status="401 Unauthorized", head="server: llama.cpp\r\n")

    assert await find(llama_cpp=url, ollama=NOBODY, timeout=PATIENT) is None


async def test_a_server_that_hangs_is_left_alone_in_time(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/v1/models": "hang", "/api/tags": "hang"})

    assert await find(llama_cpp=url, ollama=url, timeout=0.2) is None


async def test_what_was_found_before_the_deadline_is_kept(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/v1/models": "hang", "/api/tags": OLLAMA})

    found = await find(llama_cpp=url, ollama=url, timeout=3.0)

    assert found is not None
    assert found.name == "Ollama"


async def test_the_models_of_a_named_server_are_listed(nursery: trio.Nursery) -> None:
    url = await serve(nursery, {"/v1/models": LLAMA})

    assert await models_of(f"{url}/v1", timeout=PATIENT) == ("qwen3-coder",)
    assert await models_of(NOBODY, timeout=PATIENT) is None


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("llama3.2", "llama3.2:latest"),
        ("plain", "plain"),
        ("qwen2.5-coder-0.5b", "a-coder"),
    ],
)
def test_the_wanted_model_is_taken_else_one_for_code(wanted: str, taken: str) -> None:
    assert choose(["plain", "llama3.2:latest", "a-coder"], wanted) == taken


def test_without_a_model_for_code_the_first_is_taken() -> None:
    assert choose(["one", "two"], "three") == "one"


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_the_version_is_part_of_the_base_url(url: str) -> None:
    assert base_url(url) == "http://h:1/v1"
