"""How much of what is sent was sent before, over a long run of plugins that contribute, and what watching it costs.

    python bench/prefix.py [STEPS]

Two runs are looked at.  In the first five plugins of the benchmark give a section, a variable, a tool and a message of
the session prefix each.  In the second they are joined by those that come with dsh: instructions, with a file below
that is found on the way, skills, todo, shell, files, spill, repeats, compaction and budget; what is done changes files
and the list of things to do, and one in ten results is too long.

The first lines of each count the canonical bytes of all requests, those among them that the request before began
with, and the changes that the plugin `prefix` found: there are to be none.  The last line is CPU time a step with and
without that plugin, the least of five runs of each, taken in turns; the ratio means the same on any machine, the times
do not.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import trio

from dsh import Tool
from dsh.jsonvalue import dumps
from dsh.llm.chunks import ChunkStream
from dsh.llm.scripted import Reply
from dsh.testing import ScriptedModel, call, memory_agent, plugin_of, text

ROUNDS = 5


def contributor(number: int) -> object:
    """A plugin that gives something of everything."""
    name, words = f"part_{number}", f"Sentence {number} of what the model is told. " * 20
    tool = Tool(f"tool_{number}", words, {"type": "object"}, lambda arguments, call: f"result {number} " * 50)
    return plugin_of(
        prompt_variables=lambda variables: variables.set(name, str(number)),
        prompt_sections=lambda sections: sections.add(name, words + "{{" + name + "}}", 100 + number),
        tools_register=lambda tools: tools.add(tool),
        agent_session_prefix=lambda prefix: prefix.add(words, order=number),
    )


class Recording(ScriptedModel):
    """Keeps the requests."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.sent: list[Any] = []

    def stream(self, request: Any, model: str) -> ChunkStream:
        self.sent.append(request)
        return super().stream(request, model)


REAL = ("instructions", "skills", "todo", "shell", "files", "spill", "repeats", "compaction", "budget")


def work(number: int, folder: Path) -> Reply:
    """A step of work: it writes, reads, runs, and plans."""
    state = "completed" if number % 7 else "in_progress"
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("write", {"file_path": f"new{number}.txt", "content": f"{number}\n"}),
        ("read", {"file_path": f"below/{number % 10}.txt"}),
        ("bash", {"command": f"seq {4000 if number % 2 else number}"}),
        ("todo_write", {"todos": [{"content": f"step {number}", "status": state}]}),
        ("skill", {"name": f"skill-{number % 3}"}),
    ]
    name, arguments = kinds[number % 5]
    return call(name, arguments, id=f"c{number}")


def furnish(folder: Path) -> None:
    """What the plugins find in the folder that is worked in."""
    (folder / ".git").mkdir()
    (folder / "below").mkdir()
    (folder / "AGENTS.md").write_text("Be brief.\n" * 50)
    (folder / "below/AGENTS.md").write_text("Be brief below, too.\n")
    for number in range(10):
        (folder / f"below/{number}.txt").write_text(f"file {number}\n" * 20)
    for number in range(3):
        skill = folder / f".dsh/skills/skill-{number}/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: skill-{number}\ndescription: How to do {number}.\n---\nDo it.\n")


async def run(steps: int, guarded: bool, real: bool) -> tuple[float, list[Any], int, Any]:
    """Seconds of CPU, the requests, the changes found, and the codec of the log."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        furnish(folder)
        replies = [work(n, folder) if real else call(f"tool_{n % 5}", {}, id=f"c{n}") for n in range(steps)]
        plugins: dict[str, object] = {f"part-{number}": contributor(number) for number in range(5)}
        if real:
            plugins |= {each: importlib.import_module(f"dsh_{each}") for each in REAL}
        if guarded:
            plugins["prefix"] = importlib.import_module("dsh_prefix")
        return await measured(Recording(*replies, text("done")), plugins, folder)


async def measured(model: Recording, plugins: dict[str, object], folder: Path) -> tuple[float, list[Any], int, Any]:
    """One run of the model's script."""
    settings: dict[str, Any] = {"model": model, "plugins": plugins, "check_logs": False, "invariants": False}
    async with memory_agent(cwd=str(folder), **settings) as agent:
        began = process_time()
        await agent.run("go")
        took = process_time() - began
        assert agent.session.events[-1].data.reason.kind == "completed"
        changes = sum(event.type == "prefix/changed" for event in agent.session.events)
        return took, model.sent, changes, agent.harness.codec


def canonical(request: Any, codec: Any) -> list[bytes]:
    """The request's parts as bytes, in the order in which a provider caches them."""
    tools = [dumps([tool.name, tool.description, tool.parameters]) for tool in request.tools or ()]
    messages = [
        dumps({"role": message.role, "content": codec.to_json(message.content)}) for message in request.messages
    ]
    return [(request.system or "").encode(), *tools, *messages]


async def main(steps: int) -> None:
    """Print the figures."""
    for real in (False, True):
        print("\nwith the plugins that come with dsh:" if real else "five plugins:")
        await figures(steps, real)


async def figures(steps: int, real: bool) -> None:
    """Print those of one kind of run."""
    _, sent, changes, codec = await run(steps, True, real)
    bodies = [canonical(request, codec) for request in sent]
    whole = sum(len(part) for body in bodies for part in body)
    again = 0
    for last, body in itertools.pairwise(bodies):
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(last, body, strict=False))
        again += sum(len(part) for part, _ in same)
    first = sum(map(len, bodies[0]))
    share = again / (whole - first)
    print(f"{len(bodies)} requests, {whole:,} bytes; {again:,} were sent before ({share:.1%} after the first)")
    fresh = whole - again - first
    print(f"new bytes a step: {fresh / steps:,.0f}; changes of the prefix: {changes}")
    with_guard, without = [], []
    for _ in range(ROUNDS):
        without.append((await run(steps, False, real))[0])
        with_guard.append((await run(steps, True, real))[0])
    one, other = min(with_guard) / steps * 1e6, min(without) / steps * 1e6
    print(f"CPU a step: {other:.0f} us without the guard, {one:.0f} us with it: {one / other:.2f} times")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if sys.argv[1:] else 200)
