"""Nothing is sent anywhere but to the service that was configured: every connection of a run is watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

Serving: TypeAlias = Callable[[dict[str, Any]], AbstractContextManager[str]]
WATCH = """\
import os, sys

def hook(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        what = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "urllib.Request"):
        what = arguments[:2]
    else:
        return
    with open(os.environ["WATCHED"], "a") as file:
        file.write(f"{event} {what!r}\\n")

sys.addaudithook(hook)
"""


def asks_for_a_tool_then_speaks() -> Callable[[BaseHTTPRequestHandler], tuple[int, str, bytes]]:
    call = {"index": 0, "id": "c", "function": {"name": "read", "arguments": '{"file_path":"a.txt"}'}}
    deltas: list[Any] = [({"tool_calls": [call]}, "tool_calls"), ({"content": "fine"}, "stop")]

    def answer(_: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        delta, finish = deltas.pop(0) if len(deltas) > 1 else deltas[0]
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        return 200, "text/event-stream", b"data: %s\n\n" % json.dumps(event).encode()

    return answer


@pytest.mark.parametrize(
    "arguments", [("-p", "read a.txt"), ("models", "house"), ("auth", "check", "house"), ("stats",), ("doctor",)]
)
def test_only_the_service_is_asked(tmp_path: Path, serving: Serving, arguments: tuple[str, ...]) -> None:
    home, work, watch = tmp_path / "home", tmp_path / "work", tmp_path / "watch"
    for folder in (home, work, watch):
        folder.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    (work / "a.txt").write_text("here")
    routes = {"POST /v1/chat/completions": asks_for_a_tool_then_speaks(), "GET /v1/models": {"data": [{"id": "m"}]}}
    with serving(routes) as url:
        settings = f'model = "house/m"\n[providers.house]\nbase_url = "{url}/v1"\nkey_env = "HOUSE_KEY"\n'
        (home / "config.toml").write_text(settings)
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        watched = tmp_path / "watched"
        watched.touch()
        mine = {"DSH_HOME": str(home), "HOME": str(home), "HOUSE_KEY": "sk-0123456789abcdef", "WATCHED": str(watched)}
        path = os.pathsep.join(filter(None, (str(watch), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", "dsh", *arguments]
        ran = subprocess.run(
            command, env={**kept, **mine, "PYTHONPATH": path}, cwd=work, stdin=subprocess.DEVNULL, capture_output=True
        )
        assert ran.returncode == 0, ran.stderr.decode()
        port = urlsplit(url).port
    asked = set(watched.read_text().splitlines())
    allowed = {f"socket.connect ('127.0.0.1', {port})", f"socket.getaddrinfo ('127.0.0.1', {port})"}
    assert asked == (set() if arguments[0] in ("stats", "doctor") else allowed)
