"""Long runs against the scripted service, which refuses histories whose calls and results do not pair."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dsh_anthropic
import dsh_chat
import dsh_compaction
import pytest
import trio
from dsh_compaction import Summary

from dsh import Agent, AgentOptions
from dsh.config import Config
from dsh.session.events import TodoItem, TodoWrite, UserMessage
from dsh.testing import memory_harness, plugin_of, shape, tool_of

SHARED = Path(__file__).parents[3] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"
PROMPT = """
import runpy, socketserver, sys
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs the service without the 40 ms that it would wait before each of its answers."""
TRAJECTORIES = sorted((SHARED / "trajectories").glob("*.script.json"))

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted service is not here")


@asynccontextmanager
async def service(script: Path, log: Path) -> AsyncIterator[str]:
    """The address of a service that plays a script; what it is asked goes to `log`."""
    command = [sys.executable, "-c", PROMPT, str(SERVER), str(script), "--port", "0", "--log", str(log)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        with trio.fail_after(60):
            url = bytes(await process.stdout.receive_some()).decode().strip()
        yield f"{url}/v1"
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


@asynccontextmanager
async def talking(
    tmp_path: Path, script: Path, tools: Mapping[str, Callable[[Any], Any]], settings: Mapping[str, Any]
) -> AsyncIterator[Agent]:
    """An agent whose steps are answered by one service, and its summaries by another, so that each has its order."""
    summaries = tmp_path / "summaries.json"
    summaries.write_text(json.dumps([{"text": "1. Request: see below. 5. Open: the rest.", "repeat": True}]))
    async with (
        service(script, tmp_path / "steps.jsonl") as steps,
        service(summaries, tmp_path / "asked.jsonl") as asked,
    ):
        providers = {name: {"base_url": url, "models": ["m"]} for name, url in (("main", steps), ("brief", asked))}
        tables = {"providers": providers, "compaction": {"model": "brief/m", **settings}}
        plugins = {
            "chat": dsh_chat,
            "compaction": dsh_compaction,
            **{f"tool-{name}": tool_of(name, do) for name, do in tools.items()},
        }
        async with memory_harness(plugins=plugins, config=Config(tables=tables)) as harness:
            yield harness.create_agent(options=AgentOptions(model="main/m")).agent


BRIEF = plugin_of(compaction_summarise=lambda: Summary("it was looked at"))
"""Writes summaries without a model, so that the script's order is that of the steps."""


def sent(log: Path) -> list[dict[str, Any]]:
    """What a service was asked, and did not refuse."""
    found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    assert [request["refused"] for request in found] == [None] * len(found)
    return [request["body"] for request in found]


def weight(body: dict[str, Any]) -> float:
    """Tokens of a request, by its characters."""
    return len(json.dumps(body, ensure_ascii=False)) / 4


async def test_three_hundred_steps_in_a_small_window(tmp_path: Path, check: Any) -> None:
    """The requests stay within the window, nothing is orphaned, and what must not be forgotten is in the last one."""
    window = 8000
    replies = []
    for number in range(300):
        name = {0: "todo_write", 3: "edit", 5: "read"}.get(number % 10, "look")
        calls = [[name, {"file_path": f"/src/part{number // 100}.py"} if name != "look" else {"n": number}]]
        if number % 7 == 0:
            calls.append(["look", {"n": -number}])
        replies.append({"text": f"step {number}", "reasoning": "so " * 20, "calls": calls})
    script = tmp_path / "script.json"
    script.write_text(json.dumps([*replies, {"text": "all done"}]))

    def look(call: Any) -> str:
        return f"result of {call.arguments.get('n')}: " + "alpha beta gamma " * (2000 if call.step % 50 == 7 else 60)

    def todo(call: Any) -> str:
        rows = (TodoItem("read it all", "completed"), TodoItem(f"part {call.step}", "in_progress"))
        call.agent.session.append(TodoWrite(rows))
        return f"in_progress: part {call.step}"

    tools = {"look": look, "todo_write": todo, "edit": lambda call: "changed", "read": look}
    async with talking(tmp_path, script, tools, {"context_window": window}) as agent:
        result = await agent.run("migrate the billing service; the ticket is BILL-2209 and vendor/ must not be touched")
        check(agent.session)
        log = shape(agent.session.events)
    assert result.text == "all done"
    steps = sent(tmp_path / "steps.jsonl")
    assert len(steps) == 301
    assert max(map(weight, steps)) < window
    assert max(map(weight, sent(tmp_path / "asked.jsonl"))) < window
    assert log.count("compact/summary") > 5
    last = json.dumps(steps[-1]["messages"])
    for fact in ("BILL-2209", "vendor/ must not be touched", "in_progress: part 291", "/src/part2.py", "/src/part0.py"):
        assert fact in last
    # Most requests begin as the one before did, so that a provider's cache holds.
    kept = sum(a["messages"] == b["messages"][: len(a["messages"])] for a, b in pairwise(steps))
    assert kept > 0.85 * len(steps)


