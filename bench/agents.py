"""What an idle agent costs: memory and time, with a thousand of them in one process.

    python bench/agents.py [COUNT]

Each agent is on a session of its own, in memory; the second line is for agents that have had a turn of one
step.  Memory is what the process holds more than before, by what the system says, divided by COUNT.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path

import trio.testing

from dsh import AgentOptions
from dsh.testing import ScriptedModel, memory_harness, text

OPTIONS = AgentOptions(model="scripted/model")


def resident() -> int:
    """The bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main(count: int) -> None:
    """Make the agents, then give each a turn."""
    async with memory_harness(model=ScriptedModel(otherwise=text("ok")), check_logs=False) as harness:
        await harness.create_agent(options=OPTIONS).agent.run("warm up")  # imports are nobody's share
        before, began = resident(), time.perf_counter()
        agents = [harness.create_agent(options=OPTIONS).agent for _ in range(count)]
        await trio.testing.wait_all_tasks_blocked()
        took = time.perf_counter() - began
        print(f"made:       {(resident() - before) / count / 1024:6.1f} KiB, {took / count * 1e6:6.0f} us each")
        began = time.perf_counter()
        for agent in agents:
            await agent.run("go")
        took = time.perf_counter() - began
        print(f"had a turn: {(resident() - before) / count / 1024:6.1f} KiB, {took / count * 1e6:6.0f} us each")
        began = time.perf_counter()
    print(f"gone:       {'':10} {(time.perf_counter() - began) / count * 1e6:6.0f} us each")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if sys.argv[1:] else 1000)
