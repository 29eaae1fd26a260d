"""Recorded sessions of another harness, played through a whole one: the same events come out.

`comparable` names everything that may differ.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dsh_files
import dsh_replay
import dsh_shell
import dsh_subagents
import dsh_todo
import pytest
import trio
from attrs import evolve
from dsh_replay.config import ReplayConfig
from dsh_replay.script import load_scripts

from dsh import (
    Accept,
    Agent,
    AgentOptions,
    Allow,
    Ask,
    Block,
    Config,
    Continue,
    Deny,
    Harness,
    HookContext,
    PluginSource,
    RunResult,
)
from dsh.messages import text_of
from dsh.session import Event, Session, parse_log, rebuild_request
from dsh.session import events as ev
from dsh.session.codec import default_codec
from dsh.testing import memory_harness, on_event, plugin_of, tool_of

SHARED = Path(__file__).parents[3] / "../shared/recorded"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded sessions are not here")

RECORDED = sorted(path.name for path in SHARED.glob("*") if path.is_dir())
PLAYED = [
    "error-finish",
    "fs-policy-reject",
    "fs-read",
    "fs-read-window",
    "fs-terminal-card",
    "fs-write",
    "text-turn",
    "tool-call-turn",
]
"""Those that need the shell and files alone, and end by themselves."""
NOTE = "Note: command output has been verified against the audit log."
COLOUR = "The user has previously stated their favorite color is teal."
SECOND = "Also reply with the single word SECOND, then stop."


def said(text: str, dialect: str) -> HookContext:
    return HookContext(text, PluginSource(f"hooks-{dialect}"))


HOOKS: dict[str, dict[str, Any]] = {
    "hook-cc-posttool-block": {
        "tools_post_execute": lambda: Block("tool output rejected by policy: rerun with a summary instead")
    },
    "hook-cc-posttool-context": {"tools_post_execute": lambda: Accept(context=said(NOTE, "claude"))},
    "hook-cc-pretool-ask": {"tools_pre_execute": lambda: Ask("bash requires manual approval in this session")},
    "hook-cc-promptsubmit-block": {"agent_prompt_submit": lambda: Block("blocked by policy hook")},
    "hook-cc-promptsubmit-context": {"agent_prompt_submit": lambda: Allow(context=said(COLOUR, "claude"))},
    "hook-codex-posttool-context": {"tools_post_execute": lambda: Accept(context=said(NOTE, "codex"))},
    "hook-codex-pretool-block": {"tools_pre_execute": lambda: Deny("bash is disabled by codex policy in this session")},
    "hook-codex-promptsubmit-block": {"agent_prompt_submit": lambda: Block("blocked by codex policy hook")},
    "hook-codex-promptsubmit-context": {"agent_prompt_submit": lambda: Allow(context=said(COLOUR, "codex"))},
    "hook-codex-stop-continue": {
        "agent_turn_continuation": lambda agent: None if len(answers(agent)) > 1 else Continue(said(SECOND, "codex"))
    },
}
"""What the hook files of a recording decided, as hooks."""
EMPTY = {"handshake", "reject-extra-dirs"}
"""Those in which no turn began."""
TOOLS = {"files": dsh_files, "shell": dsh_shell, "todo": dsh_todo, "replay": dsh_replay}
MODEL = "deepseek-v4-flash"


def paths(name: str) -> tuple[Path, Path | None, list[Path]]:
    """The recording's own log, its override, and the logs of its children, last first."""
    override = SHARED / name / "script-override.json"
    children = sorted(SHARED.glob(f"{name}/session.*.jsonl"), reverse=True)
    return SHARED / name / "session.jsonl", override if override.exists() else None, children


def recorded(path: Path) -> list[Event]:
    return list(parse_log(path.read_bytes(), default_codec(), path.name).events)


def settings(name: str) -> Config:
    file, override, children = paths(name)
    table: dict[str, Any] = {"file": str(file), "children": [str(child) for child in children]}
    if override is not None:
        table["override"] = str(override)
    return Config(tables={"replay": table})


