"""For the tests of plugins: a harness in memory, a model that plays a script, logs on one line.

    from dsh.testing import call, memory_agent, shape, text

    async def test_my_guard_denies():
        async with memory_agent(call("bash", {"command": "sudo ls"}), text("ok"), plugins={"mine": my_plugin}) as agent:
            result = await agent.run("go")
            assert "TR!(c1)" in shape(agent.session.events)

Installed with dsh is a pytest plugin, `dsh.testing.plugin`, whose fixture ``no_leftovers`` fails a
test that leaves a Trio task or a child process behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve

from ..agents import Agent, AgentOptions
from ..config import Config
from ..harness import Harness, open_harness
from ..hooks.markers import hookimpl
from ..llm.scripted import Reply, ScriptedModel, call, cut, fail, hang, reply, text
from ..session import events as ev
from ..tools.tool import Tool, ToolCall
from .grammar import LogCheck

if TYPE_CHECKING:
    from ..session.events import Event

__all__ = [
    "Reply",
    "ScriptedModel",
    "call",
    "child_processes",
    "cut",
    "fail",
    "hang",
    "memory_agent",
    "memory_harness",
    "on_event",
    "plugin_of",
    "reply",
    "shape",
    "text",
    "tool_of",
    "wrapper_of",
]


def _installed(name: str) -> dict[str, object]:
    return {entry.name: entry.load() for entry in entry_points(group="dsh", name=name)}


@asynccontextmanager
async def memory_harness(
    *replies: Reply,
    model: ScriptedModel | None = None,
    plugins: Mapping[str, object] | None = None,
    config: Config | None = None,
    warnings: list[str] | None = None,
    check_logs: bool = True,
    invariants: bool = True,
) -> AsyncIterator[Harness]:
    """A harness without files: the loop, a scripted model as ``scripted/model``, and the plugins given.

    Args:
        replies: the model's script; or give the `model` itself.
        plugins: by name.
        warnings: what the harness warns of is added to it.
        check_logs: fail when it closes if a log breaks the rules in `dsh.session.grammar`.
        invariants: have the plugin `invariants`, if it is installed, check everything else that dsh promises;
            for a test that breaks a promise on purpose, False.
    """
    model = ScriptedModel(*replies) if model is None else model
    given = {**_installed("loop"), "model": model, **(plugins or {})}
    if check_logs:
        given["log-check"] = LogCheck()
    if invariants and (checks := _installed("invariants")):
        given = {**checks, **given}
        config = Config() if config is None else config
        config = evolve(config, tables={"invariants": {"enabled": True}, **config.tables})
    heard = warnings if warnings is not None else []
    with tempfile.TemporaryDirectory(prefix="dsh-test-") as home:
        async with open_harness(config, plugins=given, discover=False, home=Path(home), warn=heard.append) as harness:
            yield harness
        # Where a hook's errors are contained, a violation would show as a warning at most.
        found = getattr(harness.plugins.get_plugin("invariants.checks"), "violations", ()) if invariants else ()
        for error in found:
            raise error


@asynccontextmanager
async def memory_agent(
    *replies: Reply,
    model: ScriptedModel | None = None,
    plugins: Mapping[str, object] | None = None,
    config: Config | None = None,
    warnings: list[str] | None = None,
    check_logs: bool = True,
    invariants: bool = True,
    **create: Any,
) -> AsyncIterator[Agent]:
    """An agent in a `memory_harness`, on the scripted model; it is disposed when the block ends.

    Args:
        create: passed to `Harness.create_agent`.
    """
    create.setdefault("options", AgentOptions(model="scripted/model"))
    async with memory_harness(
        *replies,
        model=model,
        plugins=plugins,
        config=config,
        warnings=warnings,
        check_logs=check_logs,
        invariants=invariants,
    ) as harness:
        yield harness.create_agent(**create).agent


class _Plugin:
    """A plugin whose hooks are given one by one."""


def plugin_of(**functions: Callable[..., Any]) -> object:
    """A plugin made of functions: ``plugin_of(agent_status=lambda agent, status: ...)``.

    Args:
        functions: implementations, by the names of their hooks; each takes the arguments it names.
    """
    plugin = _Plugin()
    for hook, function in functions.items():
        setattr(plugin, hook, hookimpl(function))
    return plugin


def wrapper_of(**functions: Callable[..., Any]) -> object:
    """A plugin like that of `plugin_of`, but of wrappers."""
    plugin = _Plugin()
    for hook, function in functions.items():
        setattr(plugin, hook, hookimpl(wrapper=True)(function))
    return plugin


def tool_of(name: str, do: Callable[[ToolCall], Any] = lambda call: "done", *, parallel: bool = False) -> object:
    """A plugin that offers one tool, without parameters of its own.

    Args:
        do: called with each call; its result, or what is awaited of it, is the tool's.
    """
    tool = Tool(name, f"The tool {name}.", {"type": "object"}, lambda arguments, call: do(call), parallel)
    return plugin_of(tools_register=lambda tools: tools.add(tool))


def on_event(kind: type[Any], do: Callable[[Event], object], *, every: bool = False) -> object:
    """A plugin that calls `do` in the frame of the next append of an event of that class, or of `every` one."""
    waiting = True

    def session_event(event: Event) -> None:
        nonlocal waiting
        if isinstance(event.data, kind) and (waiting or every):
            waiting = False
            do(event)

    return plugin_of(session_event=session_event)


def shape(events: Iterable[Event]) -> str:
    """A log on one line, for comparing.

    ``T+n``/``T-(reason)`` turn, ``S+n``/``S-n`` step, ``U`` user, ``PB`` blocked prompt, ``CX`` context,
    ``ST`` steering, ``H(reason)``/``HD`` header, ``C×n`` chunks, ``A`` answer (``A~`` interrupted),
    ``TC(id)``/``TR(id)`` call and result (``TR!`` an error), ``D(plugin verdict)`` a hook's decision, and
    the type of anything else.
    """
    words: list[str] = []
    chunks = 0
    for event in events:
        if isinstance(event.data, ev.AssistantChunk):
            chunks += 1
            continue
        if chunks:
            words.append(f"C×{chunks}")
            chunks = 0
        words.append(_word(event))
    if chunks:
        words.append(f"C×{chunks}")
    return " ".join(words)


def _word(event: Event) -> str:
    match event.data:
        case ev.TurnStart(turn=turn):
            return f"T+{turn}"
        case ev.TurnEnd(reason=reason):
            extra = reason.reason if reason.reason is not None else reason.step
            return f"T-({reason.kind})" if extra is None else f"T-({reason.kind} {extra})"
        case ev.StepStart(step=step):
            return f"S+{step}"
        case ev.StepEnd(step=step):
            return f"S-{step}"
        case ev.UserMessage():
            return "U"
        case ev.PromptBlocked():
            return "PB"
        case ev.ContextMessage():
            return "CX"
        case ev.SteeringMessage():
            return "ST"
        case ev.RequestHeader(reason=header_reason):
            return f"H({header_reason})"
        case ev.RequestHeaderDelta():
            return "HD"
        case ev.AssistantMessage(interrupted=interrupted):
            return "A~" if interrupted else "A"
        case ev.ToolCall(call_id=call_id):
            return f"TC({call_id})"
        case ev.ToolResult(call_id=call_id, is_error=is_error):
            return f"TR!({call_id})" if is_error else f"TR({call_id})"
        case ev.HookDecision(plugin=plugin, verdict=verdict):
            return f"D({plugin} {verdict})"
        case _:
            return event.type


def child_processes(pid: int | None = None) -> list[int]:
    """The ids of the live descendants of a process (default: this one); empty where ``/proc`` is missing."""
    found: list[int] = []
    waiting = [os.getpid() if pid is None else pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return sorted(found)


def _children(pid: int) -> list[int]:
    """The live children of a process, whichever of its threads started them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    except OSError:
        pass
    return [child for child in found if _is_alive(child)]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