async def test_another_dialect(tmp_path: Path, check: Any) -> None:
    """Thoughts, calls beside each other and summaries, as the Messages API has them; one service answers all."""
    replies: list[dict[str, Any]] = []
    for number in range(40):
        calls = [["look", {"n": number}], ["look", {"n": -number}]][: 1 + number % 2]
        replies.append({"text": f"step {number}", "reasoning": "so " * 20, "calls": calls})
    script = tmp_path / "script.json"
    script.write_text(json.dumps(replies))
    async with service(script, tmp_path / "steps.jsonl") as url:
        service_of = {"services": {"main": {"base_url": url.removesuffix("/v1"), "models": ["m"]}}}
        tables = {"anthropic": service_of, "compaction": {"context_window": 6000, "tries": 1}}
        look = tool_of("look", lambda call: "alpha beta gamma " * 60, parallel=True)
        plugins = {"anthropic": dsh_anthropic, "compaction": dsh_compaction, "strategy": BRIEF, "tool": look}
        async with memory_harness(plugins=plugins, config=Config(tables=tables)) as harness:
            agent = harness.create_agent(options=AgentOptions(model="main/m")).agent
            assert (await agent.run("do it")).text == "(script ended)"
            check(agent.session)
            assert shape(agent.session.events).count("compact/summary") > 1
    steps = sent(tmp_path / "steps.jsonl")
    assert max(map(weight, steps)) < 6000


@pytest.mark.parametrize("path", TRAJECTORIES, ids=lambda path: path.name.removesuffix(".script.json"))
async def test_a_recorded_run_in_a_fifth_of_its_size(tmp_path: Path, check: Any, path: Path) -> None:
    """Tools answer what was recorded; where the person spoke in between, somebody says to go on."""
    played = json.loads(await trio.Path(path).read_text(encoding="utf-8"))
    window = max(len(json.dumps(played["steps"], ensure_ascii=False)) // 4 // 5, 200)
    results: list[str] = []
    names = set()
    for step in played["steps"]:
        recorded = {result["id"]: result["content"] for result in step.get("recorded_results") or ()}
        for call in step["model"].get("tool_calls") or ():
            names.add(call["name"])
            results.append(recorded.get(call["id"], "(nothing was recorded)"))
    answers = iter(results)
    tools = {name: lambda call: next(answers) for name in names}
    task = played.get("task") or "do it"
    async with talking(tmp_path, path, tools, {"context_window": window}) as agent:
        for number in range(len(played["steps"])):
            await agent.run(task if number == 0 else "go on")
            if len(sent(tmp_path / "steps.jsonl")) >= len(played["steps"]):
                break
        check(agent.session)
        events = agent.session.events
    steps = sent(tmp_path / "steps.jsonl")
    assert len(steps) - len(played["steps"]) in (0, 1)  # a script that ends in a call is asked once more
    assert next(answers, None) is None
    assert task[:100] in "\n".join(message.get("content") or "" for message in steps[-1]["messages"])
    if window > 3000:
        assert any(isinstance(e.data, UserMessage) and e.surface_op != "append" for e in events)
    if window > 1200:
        assert max(map(weight, steps)) < 1.1 * window
