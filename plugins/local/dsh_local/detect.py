"""Model servers that run already: which one answers, and which of its models to take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import trio
from attrs import frozen

__all__ = ["LLAMA_CPP", "OLLAMA", "Found", "base_url", "choose", "find", "models_of"]

LLAMA_CPP = "http://127.0.0.1:8080"
OLLAMA = "http://127.0.0.1:11434"
PROBE = 0.2  # seconds


@frozen
class Found:
    """A server that speaks chat completions.

    Attributes:
        name: of its kind, for people.
        base_url: what ``/chat/completions`` follows.
        models: what it lists; at least one.
    """

    name: str
    base_url: str
    models: tuple[str, ...]


def base_url(url: str) -> str:
    """`url` with the version that chat completions stand under: ``http://host:1234`` becomes ``http://host:1234/v1``."""
    url = url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def choose(models: Sequence[str], wanted: str) -> str:
    """The model of a server to take for `wanted`: itself, else one made for code, else the first."""
    for name in (wanted, f"{wanted}:latest"):
        if name in models:
            return name
    return next((name for name in models if "coder" in name.lower()), models[0])


async def find(*, llama_cpp: str = LLAMA_CPP, ollama: str = OLLAMA, timeout: float = PROBE) -> Found | None:
    """Ask the usual addresses at once; llama.cpp goes before Ollama.  Takes `timeout` seconds at most.

    Somebody else's program may listen there: only an answer in the servers' own shape counts.
    """
    found: dict[str, Found] = {}

    async def probe(client: httpx.AsyncClient, kind: str, url: str) -> None:
        models = await (_llama_cpp(client, url) if kind == "llama.cpp" else _ollama(client, url))
        if models:
            found[kind] = Found(kind, base_url(url), tuple(models))

    async with httpx.AsyncClient(trust_env=False, timeout=timeout) as client:
        with trio.move_on_after(timeout):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(probe, client, "llama.cpp", llama_cpp)
                nursery.start_soon(probe, client, "Ollama", ollama)
    return found.get("llama.cpp") or found.get("Ollama")


async def models_of(base: str, *, timeout: float = 5.0) -> tuple[str, ...] | None:
    """The models that the server at `base` lists; None when it does not answer, or not as it should."""
    async with httpx.AsyncClient(trust_env=False, timeout=timeout) as client:
        answer = await _get(client, f"{base}/models")
        return tuple(_ids(answer.json(), "data", "id")) if answer is not None else None


async def _llama_cpp(client: httpx.AsyncClient, url: str) -> list[str]:
    answer = await _get(client, f"{url}/v1/models")
    if answer is None:
        return []
    owners = {entry.get("owned_by") for entry in _entries(answer.json(), "data")}
    if answer.headers.get("server") != "llama.cpp" and "llamacpp" not in owners:
        return []
    return _ids(answer.json(), "data", "id")


async def _ollama(client: httpx.AsyncClient, url: str) -> list[str]:
    answer = await _get(client, f"{url}/api/tags")
    if answer is None:
        return []
    return [name for name in _ids(answer.json(), "models", "name") if "embed" not in name.lower()]


async def _get(client: httpx.AsyncClient, url: str) -> httpx.Response | None:
    try:
        answer = await client.get(url)
        answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return None
    return answer if answer.is_success else None


def _entries(body: Any, key: str) -> list[dict[str, Any]]:
    entries = body.get(key) if isinstance(body, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _ids(body: Any, key: str, name: str) -> list[str]:
    return [entry[name] for entry in _entries(body, key) if isinstance(entry.get(name), str) and entry[name]]
