"""Deltas through adapter, log and disk against a bare httpx reader of the same stream, and the wait for the first one.

python bench/streams.py [ROUNDS]

A server of plain sockets, in a process of its own, sends one recorded answer: 20,000 deltas of eight bytes, each in a
chunk of HTTP of its own.  Both readers parse every event.  dsh runs as a program that embeds it, with every bundled
plugin but the local model, and the session is stored.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DELTAS = 20_000
SHORT = 5
FIRST_TIMES = 100
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


# -- the server


def recorded(deltas: int) -> bytes:
    """The response, as it goes over the wire."""
    events: list[Any] = [{"choices": [{"index": 0, "delta": {"content": f"{n:7} "}}]} for n in range(deltas)]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": deltas}})
    lines = [*(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), b"data: [DONE]\n\n"]
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


def serve(deltas: int) -> None:
    """Answer every request on a free port, which is printed."""
    answer = recorded(deltas)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=answer_all, args=(listener.accept()[0], answer), daemon=True).start()


def answer_all(connection: socket.socket, answer: bytes) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked = b""
    with connection:
        while data := connection.recv(1 << 16):
            asked += data
            head, end, body = asked.partition(b"\r\n\r\n")
            lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if end and len(body) >= lengths[0]:
                asked = b""
                connection.sendall(answer)


# -- the readers; each prints seconds for the whole, CPU seconds, deltas, and the waits for the first ones


def report(whole: float, used: float, deltas: int, firsts: Sequence[float]) -> None:
    print(json.dumps({"whole": whole, "cpu": used, "deltas": deltas, "firsts": list(firsts)}))


def bare(long: str, short: str) -> None:
    import httpx
    import orjson
    import trio

    async def read(client: httpx.AsyncClient, url: str) -> tuple[float, int]:
        began, first, found = time.perf_counter(), 0.0, 0
        async with client.stream("POST", f"{url}/chat/completions", json=BODY) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    for choice in orjson.loads(line[6:])["choices"]:
                        if choice["delta"].get("content"):
                            first = first or time.perf_counter() - began
                            found += 1
        return first, found

    async def main() -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            await read(client, short)
            began, used = time.perf_counter(), time.process_time()
            _, found = await read(client, long)
            whole, used = time.perf_counter() - began, time.process_time() - used
            report(whole, used, found, [(await read(client, short))[0] for _ in range(FIRST_TIMES)])

    trio.run(main)


def through_dsh(long: str, short: str) -> None:
    import trio

    from dsh import AgentOptions, hookimpl, open_harness
    from dsh.config import Config, PluginsConfig
    from dsh.llm.chunks import TextDelta
    from dsh.session.events import AssistantChunk, EndReason

    class Clock:
        """Notes when the first delta of an answer is in the log, and how many there are."""

        first = 0.0
        found = 0

        @hookimpl
        def session_event(self, event: Any) -> None:
            if isinstance(event.data, AssistantChunk) and isinstance(event.data.chunk, TextDelta):
                self.first = self.first or time.perf_counter()
                self.found += 1

    async def main(home: Path) -> None:
        tables = {"providers": {"long": {"base_url": long}, "short": {"base_url": short}}}
        config = Config(plugins=PluginsConfig(disabled=("local",)), tables=tables)
        clock = Clock()
        async with open_harness(config, plugins={"clock": clock}, home=home) as harness:

            async def ask(model: str) -> float:
                handle = harness.create_agent(cwd=str(home), options=AgentOptions(model=model))
                clock.first, clock.found = 0.0, 0
                began = time.perf_counter()
                result = await handle.agent.run("hi")
                assert result.reason == EndReason("completed"), result
                first = clock.first - began
                await handle.dispose()
                return first

            await ask("short/m")
            began, used = time.perf_counter(), time.process_time()
            await ask("long/m")
            whole, used, found = time.perf_counter() - began, time.process_time() - used, clock.found
            firsts = [await ask("short/m") for _ in range(FIRST_TIMES)]
        report(whole, used, found, firsts)

    with tempfile.TemporaryDirectory() as home:
        trio.run(main, Path(home))
        stored = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
        assert stored > 8 * DELTAS, f"nothing was stored: {stored} bytes"


# -- all together


def started(*arguments: str) -> subprocess.Popen[str]:
    names = ("http_proxy", "https_proxy", "all_proxy")
    env = {name: value for name, value in os.environ.items() if name.lower() not in names}
    return subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, env=env)


def main(rounds: int) -> None:
    servers = [started("serve", str(deltas)) for deltas in (DELTAS, SHORT)]
    try:
        urls = [f"http://127.0.0.1:{int(server.stdout.readline())}" for server in servers if server.stdout is not None]
        found: dict[str, list[dict[str, Any]]] = {"bare": [], "dsh": []}
        for _ in range(rounds):
            for reader, runs in found.items():
                said = started(reader, *urls).communicate()[0]
                runs.append(json.loads(said))
                assert runs[-1]["deltas"] == DELTAS, runs[-1]["deltas"]
    finally:
        for server in servers:
            server.kill()
            server.wait()
    show(found)


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    """A line each, and how they compare."""
    rates, costs, firsts = {}, {}, {}
    for reader, runs in found.items():
        rates[reader] = DELTAS / statistics.median(run["whole"] for run in runs)
        costs[reader] = statistics.median(run["cpu"] for run in runs) / DELTAS * 1e6
        firsts[reader] = statistics.median(first for run in runs for first in run["firsts"]) * 1000
        many = f"{rates[reader]:10,.0f} deltas/s {costs[reader]:8.1f} µs CPU a delta"
        print(f"{reader:5} {many} {firsts[reader]:8.2f} ms to the first")
    more = firsts["dsh"] - firsts["bare"]
    print(f"dsh takes {rates['dsh'] / rates['bare']:.2f} times as many deltas a second as bare httpx,")
    print(f"with {costs['dsh'] / costs['bare']:.2f} times its CPU; the first one comes {more:.2f} ms later")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", deltas]:
            serve(int(deltas))
        case ["bare", long, short]:
            bare(long, short)
        case ["dsh", long, short]:
            through_dsh(long, short)
        case rest:
            main(int(rest[0]) if rest else 3)
