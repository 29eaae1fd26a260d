"""Conversations on a terminal: what a token of a long answer costs at its end, and how late keys are echoed in a flood.

python bench/terminal.py [--tokens 50000] [--keys 100]

It runs dsh in a pseudo-terminal, with a model that plays a script; no service is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import json, os, time
import trio
from dsh import hookimpl
from dsh.llm.chunks import BlockEnd, BlockStart, Finish, TextDelta, Usage
from dsh.llm.scripted import ScriptedModel, call, text
from dsh.messages import FinishReason, Text, TokenUsage

TOKENS = int(os.environ["BENCH_TOKENS"])
MARKS = {round(TOKENS * share): share for share in (0.02, 0.12, 0.9, 1.0)}

def words():
    for number in range(1, TOKENS + 1):
        if number % 400 == 0:
            yield "\\n\\n```python\\nprint(1)\\n```\\n\\n"
        elif number % 80 == 0:
            yield ".\\n\\n"
        elif number % 90 == 0:
            yield " **bold** `code`"
        else:
            yield " word"

class Long(ScriptedModel):
    async def stream(self, request, model):
        found = {}
        yield BlockStart(0, "text")
        parts = []
        for number, word in enumerate(words(), 1):
            parts.append(word)
            yield TextDelta(0, word)
            if number % 25 == 0:
                await trio.sleep(0.004)
            if number in MARKS:
                found[MARKS[number]] = [number, time.process_time()]
        yield BlockEnd(0, Text("".join(parts)))
        yield Usage(TokenUsage(10, TOKENS))
        yield Finish(FinishReason("stop"))
        with open(os.environ["BENCH_OUT"], "w") as out:
            json.dump(list(found.values()), out)

@hookimpl
def llm_adapters(adapters):
    command = os.environ.get("BENCH_COMMAND")
    if command:
        adapters.add("bench", ScriptedModel(call("bash", {"command": command}), text("done"), provider="bench"))
    else:
        adapters.add("bench", Long(provider="bench"))
"""


class Run:
    """dsh in a pseudo-terminal."""

    def __init__(self, folder: Path, **environ: str) -> None:
        model = folder / "bench_model.py"
        model.write_text(MODEL)
        flags = ["-m", "bench/model", "-e", str(model), "--permission-mode", "bypass", "-s", "danger-full-access"]
        env = {**os.environ, "TERM": "xterm-256color", "DSH_HOME": str(folder / "home"), **environ}
        env.pop("NO_COLOR", None)
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(sys.executable, [sys.executable, "-m", "dsh", *flags], env)
        self.until(b"lists commands")

    def read(self, seconds: float) -> bytes:
        """What comes in that time."""
        if not select.select([self.master], [], [], seconds)[0]:
            return b""
        data = os.read(self.master, 65536)
        if b"\x1b[6n" in data:
            os.write(self.master, b"\x1b[1;1R")
        self.seen = (self.seen + data)[-200_000:]
        return data

    def until(self, text: bytes, seconds: float = 600) -> None:
        """Read until it is shown."""
        end = time.monotonic() + seconds
        while text not in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]", b"", self.seen):
            if time.monotonic() > end:
                raise SystemExit(f"waited in vain for {text!r}: {self.seen[-2000:]!r}")
            self.read(0.1)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def close(self) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGTERM)
        try:
            while self.read(5):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.master)


def tokens(folder: Path, count: int) -> None:
    """CPU of a token near the start of an answer, and at its end."""
    out = folder / "marks.json"
    run = Run(folder, BENCH_TOKENS=str(count), BENCH_OUT=str(out))
    run.type(b"go\r")
    end = time.monotonic() + 900
    while not out.exists() and time.monotonic() < end:
        run.read(0.5)
    run.close()
    (first, at_first), (second, at_second), (third, at_third), (last, at_last) = json.loads(out.read_text())
    early = (at_second - at_first) / (second - first) * 1e6
    late = (at_last - at_third) / (last - third) * 1e6
    print(f"CPU of a token, {count} in all: tokens {first}-{second}: {early:.0f} us, {third}-{last}: {late:.0f} us,")
    print(f"  ratio {late / early:.2f}; all of it {at_last:.1f} s, {at_last / last * 1e6:.0f} us a token")


def echo(folder: Path, command: str, keys: int) -> list[float]:
    """Milliseconds from a key to its echo, while a command runs."""
    run = Run(folder, BENCH_TOKENS="1", BENCH_OUT=os.devnull, BENCH_COMMAND=command)
    run.type(b"go\r")
    run.until(b"bash")
    while run.read(1.0 if "sleep" in command else 0.2) and time.monotonic() < 0:
        pass
    found = []
    for number in range(keys):
        key = b"abcdefghij"[number % 10 : number % 10 + 1]
        began = time.monotonic()
        run.type(key)
        while time.monotonic() - began < 5:
            data = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", run.read(1))
            if key in data:
                break
        found.append((time.monotonic() - began) * 1000)
        run.read(0.03)
    run.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--keys", type=int, default=100)
    args = parser.parse_args()
    for name, command in (("quiet", "sleep 60"), ("a flood", "timeout 60 yes 'a line of a flood of output'")):
        with tempfile.TemporaryDirectory() as folder:
            found = sorted(echo(Path(folder), command, args.keys))
        late = found[int(len(found) * 0.95)]
        print(f"a key to its echo, {name}: median {statistics.median(found):.1f} ms, 95 % within {late:.1f} ms")
    with tempfile.TemporaryDirectory() as folder:
        tokens(Path(folder), args.tokens)


if __name__ == "__main__":
    main()