@asynccontextmanager
async def played(name: str, tmp_path: Path, **plugins: object) -> AsyncIterator[tuple[Harness, Agent]]:
    """An agent in a copy of the recording's workspace, whose model is the recording."""
    workspace = tmp_path / "workspace"
    source = SHARED / name / "workspace"
    if source.is_dir():
        shutil.copytree(source, workspace)
    else:
        workspace.mkdir()
    async with memory_harness(config=settings(name), plugins={**TOOLS, **plugins}) as harness:
        handle = harness.create_agent(options=AgentOptions(model=MODEL), cwd=str(workspace))
        yield harness, handle.agent


def prompts(events: Iterable[Event]) -> list[str]:
    asked = (event.data for event in events if isinstance(event.data, ev.UserMessage | ev.PromptBlocked))
    return [text_of(data.content) for data in asked]


def answers(agent: Agent) -> list[ev.AssistantMessage]:
    return [event.data for event in agent.session.events if isinstance(event.data, ev.AssistantMessage)]


async def run_all(agent: Agent, events: Iterable[Event]) -> RunResult:
    """Say what the person said in the recording."""
    result: RunResult | None = None
    for prompt in prompts(events):
        result = await agent.run(prompt)
    assert result is not None
    return result


def comparable(events: Iterable[Event]) -> list[Event]:
    """Events without what may differ from one run to another, and from one harness to the other.

    - Left out: ``hook/decision``, which only dsh has (here: that the plugin `replay` answered for the model);
      ``subagent/start`` and ``subagent/end``, which only dsh has in the log; ``hook/invoked`` and ``hook/result``,
      which only the other harness has, of the programs that were its hooks.
    - Left out: the answer that was cut off, ``assistant/message`` with `interrupted`, which only dsh keeps.
    - Numbers of events are counted anew after that; time and the line an event was read from are dropped.
    - Of a request's header, the system prompt, the tools and the prefix are dropped: they belong to the plugins
      that are installed, and were taken out of the recordings.
    - Of a tool's result, the words and `meta` are dropped: paths, and how each harness puts it.  Whether it is an
      error, and its name and code, stay; but for the code of a call that nobody approved, which only dsh gives.
    """
    kept = [event for event in events if not _only_in_one(event.data)]
    numbers = {event.seq: number for number, event in enumerate(kept)}
    found = []
    for event in kept:
        sources = event.source_event_seqs
        found.append(
            evolve(
                event,
                seq=numbers[event.seq],
                time=0,
                raw=None,
                data=_same_for_all(event.data),
                source_event_seqs=None if sources is None else tuple(numbers[seq] for seq in sources),
            )
        )
    return found


def _only_in_one(data: Any) -> bool:
    cut = isinstance(data, ev.AssistantMessage) and data.interrupted
    others = ("hook/decision", "hook/invoked", "hook/result", "subagent/start", "subagent/end")
    return bool(cut) or data.type in others


def _same_for_all(data: Any) -> Any:
    match data:
        case ev.RequestHeader(header=header):
            return evolve(data, header=ev.Header(header.config))
        case ev.ToolResult():
            unanswered = data.error is not None and data.error.code == "APPROVAL_UNANSWERED"
            return evolve(data, content=(), meta=None, error=None if unanswered else data.error)
    return data


def assert_same(session: Session, expected: list[Event]) -> None:
    ours, theirs = comparable(session.events), comparable(expected)
    assert [event.type for event in ours] == [event.type for event in theirs]
    assert ours == theirs


@pytest.mark.parametrize("name", RECORDED)
def test_every_recording_becomes_a_script(name: str) -> None:
    file, override, children = paths(name)
    config = ReplayConfig(str(file), None if override is None else str(override), tuple(map(str, children)))
    scripts = load_scripts(config)

    assert len(scripts) == 1 + len(children)
    answers = sum(isinstance(event.data, ev.StepStart) for path in (file, *children) for event in recorded(path))
    assert sum(len(script.replies) for script in scripts) == answers
    assert scripts[1:] == [load_scripts(ReplayConfig(str(child)))[0] for child in reversed(children)]


