"""A program that embeds dsh, for the benchmark: plays the mock server's script to its end."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import trio

from dsh import AgentOptions, Tool, hookimpl, open_harness

OBJECT = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser()
    p.add_argument("--base-url", required=True)
    p.add_argument("--model", default="mock-1")
    p.add_argument("--prompt", default="say hi")
    p.add_argument("--tool", default="noop", help="noop | shell | sleep:MS")
    p.add_argument("--sessions", type=int, default=1)
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--store", default="", help="$DSH_HOME, if sessions are to be stored")
    p.add_argument("--resume", action="store_true")
    return p.parse_args()


class Own:
    """The benchmark's own tool."""

    def __init__(self, kind: str) -> None:
        name, _, pause = kind.partition(":")
        self.tools = []
        if name == "noop":
            self.tools.append(Tool("noop", "Do nothing.", OBJECT, lambda args, call: "", effect="none"))
        elif name == "sleep":

            async def nap(args, call):
                await trio.sleep(int(pause) / 1000)
                return ""

            self.tools.append(Tool("nap", "Sleep for a while.", OBJECT, nap, parallel=True, effect="none"))

    @hookimpl
    def tools_register(self, tools):
        for tool in self.tools:
            tools.add(tool)


async def main(a: argparse.Namespace) -> None:
    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = a.base_url, "bench-key"
    home = Path(a.store or os.environ["DSH_HOME"])
    left_out = ("local",) if a.store else ("local", "jsonl")
    from dsh.config import Config, PluginsConfig

    config = Config(plugins=PluginsConfig(disabled=left_out))
    wanted = ("bash",) if a.tool == "shell" else ("noop",) if a.tool == "noop" else ("nap",)
    options = AgentOptions(model=f"openai/{a.model}", tools=wanted)
    async with open_harness(config, plugins={"own": Own(a.tool)}, home=home) as harness, trio.open_nursery() as nursery:

        async def one(i: int) -> None:
            session_id = f"bench-{a.first + i}"
            if a.resume:
                handle = await harness.resume_agent("bench-1", options=options)
            else:
                handle = harness.create_agent(session_id=session_id, options=options)
            result = await handle.agent.run(f"{a.prompt} mkP{a.first + i:04d}")
            if "mkF" not in result.text:
                sys.exit(f"the script was not played to its end: {result}")
            await handle.dispose()

        for i in range(a.sessions):
            nursery.start_soon(one, i)


trio.run(main, arguments())
