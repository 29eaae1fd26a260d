"""A hundred children of one parent, whose model takes 50 ms to answer: wall time against the ideal, and memory.

    python bench/subagents.py [COUNT [STEPS]]

Each child makes STEPS requests, and a call of a tool that does nothing between two of them.  Ideal is the
time that the model takes: STEPS times 50 ms for children that all work at once, and so often as there are rounds
of them where a model starts them with its calls, sixteen at a time.  Memory is what the process holds more
than before, by what the system says, divided by COUNT.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import dsh_subagents
import trio
import trio.testing
from dsh_subagents import subagents_of
from dsh_subagents.provider import Task

from dsh import Agent, AgentOptions, Config, Request
from dsh.llm.scripted import ScriptedModel, call, hang, reply, text
from dsh.testing import memory_harness, plugin_of, tool_of

LATENCY = 0.05
OPTIONS = AgentOptions(model="scripted/model")
AT_ONCE = 16


def resident() -> int:
    """The bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Model:
    """Answers after `LATENCY`: with a call until a child has made its steps, then with a word."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.hangs = False
        self.asked: dict[str, int] = {}

    def answer(self, agent: Agent, request: Request) -> Any:
        """The stream of a child's next answer; None for its parent."""
        if not agent.depth:
            return None
        number = self.asked[agent.id] = self.asked.get(agent.id, 0) + 1
        if self.hangs:
            return ScriptedModel(hang("at work")).stream(request, "")
        last = number >= self.steps
        if last:
            del self.asked[agent.id]
        return self._late(ScriptedModel(text("done") if last else call("noop", id=f"c{number}")).stream(request, ""))

    async def _late(self, stream: Any) -> Any:
        await trio.sleep(LATENCY)
        async for chunk in stream:
            yield chunk


async def main(count: int, steps: int) -> None:
    """Measure, and print a line for each."""
    model, seen = Model(steps), weakref.WeakSet[Agent]()
    watch = plugin_of(
        llm_stream=lambda agent, request: model.answer(agent, request), agent_created=lambda agent: seen.add(agent)
    )
    calls = [(f"s{n}", "subagent", {"description": "x", "prompt": "go"}) for n in range(count)]
    plugins = {"subagents": dsh_subagents, "watch": watch, "noop": tool_of("noop")}
    config = Config(tables={"subagents": {"concurrency": count, "depth": 1}})
    parents = (text("warm"), reply(calls=calls), text("done"))
    async with memory_harness(*parents, plugins=plugins, config=config, check_logs=False, invariants=False) as harness:
        parent = harness.create_agent(options=OPTIONS).agent
        subagents = subagents_of(harness)
        await parent.run("warm")
        await subagents.run("spawn", Task(parent, "x", "warm up"))  # imports are nobody's share

        model.hangs = True
        before = resident()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(subagents.run, "spawn", Task(parent, "x", "go"))
            await trio.testing.wait_all_tasks_blocked()
            each = (resident() - before) / count
            print(f"a live child: {each / 1e6:.3f} MB ({len(harness.agents.list()) - 1} of them)")
            nursery.cancel_scope.cancel()
        model.hangs = False
        model.asked.clear()

        began = clock()
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(subagents.run, "spawn", Task(parent, "x", "go"))
        show("all at once", began, steps * LATENCY)

        began = clock()
        await parent.run("go")
        show("by a model's calls", began, -(-count // AT_ONCE) * steps * LATENCY)

        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        left = len(seen) - 1
        print(f"kept of children that are gone: {left} agents, {len(harness.sessions.list()) - 1} sessions")


def clock() -> tuple[float, float]:
    """Wall and CPU time."""
    return time.perf_counter(), time.process_time()


def show(what: str, began: tuple[float, float], ideal: float) -> None:
    """Print a time against the ideal, and how much of it was work: on a busy machine that takes longer."""
    took, cpu = (now - then for now, then in zip(clock(), began, strict=True))
    print(
        f"{what}: {took * 1000:.0f} ms, ideal {ideal * 1000:.0f} ms, {took / ideal:.2f} times; {cpu * 1000:.0f} ms CPU"
    )


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if sys.argv[1:] else 100, int(sys.argv[2]) if sys.argv[2:] else 20)