@pytest.mark.parametrize("name", RECORDED)
def test_every_request_of_a_recording_can_be_made_again(name: str) -> None:
    file, _, children = paths(name)
    for path in (file, *children):
        events = recorded(path)
        steps = [event.data for event in events if isinstance(event.data, ev.StepStart)]
        lengths = [len(rebuild_request(events, step.turn, step.step)[1]) for step in steps]
        assert lengths == sorted(set(lengths)), "every step sees more than the one before"
        assert bool(lengths) == any(isinstance(event.data, ev.UserMessage) for event in events)


@pytest.mark.parametrize("name", PLAYED)
async def test_a_recording_replays_to_the_same_events(name: str, tmp_path: Path) -> None:
    expected = recorded(paths(name)[0])
    async with played(name, tmp_path) as (_, agent):
        await run_all(agent, expected)
        assert_same(agent.session, expected)


async def test_the_tools_did_their_work(tmp_path: Path) -> None:
    async with played("fs-write", tmp_path) as (_, agent):
        result = await run_all(agent, recorded(paths("fs-write")[0]))
    assert result.text == "DONE"
    assert (tmp_path / "workspace" / "notes.txt").read_text() == "hello world"


async def test_a_cancelled_recording_is_cancelled_again(tmp_path: Path) -> None:
    expected = recorded(paths("cancel")[0])
    seen = trio.Event()
    chunks = [event for event in expected if isinstance(event.data, ev.AssistantChunk)]
    watch = on_event(ev.AssistantChunk, lambda event: event.data == chunks[-1].data and seen.set(), every=True)

    async with played("cancel", tmp_path, watch=watch) as (_, agent):
        agent.send(prompts(expected)[0])
        await seen.wait()
        agent.cancel("session/cancel")
        await agent.when_idle()
        assert_same(agent.session, expected)
        (kept,) = answers(agent)
        assert text_of(kept.content) == "partial"


@pytest.mark.parametrize("name", ["subagent-spawn", "subagent-multi"])
async def test_children_play_their_own_recordings(name: str, tmp_path: Path) -> None:
    file, _, paths_of_children = paths(name)
    children: list[Session] = []
    seen = plugin_of(agent_created=lambda agent: children.append(agent.session) if agent.parent is not None else None)
    async with played(name, tmp_path, subagents=dsh_subagents, seen=seen) as (_, agent):
        expected = recorded(file)
        await run_all(agent, expected)
        assert_same(agent.session, expected)
        told, results = (
            [text_of(event.data.content) for event in events if isinstance(event.data, ev.ToolResult)]
            for events in (agent.session.events, expected)
        )
        assert told == results
        assert {session.header.parent_session for session in children} == {agent.session.id}

    assert len(children) == len(paths_of_children)
    for session, path in zip(children, sorted(paths_of_children), strict=True):
        assert_same(session, recorded(path))


@pytest.mark.parametrize("name", HOOKS)
async def test_decisions_of_hooks_have_the_same_effects(name: str, tmp_path: Path) -> None:
    """The hooks are stand-ins for the recording's hook files: they decide what those decided."""
    expected = recorded(paths(name)[0])
    async with played(name, tmp_path, hooks=plugin_of(**HOOKS[name])) as (_, agent):
        await run_all(agent, expected)
        assert_same(agent.session, expected)


async def test_a_script_stands_in_for_a_log(tmp_path: Path) -> None:
    """The tool is a stand-in, as the skill itself was not recorded."""
    expected = recorded(paths("skill-load")[0])
    async with played("skill-load", tmp_path, skill=tool_of("skill", lambda call: call.arguments["name"])) as (
        _,
        agent,
    ):
        await run_all(agent, expected)
        assert_same(agent.session, expected)


def test_nothing_is_left_out() -> None:
    others = {"cancel", "skill-load", "subagent-multi", "subagent-spawn"}
    assert set(RECORDED) == {*PLAYED, *HOOKS, *EMPTY, *others}
    assert all(not recorded(paths(name)[0]) for name in EMPTY)
