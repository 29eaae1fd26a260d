"""What stored sessions cost: resuming a long one, listing many, writing events; for both stores.

    python bench/sessions.py [--events 100000] [--sessions 1000 10000] [--folder DIR]

Each row is CPU time of this process, the least of several rounds, as a ratio to a floor that is
measured in the same run: for resuming, reading a file with the same lines and `orjson.loads` of each;
for listing, opening as many files and `orjson.loads` of their first lines; for writing, one
`write` of an encoded event each.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orjson
from dsh_jsonl.files import SessionFiles
from dsh_sqlite.database import Database
from dsh_sqlite.store import SessionTable

from dsh.hooks import PluginManager
from dsh.hookspecs import Hooks
from dsh.jsonvalue import dumps
from dsh.session import SessionQuery, Sessions, SessionStore
from dsh.session.codec import default_codec

ROUNDS = 3


def event(seq: int, data: dict[str, Any], kind: str, **more: Any) -> bytes:
    return dumps({"type": kind, "seq": seq, "time": 1_796_048_292_416 + seq, "data": data, **more})


def conversation(id: str, cwd: str, size: int) -> list[bytes]:
    """Header and `size` events: turns of one step, of which most events are pieces of the answer."""
    lines = [dumps({"type": "session", "version": 0, "id": id, "createdAt": 1_796_048_292_416, "cwd": cwd})]
    turn = 0

    def add(kind: str, data: dict[str, Any], **more: Any) -> None:
        lines.append(event(len(lines) - 1, data, kind, **more))

    while len(lines) + 12 <= size + 1 or turn == 0:
        turn += 1
        at = {"turn": turn, "step": 1}
        add("turn/start", {"turn": turn, "trigger": {"kind": "message", "source": {"kind": "user"}}})
        text = {"type": "text", "text": f"message {turn} of {id}, a little longer than nothing"}
        add("user/message", {"content": [text], "source": {"kind": "user"}}, surfaceOp="append")
        add("step/start", at)
        for n in range(max(1, min(40, size - len(lines) - 3))):
            add("assistant/chunk", {**at, "chunk": {"type": "text-delta", "index": 0, "text": f" piece {n}"}})
        answer = {"type": "text", "text": " piece" * 40}
        add("assistant/message", {**at, "content": [answer]}, surfaceOp="append")
        add("step/end", at)
        add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
    return lines


def cpu(function: Callable[[], Any], rounds: int = ROUNDS) -> float:
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        kept = function()
        best = min(best, time.process_time() - start)
        del kept
    return best


def store_of(make: Callable[[Sessions], SessionStore]) -> SessionStore:
    manager = PluginManager()
    manager.add_hookspecs(Hooks)
    sessions = Sessions(cast(Hooks, manager.relay))
    store = make(sessions)
    manager.register(store, "store")
    return store


def put(folder: Path, database: Database, sessions: list[list[bytes]]) -> None:
    """Store conversations in both ways."""
    codec = default_codec()
    connection = database.writing()
    connection.execute("PRAGMA synchronous = OFF")
    for lines in sessions:
        header = codec.decode_header(lines[0])
        store = SessionFiles(folder / "sessions", Sessions(cast(Any, None), codec))
        session = store.sessions.prepare(header.id, cwd=header.cwd, created_at=header.created_at)
        path = store.new(session).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join((*lines, b"")))
        database.add(header, header.id, lines[1:])


def resume(store: SessionStore, id: str) -> Any:
    found = store.load(id)
    assert found is not None
    writer, stored = found
    writer.close()
    return store.sessions.prepare(id, seed=stored.events, cwd=stored.header.cwd)


def floor_resume(path: Path) -> list[Any]:
    return [orjson.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def floor_list(paths: list[Path]) -> list[Any]:
    found = []
    for path in paths:
        with open(path, "rb") as stream:
            found.append(orjson.loads(stream.readline()))
    return found


def row(what: str, seconds: float, floor: float) -> None:
    print(f"{what:<44} {seconds * 1000:9.1f} ms   {seconds / floor:5.2f} x floor ({floor * 1000:.1f} ms)")


def bench_resume(folder: Path, size: int) -> None:
    database = Database(folder / "sessions.db")
    put(folder, database, [conversation("long", "/home/me/project", size)])
    database.close()
    [path] = (folder / "sessions").glob("*/long.jsonl")
    floor = cpu(lambda: floor_resume(path))
    for name, make in stores(folder):
        store = store_of(make)
        row(f"resume of {size} events, {name}", cpu(lambda store=store: resume(store, "long")), floor)


def bench_list(folder: Path, count: int) -> None:
    database = Database(folder / "sessions.db")
    put(folder, database, [conversation(f"s{n:06}", f"/home/me/project-{n % 20}", 20) for n in range(count)])
    database.close()
    paths = list((folder / "sessions").glob("*/*.jsonl"))
    floor = cpu(lambda: floor_list(paths))
    queries = {
        "all": SessionQuery(),
        "a directory's": SessionQuery(cwd="/home/me/project-3"),
        "the last": SessionQuery(limit=1, children=False),
    }
    for name, make in stores(folder):
        store = store_of(make)
        row(f"first list of {count}, {name}", cpu(lambda store=store: store.scan(SessionQuery()), 1), floor)
        for what, query in queries.items():
            row(f"list of {count}, {what}, {name}", cpu(lambda q=query, store=store: store.scan(q)), floor)


def bench_write(folder: Path, size: int) -> None:
    lines = conversation("written", "/home/me/project", size)

    def floor() -> None:
        with open(folder / "floor", "ab", buffering=0) as stream:
            for line in lines[1:]:
                stream.write(line + b"\n")

    floor_seconds = cpu(floor)
    for name, make in stores(folder):
        store = store_of(make)
        numbers = iter(range(ROUNDS))

        def write(store: SessionStore = store, numbers: Any = numbers) -> None:
            writer = store.new(store.sessions.prepare(f"written {next(numbers)}", cwd="/work"))
            for line in lines[1:]:
                writer.add(line)
            writer.close()

        row(f"writing {size} events, {name}", cpu(write), floor_seconds)
        store.close()


def stores(folder: Path) -> list[tuple[str, Callable[[Sessions], SessionStore]]]:
    return [
        ("jsonl", lambda sessions: SessionFiles(folder / "sessions", sessions)),
        ("sqlite", lambda sessions: SessionTable(folder / "sessions.db", sessions)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--folder", type=Path, help="where to put the sessions for the time being")
    options = parser.parse_args()
    jobs: list[tuple[Callable[[Path, int], None], int]] = [(bench_resume, options.events), (bench_write, 10_000)]
    jobs += [(bench_list, count) for count in options.sessions]
    for job, size in jobs:
        folder = Path(tempfile.mkdtemp(dir=options.folder))
        try:
            job(folder, size)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
