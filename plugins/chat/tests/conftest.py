"""A server that plays scripts, for the tests of this plugin."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest
import trio
from attrs import define, field

Step: TypeAlias = "bytes | float | str | Callable[[], Awaitable[Any]]"
"""Of a response: bytes to send, seconds to wait, ``"close"``, ``"reset"``, or something to await."""


@define
class Server:
    """Plays one script a request, and remembers what it was asked.

    Attributes:
        scripts: one for each request; the last is played again.
        requests: head and body of each request.
        connections: how many were made.
        broken: how many ended before the script did.
    """

    port: int
    scripts: list[Sequence[Step]] = field(factory=list)
    requests: list[tuple[bytes, bytes]] = field(factory=list)
    connections: int = 0
    broken: int = 0
    changed: trio.Event = field(factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        rest = b""
        try:
            while True:
                asked = await self.read_request(stream, rest)
                if asked is None:
                    return
                head, body, rest = asked
                self.requests.append((head, body))
                script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
                if not await self.play(stream, script):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.broken += 1
        finally:
            self.changed.set()
            self.changed = trio.Event()
            stream.socket.close()

    async def read_request(self, stream: trio.SocketStream, rest: bytes) -> tuple[bytes, bytes, bytes] | None:
        while b"\r\n\r\n" not in rest:
            data = await stream.receive_some()
            if not data:
                return None
            rest += data
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(rest) < length:
            data = await stream.receive_some()
            if not data:
                return None
            rest += data
        return head, rest[:length], rest[length:]

    async def play(self, stream: trio.SocketStream, script: Sequence[Step]) -> bool:
        for step in script:
            if isinstance(step, bytes):
                await stream.send_all(step)
            elif isinstance(step, float):
                await trio.sleep(step)
            elif step == "close":
                return False
            elif step == "reset":
                linger = b"\x01\0\0\0\0\0\0\0"
                stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
                return False
            else:
                assert not isinstance(step, str)
                await step()
        return True


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[Server]:
    """A `Server` that listens."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made = Server(listeners[0].socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, made.handle, listeners)
    yield made
    for listener in listeners:
        listener.socket.close()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment decides where requests go."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
